"""Do two runs score the same tokens alike? Sampler against trainer, number formats, the first ratio."""

from __future__ import annotations

from typing import get_args

import numpy as np

from audit.analyses.evidence_rows import evidence_rows
from audit.analyses.findings import Cause, Effect, Looked, Unseen, evidence_of, finding
from audit.analyses.inner_updates import FirstUpdate, first_update
from audit.analyses.mismatch_storage import ON_GRID
from audit.analyses.pair import Pair
from audit.analyses.sampler_gap import EQUAL, GapKind, sampler_gaps
from audit.analyses.sharper import sharper
from audit.facts.rows import RunRows
from audit.facts.tokenpass.breakdowns import OnGrid, name_of
from audit.facts.tokenpass.chunk import Policy

LEAST_TOKENS = 100
"""Log-probs that must be there before their number format is told; heuristic."""
MOVED = 1e-4
"""Root mean square of log rho at the first touch below this is rounding; heuristic."""
ANOTHER = 0.1
"""From here on it is more than number formats make: another policy; heuristic."""
LOUDER = 3.0
"""Factor between two first ratios that are both not 1; heuristic."""

_POLICIES: tuple[Policy, ...] = get_args(Policy)
_FORMATS = ("any", "bfloat16", "float16")


def numerics_facts() -> list[str]:
    """Facts that this file reads beyond those that are always kept."""
    return [name_of(OnGrid(policy, form)) for policy in _POLICIES for form in _FORMATS]  # type: ignore[arg-type]


def numerics_causes(pair: Pair) -> Looked:
    """Compare the log-probs themselves: number format, ratio at the first touch, gap to the sampler."""
    found = _precision(pair)
    rounded = bool(found.causes)
    gaps, kinds = sampler_gaps(pair, rounded=rounded)
    found.add(gaps)
    found.add(_first_touch(pair, kinds, told=rounded))
    return found


def _precision(pair: Pair) -> Looked:
    found = Looked()
    formats = [_formats(rows) for rows in pair.sides]
    compared = [policy for policy in _POLICIES if all(policy in f for f in formats)]
    if not compared:
        needs = pair.lacking("logp_old") or f"{LEAST_TOKENS} log-probs of one policy in both runs"
        found.unseen.append(Unseen("numerics.precision", needs))
    for policy in compared:
        (in_a, share_a, n_a), (in_b, share_b, n_b) = formats[0][policy], formats[1][policy]
        if in_a == in_b:
            if in_a is not None:
                found.notes.append(f"logp_{policy} is rounded to {in_a} in both runs.")
            continue
        effect = Effect(f"logp_{policy} on a short grid", share_a, share_b, share_b - share_a, None, None, [])
        summary = (
            f"logp_{policy} is {_format_in_words(in_a)} in A and {_format_in_words(in_b)} in B "
            f"({share_a:.1%} against {share_b:.1%} of {n_a:,} and {n_b:,} log-probs lie on that grid)."
        )
        evidence = evidence_of(effect, formats=[in_a or "float32", in_b or "float32"])
        found.causes.append(finding("numerics.precision", 0.9, summary, evidence | {"n": [n_a, n_b]}))
    return found


def _format_in_words(form: str | None) -> str:
    return f"rounded to {form}" if form else "not rounded"


def _formats(rows: RunRows) -> dict[str, tuple[str | None, float, int]]:
    """Format of the log-probs of each policy, share of them on the short grid, and their number."""
    facts = rows.facts
    said: dict[str, tuple[str | None, float, int]] = {}
    for policy in _POLICIES:
        if facts is None or not rows.has(f"logp_{policy}"):
            continue
        held, bf16, f16 = (float(np.nansum(facts[name_of(OnGrid(policy, f))])) for f in _FORMATS)  # type: ignore[arg-type]
        if held < LEAST_TOKENS:
            continue
        form = "bfloat16" if bf16 >= ON_GRID * held else "float16" if f16 >= ON_GRID * held else None
        said[policy] = (form, max(bf16, f16) / held, int(held))
    return said


def _first_touch(pair: Pair, kinds: tuple[GapKind | None, ...], *, told: bool) -> Looked:
    """At the first touch of a batch nothing was updated yet, so pi_theta / pi_old must be 1."""
    found = Looked()
    lacking = pair.lacking("logp_theta", "logp_old")
    if lacking:
        found.unseen.append(Unseen("numerics.precision", lacking))
        return found
    sides = [first_update(rows, ~rows.greedy & _takes_loss(rows)) for rows in pair.sides]
    if sides[0] is None or sides[1] is None:
        return found
    sizes = [side.typical if not side.exact else 0.0 for side in sides if side is not None]
    if min(sizes) > MOVED and max(sizes) < LOUDER * min(sizes):
        found.notes.append(
            f"At the first touch of a batch the policy ratio is not 1 in either run (rms log ratio "
            f"{sizes[0]:.2g} and {sizes[1]:.2g}): old log-probs come from another pass or another policy."
        )
        return found
    if max(sizes) <= MOVED or max(sizes) < LOUDER * min(sizes) or told:
        return found
    worse = int(sizes[1] > sizes[0])
    found.causes.append(_touch_cause(pair, worse, sizes, (sides[0], sides[1]), kinds[worse]))
    return found


def _touch_cause(
    pair: Pair, worse: int, sizes: list[float], sides: tuple[FirstUpdate, FirstUpdate], kind: GapKind | None
) -> Cause:
    rows, name = pair.sides[worse], "AB"[worse]
    summary = (
        f"At the first touch of a batch, before any update, the rms log ratio is {sizes[0]:.2g} in A and "
        f"{sizes[1]:.2g} in B; it must be 0. "
    )
    id_, confidence = "numerics.precision", 0.8
    at = np.flatnonzero(_takes_loss(rows) & (rows.step == rows.step.min()) & ~rows.greedy).tolist()
    scaled = sharper((rows, rows), (at, at), ("logp_old", "logp_theta")) if sizes[worse] > ANOTHER else None
    if scaled is not None:
        id_, confidence = "sampling.temperature", scaled.sure(0.85)
        summary += (
            f"{name}'s {('old', 'new')[scaled.colder]} log-probs are those of a temperature "
            f"{scaled.factor:.2f} times lower (read from {scaled.pairs or scaled.tokens:,} "
            f"{'pairs of tokens that follow one prefix' if scaled.pairs else 'likely tokens'}): one of them "
            "is not divided by it."
        )
    elif kind == EQUAL:
        id_, confidence = "numerics.mismatch", 0.9
        summary += f"{name}'s logp_old is the sampler's own, so its ratios hold the gap between engines."
    elif sizes[worse] > ANOTHER:
        id_, confidence = "staleness", 0.7
        summary += f"{name}'s logp_old is not the policy that is updated."
    else:
        summary += f"{name} scores old and new log-probs with another precision, kernel or batch shape."
    assert rows.facts is not None
    largest = rows.facts["log_ratio_max"]
    first = rows.step == rows.step.min()
    effect = Effect("rms log ratio at first touch", sizes[0], sizes[1], sizes[1] - sizes[0], None, None, [])
    evidence = evidence_of(effect, largest=[side.largest for side in sides])
    evidence |= {"n": [side.responses for side in sides], "rows": evidence_rows(rows, largest, first)}
    return finding(id_, confidence, summary, evidence)


def _takes_loss(rows: RunRows) -> np.ndarray:
    if rows.facts is None:
        return np.zeros(rows.num_rows, dtype=bool)
    return np.asarray(rows.facts["loss_tokens"] > 0)
