"""Every format that can be imported. Adding one: its file, its test, and a line here."""

from __future__ import annotations

from audit.importers import generic, nemo_rl, slime, trl, verl, verl_skip
from audit.importers.interface import Importer

IMPORTERS: tuple[Importer, ...] = (
    trl.IMPORTER,
    verl.IMPORTER,
    verl_skip.IMPORTER,
    nemo_rl.IMPORTER,
    slime.IMPORTER,
    generic.IMPORTER,
)
