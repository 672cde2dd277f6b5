"""What kind of gap between sampler and trainer each run has, and whether it differs between them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from audit.analyses.evidence_rows import evidence_rows
from audit.analyses.findings import Effect, Looked, Unseen, evidence_of, finding
from audit.analyses.gap_onset import late_gap
from audit.analyses.gap_prompts import gap_prompts
from audit.analyses.mismatch_tail import resets
from audit.analyses.mismatch_weights import correlation
from audit.analyses.pair import Pair, sure
from audit.analyses.sampled_entropy import sampled_entropy
from audit.facts.rows import RunRows
from audit.facts.tokenpass.breakdowns import Placeholder, name_of

GapKind = Literal["equal", "support", "temperature", "noise"]
EQUAL: GapKind = "equal"

NOTHING = 1e-6
"""Mean |g| per token up to which the two log-probs are one; heuristic."""
ONE_SIDED = 0.9
"""Share -Σg / Σ|g| from which the sampler is always the more certain: its support was cut; heuristic."""
FOLLOWS = 0.4
"""|Correlation| of g with log pi_old from which a temperature is in one of the two alone; heuristic."""
LEAST_GAP = 1e-3
"""Mean |g| below which a gap moves nothing that matters; heuristic."""
LEVEL = 1.5
"""Factor between the levels of two runs; heuristic, wider than what two seeds drift apart."""
GROWTH = 2.0
"""Factor between the growth of two runs over their thirds; heuristic."""

PLACEHOLDER = name_of(Placeholder("sampler", "old"))
GAP_FACTS = ("mismatch", "sampler_gap", "sampler_gap_square", "logp_old", "old_square", "old_times_sampler")


def sampler_gaps(pair: Pair, *, rounded: bool) -> tuple[Looked, tuple[GapKind | None, ...]]:
    """Compare g = log pi_old - log pi_sampler of two runs.

    Parameters
    ----------
    rounded : bool
        A number format already differs between the runs: a level that rounding explains is not told again.

    Returns
    -------
    looked : Looked
    kinds : the kind of gap of each run, None where it has none
    """
    found = Looked()
    lacking = pair.lacking("logp_old", "logp_sampler")
    if not lacking and any(rows.facts is None for rows in pair.sides):
        lacking = "token lists"
    if lacking:
        found.unseen.append(Unseen("numerics.mismatch", lacking))
        found.add(sampled_entropy(pair, lacking))
        return found, (None, None)
    use = tuple(
        t & np.isfinite(_fact(rows, "mismatch")) & (_fact(rows, "loss_tokens") > 0)
        for rows, t in zip(pair.sides, pair.trained, strict=True)
    )
    masks = (use[0], use[1])
    level = _per_token(pair, "mismatch", "sampler mismatch, mean |g|", masks)
    if level is None or level.a is None or level.b is None:
        needs = "a response with finite logp_old and logp_sampler in both runs"
        found.unseen += [Unseen(id_, needs) for id_ in ("numerics.mismatch", "sampling.support")]
        return found, (None, None)
    sided = pair.share("share of the gap on one side", _sided(pair), masks)
    follows = pair.compare("correlation of the gap with log pi_old", _pairs(pair), masks, correlation)
    found.measured += [effect for effect in (level, sided, follows) if effect is not None]
    kinds = _kinds(level, sided, follows)
    if _filled(pair, masks, found):
        return found, kinds
    late = late_gap(pair, masks, level)
    found.add(late)
    if late.causes:
        return found, kinds
    if kinds[0] == kinds[1] != "noise":
        if kinds[0] != EQUAL:
            found.notes.append(f"Both runs show {_SHOWS[kinds[0]]} in the gap between sampler and trainer.")
        return found, kinds
    for id_, kind, effect in (
        ("sampling.support", "support", sided),
        ("sampling.temperature", "temperature", follows),
    ):
        if kind in kinds and effect is not None:
            side = kinds.index(kind)
            values = (effect.a or 0.0, effect.b or 0.0)
            summary = (
                f"{'AB'[side]} alone shows {_SHOWS[kinds[side]]}: {effect.name} {values[0]:.2f} in A, "
                f"{values[1]:.2f} in B (mean |g| {level.a:.2g} and {level.b:.2g} nats)."
            )
            found.causes.append(finding(id_, 0.85, summary, evidence_of(effect, mismatch=[level.a, level.b])))
    if not {"support", "temperature"} & set(kinds):
        _level(pair, masks, kinds, level, found, rounded=rounded)
    if not found.causes:
        found.add(gap_prompts(pair, masks))
    return found, kinds


_SHOWS = {
    "support": "a sampler that cut its support (top-p, top-k, min-p)",
    "temperature": "a temperature in one of the two log-probs",
    "equal": "no gap",
    "noise": "noise",
}


def _kinds(level: Effect, sided: Effect | None, follows: Effect | None) -> tuple[GapKind, GapKind]:
    def kind(size: float | None, side: float | None, r: float | None) -> GapKind:
        if (size or 0.0) <= NOTHING:
            return "equal"
        if (size or 0.0) < LEAST_GAP:
            return "noise"
        if (side or 0.0) >= ONE_SIDED and (r or 0.0) > -FOLLOWS:
            return "support"
        return "temperature" if abs(r or 0.0) >= FOLLOWS else "noise"

    return (
        kind(level.a, sided.a if sided else None, follows.a if follows else None),
        kind(level.b, sided.b if sided else None, follows.b if follows else None),
    )


def _level(
    pair: Pair,
    use: tuple[np.ndarray, np.ndarray],
    kinds: tuple[GapKind, GapKind],
    level: Effect,
    found: Looked,
    *,
    rounded: bool,
) -> None:
    a, b = level.a or 0.0, level.b or 0.0
    early = (use[0] & pair.early[0], use[1] & pair.early[1])
    start = _per_token(pair, "mismatch", "sampler mismatch at the start, mean |g|", early)
    growth = _growth(pair, use)
    found.measured += [effect for effect in (start, growth) if effect is not None]
    worse = int(b > a)
    rows = pair.sides[worse]
    evidence: dict[str, Any] = {"resets": [_resets(r, u) for r, u in zip(pair.sides, use, strict=True)]}
    mean = _fact(rows, "mismatch") / np.maximum(_loss(rows), 1.0)
    evidence["rows"] = evidence_rows(rows, mean, use[worse])
    if EQUAL in kinds:
        if max(a, b) < LEAST_GAP:
            return
        name = "AB"[kinds.index(EQUAL)]
        summary = (
            f"{name}'s logp_old is the sampler's own on every token; the other run's differs from its "
            f"sampler by {max(a, b):.3g} nats per token."
        )
        found.causes.append(finding("numerics.mismatch", 0.9, summary, evidence_of(level, **evidence)))
    elif rounded and max(a, b) < 0.02:
        return
    elif sure(level, least=LEAST_GAP, factor=LEVEL) and (
        start is None or sure(start, least=LEAST_GAP, factor=LEVEL)
    ):
        times = max(a, b) / min(a, b)
        summary = (
            f"Sampler and trainer differ by {a:.3g} nats per token in A and {b:.3g} in B, "
            f"{times:.3g} times as much, from the start."
        )
        confidence = 0.9 if times >= 2 else 0.75
        found.causes.append(finding("numerics.mismatch", confidence, summary, evidence_of(level, **evidence)))
    elif sure(growth, least=LEAST_GAP) and growth is not None and _grows(growth):
        summary = (
            f"The gap between sampler and trainer grows by {growth.a or 0:+.2g} nats per token in A and "
            f"{growth.b or 0:+.2g} in B, first third to last."
        )
        found.causes.append(finding("numerics.mismatch", 0.7, summary, evidence_of(growth, **evidence)))


def _grows(growth: Effect) -> bool:
    """Whether one run grows much and the other does not."""
    low, high = sorted([growth.a or 0.0, growth.b or 0.0])
    return high > 0 and high >= GROWTH * max(low, 0.0)


def _growth(pair: Pair, use: tuple[np.ndarray, np.ndarray]) -> Effect | None:
    columns = []
    for rows in pair.sides:
        steps = rows.step - rows.step.min()
        third = (pair.last - rows.step.min() + 1) / 3
        early, late = steps < third, steps >= 2 * third
        gap, loss = _fact(rows, "mismatch"), _loss(rows)
        columns.append((gap * late, loss * late, gap * early, loss * early))

    def change(t: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(t[..., :1] / t[..., 1:2] - t[..., 2:3] / t[..., 3:4])

    return pair.compare("growth of the sampler mismatch", (columns[0], columns[1]), use, change)


def _filled(pair: Pair, use: tuple[np.ndarray, np.ndarray], found: Looked) -> bool:
    """Whether one run alone has log-probs that were filled in: they would pass for any kind of gap."""
    counts = [int(np.nansum(_fact(r, PLACEHOLDER)[u])) for r, u in zip(pair.sides, use, strict=True)]
    if all(counts):
        found.notes.append(f"Sampler log-probs of exactly 0 were filled in both runs ({counts}).")
    elif max(counts) >= 3:
        side = int(counts[1] > counts[0])
        summary = (
            f"{counts[side]} tokens of {'AB'[side]} have a sampler log-prob of exactly 0 where the trainer's "
            "is below -1: filled in, not measured; the other run has none."
        )
        rows = pair.sides[side]
        evidence = {"a": counts[0], "b": counts[1], "difference": counts[1] - counts[0]}
        named = evidence_rows(rows, _fact(rows, PLACEHOLDER), use[side] & (_fact(rows, PLACEHOLDER) > 0))
        found.causes.append(finding("numerics.mismatch", 0.95, summary, evidence | {"rows": named}))
        return True
    return False


def _per_token(pair: Pair, fact: str, name: str, use: tuple[np.ndarray, np.ndarray]) -> Effect | None:
    a, b = ((_fact(rows, fact), _loss(rows)) for rows in pair.sides)
    return pair.share(name, (a, b), use)


def _sided(pair: Pair) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    a, b = ((-_fact(rows, "sampler_gap"), _fact(rows, "mismatch")) for rows in pair.sides)
    return a, b


def _pairs(pair: Pair) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    a, b = (
        (
            _loss(rows),
            _fact(rows, "sampler_gap"),
            _fact(rows, "logp_old"),
            _fact(rows, "sampler_gap_square"),
            _fact(rows, "old_square"),
            _fact(rows, "old_square") - _fact(rows, "old_times_sampler"),
        )
        for rows in pair.sides
    )
    return a, b


def _resets(rows: RunRows, use: np.ndarray) -> list[int]:
    return resets(rows.step[use], _fact(rows, "mismatch")[use], _loss(rows)[use])


def _loss(rows: RunRows) -> np.ndarray:
    return _fact(rows, "loss_tokens").astype(np.float64)


def _fact(rows: RunRows, name: str) -> np.ndarray:
    assert rows.facts is not None
    return rows.facts[name]
