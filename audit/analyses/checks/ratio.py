"""The policy ratio: 1 before any update, 1 for good where there is one update a batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, correlation, problem
from audit.analyses.checks.token_batch import TokenBatch
from audit.analyses.inner_updates import inner_update
from audit.schema import Problem

NOISE = 1e-4
"""|log-ratio| below this is rounding, not another policy; heuristic."""
BAND = (0.9, 1.1)
LOUD = 1.0
"""|log-ratio| of a token that rounding does not make; heuristic."""


def _measure(tokens: TokenBatch) -> dict[str, np.ndarray]:
    if not tokens.has("logp_theta", "logp_old"):
        return {}
    gap = tokens.gap("theta", "old")
    out = (gap < np.log(BAND[0])) | (gap > np.log(BAND[1]))
    if tokens.masked is not None:
        out &= ~tokens.masked
    return {"out_of_band": tokens.count(out)}


def _find(look: Look) -> Iterator[Problem]:
    rows = look.rows
    largest = look.fact("log_ratio_max", "logp_theta", "logp_old")
    if largest is None:
        return
    yield from _at_start(look, largest)
    if not (largest > NOISE).any():
        said = "Every policy ratio is 1: clipping is inactive, and its settings make no difference."
        if (inner_update(rows) == 0).all():
            said = "1 update per batch. " + said
        yield problem(
            look,
            "ratio.always-one",
            np.ones(rows.num_rows, dtype=bool),
            said + _no_information(look),
            "info",
            column="logp_theta",
        )


def _no_information(look: Look) -> str:
    text = " Where advantages sum to 0 the loss is 0 too, and says nothing: its gradient is not 0."
    loss = look.metric("loss", "policy_loss", "pg_loss", "actor_loss")
    if loss is not None:
        text += f" Logged {loss[0]}: {np.nanmean(np.abs(loss[2])):.2g} on average."
    return text


def _at_start(look: Look, largest: np.ndarray) -> Iterator[Problem]:
    """At the first inner pass of the first update the policy is still the old one."""
    rows = look.rows
    first = rows.update == rows.update[rows.epoch == rows.epoch.min()].min()
    off = first & (largest > NOISE)
    if not off.any() or (look.declared is not None and look.declared.ratio.denominator == "sampler"):
        return
    said = (
        f"{int(off.sum())} responses of the first update have |log-ratio| up to {largest[first].max():.3g} "
        "before any step was taken: logp_old is not the policy that is being updated."
    )
    yield problem(
        look,
        "ratio.not-one-at-start",
        off,
        said + _noise(look),
        column="logp_old",
        certainty="likely",
    )


def _noise(look: Look) -> str:
    """Whether the first mini-batch of every step looks like rounding: mean 1, no drift."""
    rows = look.rows
    start = (inner_update(rows) == 0) & ~rows.greedy
    ratio, loss = look.fact("ratio", "logp_theta", "logp_old"), look.loss_tokens
    if ratio is None or loss is None or not look.tokens.has("out_of_band"):
        return ""
    start &= np.isfinite(ratio)
    count = loss[start].sum()
    if not count:
        return ""
    out = look.tokens["out_of_band"][start].sum() / count
    mean = ratio[start].sum() / count
    shift = look.rows.facts["log_ratio"][start] / np.maximum(loss[start], 1) if look.rows.facts else None
    drift = correlation(shift, rows.step[start].astype(float)) if shift is not None else float("nan")
    largest = float(np.nanmax(look.rows.facts["log_ratio_max"][start])) if look.rows.facts else 0.0
    quiet = abs(mean - 1.0) < 0.01 and not abs(drift) > 0.3
    kind = "numeric noise" if quiet and largest < LOUD else "not noise alone"
    moved = "drifting with the step" if abs(drift) > 0.3 else "no drift"
    return (
        f" First mini-batches: {out:.1%} of {count:.0f} tokens outside {BAND[0]}..{BAND[1]}, "
        f"mean {mean:.3f}, {moved}: {kind}."
    )


CHECK = Entry(
    "the policy ratio before and between updates",
    {
        "ratio.not-one-at-start": "the ratio is not 1 before the first update",
        "ratio.always-one": "one update a batch: every ratio is 1, the clip inactive, the loss uninformative",
    },
    _find,
    ("logp_theta", "logp_old"),
    _measure,
)
