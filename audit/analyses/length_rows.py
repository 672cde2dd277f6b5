"""What questions about length are asked of: lengths, sides, groups and prompts of the first inner pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from audit.analyses.outcomes import correctness, first_pass
from audit.errors import MissingColumn
from audit.facts.rows import RunRows, dense
from audit.stats import Estimate

NOTHING = Estimate(None, None, None, 0)
SIDES = ("correct", "wrong", "all")
_RELATIVE = "reward above or below the group's mean"


@dataclass(frozen=True)
class LengthRows:
    """R rows of a run; arrays of shape (R,) in file order."""

    rows: RunRows
    length: np.ndarray
    """Response length in ``unit``, masked tokens included, float64; NaN where unknown."""
    unit: str
    """``tokens``, ``characters``, ``words`` or ``bytes``."""
    use: np.ndarray
    """bool; trained, of the first inner pass, of known length."""
    correct: np.ndarray
    """1, 0 or NaN."""
    correct_is: str
    absolute: bool
    """Whether ``correct`` says right or wrong; False: only above or below the mean of the group."""
    group: np.ndarray
    """Code of the responses that one policy gave to one prompt at one time, int64."""
    cluster: np.ndarray
    """Code of the prompt, int64: what intervals resample."""
    step: np.ndarray
    """float64; NaN where it is null."""
    doubts: list[str] = field(default_factory=list)

    def side(self, name: str) -> np.ndarray:
        """bool: used rows that are correct, wrong, or of any kind (``all``)."""
        if name == "all":
            return self.use
        return np.asarray(self.use & (self.correct == (1.0 if name == "correct" else 0.0)))

    @property
    def run_span(self) -> float:
        """Steps from the first used one to the last, at least 1."""
        step = self.step[self.use & np.isfinite(self.step)]
        return max(float(np.ptp(step)), 1.0) if len(step) else 1.0


def length_rows(rows: RunRows) -> LengthRows:
    """Collect them.

    Raises
    ------
    MissingColumn
        The log has neither tokens, nor lengths, nor text.
    """
    length, unit = _lengths(rows)
    side, how = correctness(rows)
    step = rows.numpy("step")
    doubts = []
    group, cluster = rows.sample, rows.prompt
    # Where rows name no group, one prompt at one step is one: the same policy answered it.
    loose = ~rows.grouped
    if loose.any():
        code = dense(rows.prompt, np.nan_to_num(step, nan=-1.0), rows.epoch)
        group = dense(loose, np.where(loose, code, group))
        doubts.append(
            f"{int(loose.sum())} rows have no group_id: rows of one prompt and step are their group"
        )
    if not rows.has("prompt_id"):
        cluster = dense(group)
        doubts.append("no prompt_id: intervals resample groups")
    if rows.has("trajectory_id"):
        doubts.append("rows of one trajectory are turns: lengths are those of turns, not of trajectories")
    if how == _RELATIVE:
        doubts.append(
            "there is neither a column 'correct' nor a reward with two values: correct and wrong stand for a "
            "reward above and below the mean of the group, and drift by correctness is left out"
        )
    return LengthRows(
        rows=rows,
        length=length,
        unit=unit,
        use=first_pass(rows) & np.isfinite(length),
        correct=side,
        correct_is=how,
        absolute=how != _RELATIVE,
        group=group,
        cluster=cluster,
        step=step,
        doubts=doubts,
    )


def _lengths(rows: RunRows) -> tuple[np.ndarray, str]:
    if rows.facts is not None:
        return rows.length, "tokens"
    if rows.has("length"):
        return rows.numpy("length"), rows.run.manifest.length_unit
    if not rows.has("response"):
        raise MissingColumn.needed_for(
            "token_ids", "length bias", rows.run.columns, hint="Or length, or response."
        )
    text = rows.run.responses(["response"])["response"]
    counted = pc.utf8_length(text).combine_chunks().cast("float64")
    return np.array(counted.to_numpy(zero_copy_only=False)), "characters"


def centred(values: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Values less the mean of their code; what rounding leaves of equal values is 0. Shape (n,)."""
    code = dense(code)
    size = np.bincount(code)
    made = values - (np.bincount(code, weights=values) / np.maximum(size, 1))[code]
    made[np.abs(made) < 1e-12 * np.abs(values)] = 0.0
    return np.asarray(made)
