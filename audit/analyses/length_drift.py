"""How lengths moved over a run, by correctness, with prompts held fixed.

A prompt has its own mean length (a fixed effect), so that a change of the prompts that come up, or of those
that are solved, is no drift. Among correct responses a prompt counts from when it is first solved: its fixed
effect is that of its correct responses.
"""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.length_rows import NOTHING, LengthRows, centred
from audit.facts.rows import dense
from audit.stats import Estimate, bootstrap, cluster_sums, estimate, ratio_of_sums


class Drift(msgspec.Struct, frozen=True):
    """Observed change of length from the first step to the last, in tokens, within prompt (least squares)."""

    correct: Estimate
    wrong: Estimate
    all: Estimate


class PromptMix(msgspec.Struct, frozen=True):
    """Change of length over the run, all responses: with and without the change of prompts."""

    raw: Estimate
    """Least squares on the step, whatever the prompt."""
    held: Estimate
    """The same with prompts held fixed."""
    mix: Estimate
    """raw - held: what comes from the prompts alone."""
    recurring: int
    """Prompts that come up at two steps or more: only they say anything about ``held``."""
    prompts: int


def length_drift(data: LengthRows) -> Drift:
    """Least-squares slope of length on the step within prompt, over the run; intervals resample prompts."""
    correct, wrong = (
        drift_among(data, data.side(name)) if data.absolute else NOTHING for name in ("correct", "wrong")
    )
    return Drift(correct, wrong, drift_among(data, data.side("all")))


def drift_among(data: LengthRows, chosen: np.ndarray, values: np.ndarray | None = None) -> Estimate:
    """The same of any quantity of shape (R,), length by default, over the rows chosen."""
    use = chosen & np.isfinite(data.step)
    if use.sum() < 3:
        return Estimate(None, None, None, int(use.sum()))
    y = (data.length if values is None else values)[use]
    x = centred(data.step[use] / data.run_span, data.cluster[use])
    code = dense(data.cluster[use])
    return ratio_of_sums(x * centred(y, code), x * x, code, int(use.sum()))


def prompt_mix(data: LengthRows) -> PromptMix:
    """Take the drift apart."""
    use = data.use & np.isfinite(data.step)
    x, y = data.step[use] / data.run_span, data.length[use]
    code = dense(data.cluster[use])
    n, prompts = int(use.sum()), int(code.max(initial=-1)) + 1
    pairs = np.unique(np.column_stack([code, data.step[use]]), axis=0)
    recurring = int((np.bincount(pairs[:, 0].astype(np.int64), minlength=prompts) > 1).sum())
    if n < 3:
        return PromptMix(NOTHING, NOTHING, NOTHING, recurring, prompts)
    x, y = x - x.mean(), y - y.mean()
    inner_x, inner_y = centred(x, code), centred(y, code)
    columns = [np.ones(n), x, y, x * y, x * x, inner_x * inner_y, inner_x * inner_x]
    interval = bootstrap(cluster_sums(np.column_stack(columns), code), _slopes)
    raw, held, mix = (estimate(interval, n, at) for at in range(3))
    return PromptMix(raw, held, mix, recurring, prompts)


def _slopes(totals: np.ndarray) -> np.ndarray:
    n, x, y, xy, xx, inner_xy, inner_xx = (totals[..., at] for at in range(7))
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = (n * xy - x * y) / (n * xx - x * x)
        held = inner_xy / inner_xx
    return np.stack([raw, held, raw - held], axis=-1)
