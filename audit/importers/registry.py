"""Every format that can be imported. Adding one: its file, its test, and a line here."""

from __future__ import annotations

from audit.importers import (
    areal,
    art,
    atropos,
    generic,
    nemo_rl,
    oat,
    oat_evals,
    open_instruct,
    open_instruct_traces,
    prime_hosted,
    prime_rl,
    prime_rl_rollouts,
    roll,
    roll_board,
    skyrl,
    skyrl_evals,
    slime,
    trl,
    verifiers,
    verifiers_results,
    verl,
    verl_skip,
)
from audit.importers.interface import Importer

IMPORTERS: tuple[Importer, ...] = (
    trl.IMPORTER,
    verl.IMPORTER,
    verl_skip.IMPORTER,
    nemo_rl.IMPORTER,
    slime.IMPORTER,
    open_instruct.IMPORTER,
    open_instruct_traces.IMPORTER,
    prime_rl.IMPORTER,
    prime_rl_rollouts.IMPORTER,
    prime_hosted.IMPORTER,
    verifiers.IMPORTER,
    verifiers_results.IMPORTER,
    skyrl.IMPORTER,
    skyrl_evals.IMPORTER,
    areal.IMPORTER,
    atropos.IMPORTER,
    art.IMPORTER,
    roll.IMPORTER,
    roll_board.IMPORTER,
    oat.IMPORTER,
    oat_evals.IMPORTER,
    generic.IMPORTER,
)
