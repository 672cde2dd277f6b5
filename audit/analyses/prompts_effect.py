"""Do two runs draw the same prompts, as often?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.analyses.findings import Cause, finding
from audit.analyses.outcomes import first_pass
from audit.analyses.pair import Pair
from audit.analyses.prompt_mix import Draws, Mix, compare_mixes
from audit.analyses.samples import Samples, samples_of
from audit.analyses.skipped import Skipped
from audit.facts.rows import RunRows, dense

SAME_MIX = 1e-3
"""p-value below which two prompt mixes are called different; heuristic."""
SAME_LOSS = 1e-2
"""The same where groups are missing, which has some reason anyway; heuristic."""
LEAST_DISTANCE = 0.05
"""Share of the draws that must be on other prompts; heuristic."""
FEW_SHARED = 0.5
"""Share of the draws on common prompts below which two runs drew from a set larger than both; heuristic."""
LEAST_ALIKE = 0.1
"""Share of groups without signal that one run has, and a run that filters them has not; heuristic."""


def prompt_causes(pair: Pair) -> tuple[list[Cause], list[Skipped]]:
    """Compare which prompts were drawn, and how often: groups of the first inner pass are draws."""
    draws = _draws(pair)
    shared = (draws[0].counts > 0) & (draws[1].counts > 0)
    covered = [float(d.counts[shared].sum() / max(d.total, 1)) for d in draws]
    evidence: dict[str, Any] = {
        "prompts": [int((d.counts > 0).sum()) for d in draws],
        "shared_prompts": int(shared.sum()),
        "share_of_groups_on_shared_prompts": covered,
    }
    if max(covered) < FEW_SHARED:
        return _by_length(pair, int(shared.sum()), evidence)
    mix = compare_mixes(*draws)
    evidence |= {"mix_p": mix.p_value, "distance": mix.distance, "scatter": list(mix.scatter)}
    if any(mix.missing):
        return [_groups_lost(pair, mix, evidence)], []
    if mix.p_value >= SAME_MIX or mix.distance < LEAST_DISTANCE:
        return [], []
    summary = (
        f"The prompt mix differs (p = {mix.p_value:.1e}; {mix.distance:.0%} of the draws had to move): "
        f"{1 - covered[0]:.0%} of A's and {1 - covered[1]:.0%} of B's groups are on prompts that the other "
        "run never saw."
    )
    return [finding("data.prompts", 0.9, summary, evidence)], []


def _draws(pair: Pair) -> tuple[Draws, Draws]:
    number = int(max(codes.max(initial=-1) for codes in pair.prompts)) + 1
    made = []
    for rows, prompt, once in zip(pair.sides, pair.prompts, pair.once, strict=True):
        use = np.flatnonzero(first_pass(rows) & once)
        group = dense(rows.sample[use]) if len(use) else use
        _, at = np.unique(group, return_index=True)
        step = np.full(len(at), np.iinfo(np.int64).max)
        np.minimum.at(step, group, rows.step[use])
        made.append(Draws(prompt[use[at]], step, number))
    return made[0], made[1]


def _groups_lost(pair: Pair, mix: Mix, evidence: dict[str, Any]) -> Cause:
    """Groups are missing from the steps of one run: those of some prompts, those without signal, or any."""
    side = int(mix.missing[1] > mix.missing[0])
    name, share = "AB"[side], mix.missing[side]
    evidence = {"kind": "missing groups", **evidence, "missing": list(mix.missing)}
    alike = [_alike(samples_of(rows, once)) for rows, once in zip(pair.sides, pair.once, strict=True)]
    lost = f"{share:.0%} of the groups that {name}'s steps should hold are missing"
    if alike[side] == 0.0 and alike[1 - side] >= LEAST_ALIKE:
        summary = (
            f"{lost}, and with them every group whose rewards are all equal ({alike[1 - side]:.0%} of the "
            "other run's): a filter takes them out."
        )
        return finding("objective.filter", 0.7, summary, evidence | {"zero_signal_share": alike})
    if mix.p_value < SAME_LOSS and mix.distance >= LEAST_DISTANCE:
        summary = (
            f"{lost}, and some prompts lose more than others (p = {mix.p_value:.1e}; {mix.distance:.0%} of "
            "the draws had to move for the even mix of the other run)."
        )
        return finding("data.prompts", 0.8, summary, evidence)
    summary = f"{lost}, whatever their prompt (p = {mix.p_value:.2g}): they were not logged, or thrown away."
    return finding("logging", 0.6, summary, evidence)


def _alike(samples: Samples) -> float:
    """Share of groups without signal."""
    return float(samples.alike.mean()) if samples.num_groups else 0.0


def _by_length(pair: Pair, shared: int, evidence: dict[str, Any]) -> tuple[list[Cause], list[Skipped]]:
    """Two draws from one large data set share few prompts by chance: ask whether they look alike instead."""
    sizes = [_prompt_lengths(rows) for rows in pair.sides]
    if any(s is None for s in sizes):
        return [], [Skipped("prompt mix", "prompt_length or prompt, as few prompts are shared")]
    from scipy.stats import ks_2samp

    test = ks_2samp(*sizes)
    evidence["prompt_length_ks_p"] = float(test.pvalue)
    if test.pvalue >= SAME_MIX:
        return [], []
    summary = f"Few prompts are shared ({shared}), and prompt lengths differ (p = {test.pvalue:.1e})."
    return [finding("data.prompts", 0.8, summary, evidence)], []


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
