"""Do two runs see the same data? Prompts, group size, rewards of the same text, generation budget."""

from __future__ import annotations

from audit.analyses.budget_effect import budget_causes
from audit.analyses.findings import Cause, finding
from audit.analyses.pair import Pair
from audit.analyses.prompts_effect import prompt_causes
from audit.analyses.same_text import same_text
from audit.analyses.samples import samples_of
from audit.analyses.skipped import Skipped


def data_causes(pair: Pair) -> tuple[list[Cause], list[Skipped]]:
    """Return the differences in data that would make the runs differ whatever their objectives.

    Returns
    -------
    causes : list of Cause
    skipped : list of Skipped
        Checks that these logs cannot carry, with the missing column.
    """
    causes: list[Cause] = []
    skipped: list[Skipped] = []
    for check in (_group_size, prompt_causes, budget_causes, same_text):
        found, missing = check(pair)
        causes += found
        skipped += missing
    return causes, skipped


def _group_size(pair: Pair) -> tuple[list[Cause], list[Skipped]]:
    if pair.lacking("group_id"):
        return [], [Skipped("group size", "group_id")]
    sizes = [samples_of(rows, once).typical_size for rows, once in zip(pair.sides, pair.once, strict=True)]
    if 0 in sizes:
        return [], [Skipped("group size", "a group with a scorable response")]
    if sizes[0] == sizes[1]:
        return [], []
    summary = (
        f"Groups of {sizes[0]} against groups of {sizes[1]}: other baselines and other zero-signal shares."
    )
    return [finding("data.group_size", 0.99, summary, {"a": sizes[0], "b": sizes[1]})], []
