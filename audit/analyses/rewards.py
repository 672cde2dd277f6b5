"""What the reward is made of: components, saturation, cancellation, drift, and rewards that contradict."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow.compute as pc

from audit.analyses.left_out import files_left_out
from audit.analyses.outcomes import first_pass
from audit.analyses.overflow import overflow_notes
from audit.analyses.reward_components import component_values, components_of
from audit.analyses.reward_parts import RewardPart, reward_part
from audit.analyses.reward_signal import Signal, signal
from audit.analyses.reward_steps import RewardChange, reward_change
from audit.analyses.reward_texts import RewardTexts, reward_texts
from audit.analyses.samples import samples_of
from audit.analyses.skipped import Skipped
from audit.analyses.skips import Skips
from audit.analyses.text_codes import NEEDS
from audit.errors import MissingColumn
from audit.facts.rows import RunRows

_COMPONENTS = "components of the reward"


class Unscored(msgspec.Struct, frozen=True):
    """Responses of the first inner pass whose reward is not a number."""

    responses: int
    """Of all kinds, scored ones included."""
    null: int
    nan: int
    infinite: int


class RewardBreakdown(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit rewards --json``."""

    run: str
    samples: int
    groups: int
    unscored: Unscored
    reward: RewardPart
    components: list[RewardPart]
    signal: Signal | None
    changes: list[RewardChange]
    """The reward first, then its components."""
    texts: RewardTexts | None
    skipped: list[Skipped]
    notes: list[str]
    schema: str = "rlaudit.rewards.v1"


def reward_breakdown(rows: RunRows) -> RewardBreakdown:
    """Break the rewards of a run down.

    Raises
    ------
    MissingColumn
        No row has a group_id: what is within a group cannot be told.
    """
    if not rows.has("group_id"):
        raise MissingColumn.needed_for("group_id", "a breakdown of rewards", rows.run.columns)
    skips, samples = Skips(rows), samples_of(rows)
    named = [("reward", samples.reward)]
    made = None
    lacking = skips.lacks(_COMPONENTS, "reward_components")
    values = {} if lacking else component_values(rows)
    if not values and not lacking:
        skips.add(_COMPONENTS, "a value in reward_components")
    if values:
        parts = components_of(samples, values)
        named += zip(parts.names, parts.values.T, strict=True)
        made = signal(samples, parts) if samples.num_groups else None
    described = [reward_part(samples, name, values) for name, values in named]
    if not np.isfinite(samples.tokens).any():
        skips.add("correlation with length", "length or token_ids, in tokens")
    timeless = skips.lacks("change over steps", "step")
    return RewardBreakdown(
        run=rows.run.run_id,
        samples=len(samples.reward),
        groups=samples.num_groups,
        unscored=_unscored(rows),
        reward=described[0],
        components=described[1:],
        signal=made,
        changes=[] if timeless else [reward_change(samples, name, values) for name, values in named],
        texts=None if skips.lacks("rewards of equal texts", NEEDS) else reward_texts(rows, samples),
        skipped=skips.found,
        notes=[*rows.run.notes, *files_left_out(rows.run), *overflow_notes(rows)],
    )


def _unscored(rows: RunRows) -> Unscored:
    use = first_pass(rows)
    column = rows.table["reward"]
    null = np.asarray(column.is_null().to_numpy(), dtype=bool)
    nan = np.asarray(pc.fill_null(pc.is_nan(column), False).to_numpy(), dtype=bool)
    infinite = np.isinf(rows.numpy("reward"))
    return Unscored(int(use.sum()), *(int((use & each).sum()) for each in (null, nan, infinite)))
