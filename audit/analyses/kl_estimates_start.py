"""The KL to the reference at the first step: 0 where the reference is the policy that training began from."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from audit.facts.rows import RunRows
from audit.stats import Estimate, ratio_of_sums

SAME = 1e-6
"""Mean |d| per token, nats, up to which two policies are called the same; heuristic."""
NOISE = 0.03
"""Mean |d| up to which a difference without direction is called rounding; heuristic."""


class Start(msgspec.Struct, frozen=True):
    """log pi - log pi_ref on the tokens of the first logged step, per token, nats."""

    step: int
    of: Literal["theta", "old"]
    mean: Estimate
    """k1."""
    k3: Estimate
    size: Estimate
    """Mean |log pi - log pi_ref|."""
    state: Literal["same", "nearly", "different"]
    meaning: str


def start(rows: RunRows, of: Literal["theta", "old"], use: np.ndarray) -> Start | None:
    """Compare the policy of the first step, before any update where there are several, with the reference.

    Parameters
    ----------
    use : ndarray, shape (R,), bool
        Responses that count; None is returned where the first step has none.
    """
    assert rows.facts is not None
    first = int(rows.step[use].min()) if use.any() else 0
    here = use & (rows.step == first)
    names = [f"kl_{of}_ref_{form}" for form in ("k1", "k3", "abs")]
    sums = [rows.facts[name] for name in names]
    here &= np.isfinite(np.sum(sums, axis=0)) & (rows.facts["loss_tokens"] > 0)
    if not here.any():
        return None
    here &= rows.update == rows.update[here].min()
    tokens = rows.facts["loss_tokens"][here].astype(np.float64)
    mean, k3, size = (ratio_of_sums(s[here], tokens, rows.prompt[here], int(here.sum())) for s in sums)
    state = _state(mean.value or 0.0, size.value or 0.0)
    return Start(first, of, mean, k3, size, state, _meaning(state, first))


def _state(mean: float, size: float) -> Literal["same", "nearly", "different"]:
    if size <= SAME:
        return "same"
    return "nearly" if size <= NOISE and abs(mean) <= 0.25 * size else "different"


def _meaning(state: str, step: int) -> str:
    if state == "same":
        return "the reference is the policy that training began from"
    if state == "nearly":
        return "the same policy up to numeric noise: another precision, kernel or batch shape scored it"
    late = f"; the log begins at step {step}, so updates before it may be all of it" if step > 1 else ""
    return (
        "the reference is not the policy of the first step: another checkpoint or adapter, another chat "
        f"template or tokeniser, or a sampling temperature in only one of the two log-probs{late}"
    )
