"""Every way outside the objective in which two runs may differ, looked at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from audit.analyses.batch_effect import batch_causes
from audit.analyses.data_effect import data_causes
from audit.analyses.findings import Cause, Looked
from audit.analyses.frozen_policy import frozen_causes
from audit.analyses.grouping_effect import grouping_causes
from audit.analyses.infer import Inference
from audit.analyses.logging_effect import logging_causes
from audit.analyses.numerics_effect import numerics_causes, numerics_facts
from audit.analyses.pair import Pair
from audit.analyses.sampler_gap import PLACEHOLDER
from audit.analyses.skipped import Skipped
from audit.analyses.staleness_effect import staleness_causes
from audit.analyses.start_effect import start_causes
from audit.analyses.token_effect import token_causes
from audit.analyses.truncation_effect import truncation_causes
from audit.facts.rows import RunRows
from audit.facts.tokenpass.names import read_name

BOTH = 0.95
"""Confidence of a cause that two independent looks name, at most; heuristic."""


def read_ahead(rows: RunRows) -> None:
    """Have every fact of these comparisons at hand, so that the tokens are passed over once."""
    if rows.facts is not None:
        wanted = [*numerics_facts(), PLACEHOLDER]
        held = rows.run.columns
        rows.facts.read(["loss_tokens", *(name for name in wanted if set(read_name(name).needs) <= held)])


def differences(
    pair: Pair, settings: Iterable[Cause], inferred: Sequence[Inference] = ()
) -> tuple[Looked, list[Skipped]]:
    """Compare data, groups, tokens, log-probs, policies and the logs themselves.

    Parameters
    ----------
    settings : iterable of Cause
        What the two configs give differently; a cause that the logs show as well is told once.
    inferred : two Inference, or none
        What the advantages of A and of B say.
    """
    data, skipped = data_causes(pair)
    found = Looked(causes=[*data, *settings])
    grouping, shapes = grouping_causes(pair, inferred)
    found.add(grouping)
    if any("regrouped" in cause.evidence for cause in grouping.causes):
        # One fault, told once: a group key that is new for every response.
        found.causes = [cause for cause in found.causes if cause.id != "data.group_size"]
    for look in (
        truncation_causes,
        token_causes,
        numerics_causes,
        staleness_causes,
        batch_causes,
        frozen_causes,
    ):
        found.add(look(pair))
    found.add(logging_causes(pair, shapes))
    found.add(start_causes(pair, {cause.id for cause in found.causes}))
    found.causes = merged(found.causes)
    named = {cause.id for cause in found.causes}
    found.unseen = [u for u in dict.fromkeys(found.unseen) if u.cause not in named]
    return found, skipped


def merged(causes: Iterable[Cause]) -> list[Cause]:
    """One cause an id: the surest first, what the others say after it."""
    by_id: dict[str, list[Cause]] = {}
    for cause in causes:
        by_id.setdefault(cause.id, []).append(cause)
    made = []
    for same in by_id.values():
        same.sort(key=lambda cause: -cause.confidence)
        first, *others = same
        if others:
            sure = max(first.confidence, min(BOTH, 1 - (1 - first.confidence) * (1 - others[0].confidence)))
            first = msgspec.structs.replace(
                first,
                confidence=round(sure, 2),
                summary=" ".join(cause.summary for cause in same),
                evidence={**first.evidence, "also": [cause.evidence for cause in others]},
            )
        made.append(first)
    return made
