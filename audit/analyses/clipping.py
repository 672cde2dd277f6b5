"""What did the trust region remove, where, and what would another one have removed?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.bucket_shares import Bucket, Trend, trend
from audit.analyses.clipping_bounds import Bounds, bound_facts, catalogue_bounds
from audit.analyses.clipping_breakdowns import breakdowns
from audit.analyses.clipping_counts import Counts, without_loss_kl
from audit.analyses.clipping_facts import source_of
from audit.analyses.clipping_text import token_texts
from audit.analyses.clipping_tokens import zeroed_ids
from audit.analyses.inner_updates import FirstUpdate, first_update
from audit.analyses.skipped import Skipped
from audit.analyses.skips import Skips
from audit.facts.rows import RunRows
from audit.objectives.needs import needs
from audit.objectives.objective import Objective
from audit.stats import FEW_CLUSTERS, Estimate, ratio_of_sums


class ZeroedToken(msgspec.Struct, frozen=True):
    """One token id that the trust region removed."""

    id: int
    text: str | None
    """None where the log does not prove what text the id stands for."""
    zeroed: int
    tokens: int
    """Loss tokens with this id."""
    share: Estimate
    """zeroed / tokens."""
    lift: Estimate
    """share over the share of all loss tokens: 1 where the id is removed as often as any other."""


class Clipping(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit clipping --json``; every share is of the loss tokens of its bucket."""

    run: str
    objective: str | None
    unit: str
    """What is removed at once: ``token``, ``response`` or ``nothing``."""
    responses: int
    tokens: int
    """Loss tokens."""
    zeroed: int
    share: Estimate | None
    """Clip-zeroed fraction: zeroed / tokens."""
    outside_kept: Estimate | None
    """Loss tokens outside the band that keep a gradient: not removed, and of an advantage other than 0."""
    by: dict[str, list[Bucket]]
    """Breakdowns: side, sign, length, position, tenth, logp, epoch, update; part counts removed tokens."""
    steps: Trend | None
    first_update: FirstUpdate | None
    ids: list[ZeroedToken]
    """The ids removed most often."""
    distinct_ids: int
    ids_are: str
    """How the texts of ids were found."""
    bounds: list[Bounds]
    """Trust regions of the catalogue on the same tokens."""
    skipped: list[Skipped]
    doubts: list[str]
    verdict: str
    schema: str = "rlaudit.clipping.v1"


def clipping(rows: RunRows, objective: Objective | None, notes: Sequence[str] = ()) -> Clipping:
    """Measure what the trust region of an objective removed from a run.

    Parameters
    ----------
    objective : Objective
        Usually the run's own, on the advantages that the trainer used; None where it declares none.
    notes : sequence of str
        What was assumed about the objective; repeated among the doubts.

    Notes
    -----
    The clip-zeroed fraction is removed loss tokens over loss tokens, over all inner passes. PPO's clip
    removes a token above the band only where A > 0 and below it only where A < 0 (arXiv:1707.06347 eq. 7): a
    token outside on the other side keeps its gradient.
    """
    skips = Skips(rows)
    doubts = [*notes, *(f"{skip.path.name} was left out: {skip.reason}" for skip in rows.run.skipped)]
    if objective is None:
        skips.add("clip-zeroed tokens", "an objective in run.json, or --objective NAME")
        return _nothing(rows, None, skips, doubts)
    objective = without_loss_kl(objective)
    source = None
    if rows.facts is None:
        skips.add("clip-zeroed tokens", "token_ids or length in tokens")
    elif not _lacks_ratio(skips, objective):
        source = skips.attempt(
            "clip-zeroed tokens", lambda: source_of(rows, objective, bound_facts(rows, objective))
        )
    if source is None or not source.counts.use.any():
        return _nothing(rows, objective, skips, doubts)
    counts = source.counts
    doubts += _doubts(rows, objective, counts)
    use, prompt = counts.use, rows.prompt[counts.use]
    n = int(use.sum())
    share = ratio_of_sums(counts.zeroed[use], counts.tokens[use], prompt, n)
    kept = counts.kept_outside
    if kept is None:
        skips.add("outside the band but kept", f"a band of ratios ({objective.clip.kind} has none)")
    first = skips.attempt("ratio at the first inner update", lambda: first_update(rows, use))
    ids, distinct, how = _ids(rows, objective, counts, skips, doubts)
    return Clipping(
        run=rows.run.run_id,
        objective=objective.name,
        unit=_unit(objective),
        responses=n,
        tokens=int(counts.tokens.sum()),
        zeroed=int(counts.zeroed.sum()),
        share=share,
        outside_kept=None if kept is None else ratio_of_sums(kept[use], counts.tokens[use], prompt, n),
        by=breakdowns(rows, source, skips),
        steps=skips.attempt("over steps", lambda: trend(rows, use, counts.zeroed, counts.tokens)),
        first_update=first,
        ids=ids,
        distinct_ids=distinct,
        ids_are=how,
        bounds=catalogue_bounds(rows, objective, counts, skips),
        skipped=skips.found,
        doubts=doubts,
        verdict=_verdict(objective, counts, share, first),
    )


