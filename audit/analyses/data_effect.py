"""Do two runs see the same data? Prompts, group size, rewards of the same text, generation budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.analyses.findings import Cause, finding
from audit.analyses.outcomes import first_pass, truncated
from audit.analyses.pair import Pair
from audit.analyses.same_text import same_text
from audit.analyses.samples import samples_of
from audit.analyses.skipped import Skipped
from audit.facts.rows import RunRows
from audit.stats import same_mix

SAME_MIX = 1e-3
"""p-value below which two prompt mixes are called different; heuristic."""


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
    for check in (_group_size, _prompts, _budget, same_text):
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


def _prompts(pair: Pair) -> tuple[list[Cause], list[Skipped]]:
    counts = [_prompt_counts(rows) for rows in pair.sides]
    shared = set(counts[0]) & set(counts[1])
    covered = [sum(c[p] for p in shared) / max(sum(c.values()), 1) for c in counts]
    evidence: dict[str, Any] = {
        "prompts": [len(c) for c in counts],
        "shared_prompts": len(shared),
        "share_of_groups_on_shared_prompts": covered,
    }
    if max(covered) < 0.5:
        # Two draws from one large data set share few prompts by chance: ask whether they look alike instead.
        sizes = [_prompt_lengths(rows) for rows in pair.sides]
        if any(s is None for s in sizes):
            return [], [Skipped("prompt mix", "prompt_length or prompt, as few prompts are shared")]
        from scipy.stats import ks_2samp

        test = ks_2samp(*sizes)
        evidence["prompt_length_ks_p"] = float(test.pvalue)
        if test.pvalue >= SAME_MIX:
            return [], []
        summary = (
            f"Few prompts are shared ({len(shared)}), and prompt lengths differ (p = {test.pvalue:.1e})."
        )
        return [finding("data.prompts", 0.8, summary, evidence)], []
    names = sorted(set(counts[0]) | set(counts[1]))
    table = np.array([[c.get(p, 0) for p in names] for c in counts])
    p = same_mix(table)
    evidence["mix_p"] = p
    if p >= SAME_MIX:
        return [], []
    only = [sum(n for q, n in c.items() if q not in shared) / max(sum(c.values()), 1) for c in counts]
    summary = (
        f"The prompt mix differs (p = {p:.1e}): {only[0]:.0%} of A's and {only[1]:.0%} of B's groups "
        "are on prompts that the other run never saw."
    )
    return [finding("data.prompts", 0.9, summary, evidence)], []


def _prompt_counts(rows: RunRows) -> dict[str, int]:
    """Draws of each prompt: distinct groups, in the first inner pass."""
    use = first_pass(rows)
    ids = np.asarray(rows.table["prompt_id"].to_pylist(), dtype=object)[use]
    _, at = np.unique(rows.sample[use], return_index=True)
    names, counts = np.unique(ids[at].astype(str), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def _prompt_lengths(rows: RunRows) -> np.ndarray | None:
    table = rows.run.responses(["prompt_length", "prompt"])
    if "prompt_length" in rows.run.columns:
        lengths = table["prompt_length"]
    elif "prompt" in rows.run.columns:
        lengths = pc.utf8_length(table["prompt"])
    else:
        return None
    _, at = np.unique(rows.prompt, return_index=True)
    values = np.asarray(lengths.cast(pa.float64()).to_numpy(), dtype=float)[at]
    return np.asarray(values[np.isfinite(values)])


def _budget(pair: Pair) -> tuple[list[Cause], list[Skipped]]:
    """Where truncated responses end is the generation budget, whatever the config says."""
    budgets, shares = [], []
    for rows in pair.sides:
        ended = truncated(rows)
        if ended is None or rows.facts is None:
            return [], [Skipped("truncation", "finish_reason and token lengths")]
        cut = rows.length[(ended == 1.0) & np.isfinite(rows.length)]
        known = ended[np.isfinite(ended)]
        shares.append(float(known.mean()) if len(known) else 0.0)
        budgets.append(float(np.median(cut)) if len(cut) >= 5 else None)
    if None in budgets or budgets[0] == budgets[1]:
        return [], []
    summary = (
        f"Responses are cut at {budgets[0]:g} tokens in A ({shares[0]:.1%} of them) and at {budgets[1]:g} "
        f"in B ({shares[1]:.1%})."
    )
    return [finding("data.truncation", 0.95, summary, {"budget": budgets, "truncated_share": shares})], []