def _lacks_ratio(skips: Skips, objective: Objective) -> bool:
    if objective.ratio.denominator == "theta":
        # The catalogue's trust regions need both, and without them there is nothing to say.
        return skips.lacks("clip-zeroed tokens", "logp_theta", "logp_old")
    wanted = [column for column, part in needs(objective).items() if part == "ratio"]
    return skips.lacks("clip-zeroed tokens", *wanted)


def _nothing(rows: RunRows, objective: Objective | None, skips: Skips, doubts: list[str]) -> Clipping:
    if not skips.found:
        skips.add("clip-zeroed tokens", "a response that takes loss and has a finite ratio")
    return Clipping(
        run=rows.run.run_id,
        objective=None if objective is None else objective.name,
        unit="nothing" if objective is None else _unit(objective),
        responses=0,
        tokens=0,
        zeroed=0,
        share=None,
        outside_kept=None,
        by={},
        steps=None,
        first_update=None,
        ids=[],
        distinct_ids=0,
        ids_are="",
        bounds=[],
        skipped=skips.found,
        doubts=doubts,
        verdict="This log cannot say what was clipped.",
    )


def _unit(objective: Objective) -> str:
    if objective.clip.kind in ("none", "sapo", "vespo") or objective.ratio.denominator == "theta":
        return "nothing"
    if objective.clip.kind == "cispo" and not getattr(objective.clip, "masked", False):
        return "nothing"
    return "token" if objective.ratio.level == "token" else "response"


def _ids(
    rows: RunRows, objective: Objective, counts: Counts, skips: Skips, doubts: list[str]
) -> tuple[list[ZeroedToken], int, str]:
    if skips.lacks("which tokens were removed", "token_ids"):
        return [], 0, ""
    found = zeroed_ids(rows, objective, counts)
    texts, how = token_texts(rows.run)
    if found.odd:
        doubts.append(f"{found.odd} loss tokens left out of the ids: their id is negative or absurdly large")
    listed = [
        ZeroedToken(one.id, texts.get(one.id), one.zeroed, one.tokens, one.share, one.lift)
        for one in found.ids
    ]
    return listed, found.distinct, how


def _doubts(rows: RunRows, objective: Objective, counts: Counts) -> list[str]:
    made = []
    if counts.lost:
        made.append(f"{counts.lost} responses left out: their log-probs are missing or not finite")
    if rows.has("token_advantage") and objective.baseline.kind == "logged":
        made.append("advantages differ by token; sign is that of the response's mean")
    if _unit(objective) == "response":
        made.append(
            f"the ratio is that of the whole response ({objective.ratio.level}): its tokens are removed all "
            "together, so shares by place and by token say which responses were removed"
        )
    prompts = len(np.unique(rows.prompt[counts.use]))
    if prompts < FEW_CLUSTERS:
        made.append(f"only {prompts} prompts: intervals by prompt are rough")
    return made


def _verdict(objective: Objective, counts: Counts, share: Estimate, first: FirstUpdate | None) -> str:
    if first is not None and first.always_one:
        return (
            "The ratio is exactly 1 on every token: one update per batch, or old log-probs that are the "
            "policy's own. No clip can act here, whatever its bounds."
        )
    unit = _unit(objective)
    if unit == "nothing":
        return (
            f"{objective.name} removes no token: its trust region bounds or damps weights instead, if at all."
        )
    what = "tokens" if unit == "token" else "tokens, in whole responses,"
    fraction = 0.0 if share.value is None else share.value
    text = f"{fraction:.2%} of the loss {what} lost their gradient to the clip"
    upper, lower, capped = (float(v.sum()) for v in (counts.upper, counts.lower, counts.capped))
    total = upper + lower + capped
    if total:
        text += f": {upper / total:.0%} above the band with A > 0, {lower / total:.0%} below it with A < 0"
        text += f", {capped / total:.0%} far above it with A < 0" if capped else ""
    return f"{text}."
