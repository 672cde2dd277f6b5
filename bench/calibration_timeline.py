"""How often does the timeline say that runs part which differ by luck alone, and does it find what is there?

The level and the form of its test were fixed before these runs were made: seeds and objectives are new.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from audit.analyses.pair import Pair
from audit.analyses.timeline import LEVEL, benjamini_hochberg, timeline
from audit.analyses.timeline_noise import p_values, wander
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.logs.manifest import Manifest
from audit.objectives.catalogue import named
from bench.explain.toy import Recipe
from bench.page import Section

OBJECTIVES = ("grpo", "dr_grpo", "rloo", "dapo")
RATES = (4.0, 30.0)
"""Learning rates: the explain benchmark has 12."""
FIRST_SEED = 50_000
BINS, PROMPTS, METRICS = 10, 40, 4
MADE = ((0.0, 0.0, 0.0), (0.3, 0.0, 0.0), (0.7, 0.0, 0.0), (0.0, 4.0, 0.0), (0.0, 6.0, 0.0), (0.0, 0.0, 0.7))
"""Wander a bin; jump in the middle and drift a bin of one metric; in units of the prompt noise of a bin."""
RESULT_COLUMNS = ("pairs", "some metric parted", "95 % of that", "n")


def timeline_section(pairs: int, parted_alike: list[bool], seed: int = 0) -> Section:
    """Trained pairs that differ in seed alone, and simulated gaps; ``parted_alike``: untrained pairs."""
    section = Section(f"Runs said to part (false discovery rate {LEVEL:.0%})", RESULT_COLUMNS)

    def add(name: str, parted: list[bool]) -> None:
        ci = binomtest(sum(parted), len(parted)).proportion_ci(method="wilson")
        share = f"{sum(parted) / len(parted):.1%}"
        section.rows.append([name, share, f"{ci.low:.1%} to {ci.high:.1%}", str(len(parted))])

    add("one policy, not trained", parted_alike)
    trained = _over_recipes(max(1, pairs // (len(OBJECTIVES) * len(RATES))))
    add(
        f"trained, other seed ({', '.join(OBJECTIVES)}; learning rates {RATES[0]:g} and {RATES[1]:g})",
        trained,
    )
    for at, (walk, jump, drift) in enumerate(MADE):
        said = [("wander", walk), ("jump", jump), ("drift", drift)]
        name = ", ".join(f"{what} {size:g}" for what, size in said if size) or "prompt noise alone"
        kind = "cause" if jump or drift else "luck"
        add(
            f"simulated, {kind}: {name}",
            [_simulated([seed, at, i], walk, jump, drift) for i in range(2 * pairs)],
        )
    section.notes.append(
        f"Simulated: {METRICS} metrics in {BINS} bins of {PROMPTS} prompts. Sizes are in units of the prompt "
        "noise of a bin: a random walk of every metric's gap, a jump in the middle or a drift a bin of one "
        "metric. One run a side cannot tell a strong wander from a cause."
    )
    return section


def _over_recipes(each: int) -> list[bool]:
    parted = []
    for name in OBJECTIVES:
        for rate in RATES:
            logs = Recipe(objective=named(name), rate=rate)(range(FIRST_SEED, FIRST_SEED + 2 * each))
            for first in range(0, len(logs), 2):
                sides = [
                    RunRows.read(
                        Run.from_table(Path("run"), "run", Manifest(run_id="run"), log.rows, format="rlaudit")
                    )
                    for log in logs[first : first + 2]
                ]
                found = timeline(Pair(*sides), (named(name), named(name)))
                parted.append(bool(found.parted))
    return parted


def _simulated(seed: list[int], walk: float, jump: float, drift: float) -> bool:
    """Whether some metric of one pair of runs parts; the cause moves the first metric alone."""
    rng, made = np.random.default_rng(seed), []
    at = np.arange(BINS)
    for metric in range(METRICS):
        residual = rng.normal(size=(BINS, PROMPTS)) / np.sqrt(PROMPTS)
        gap = residual.sum(axis=1) + np.cumsum(np.r_[0.0, rng.normal(scale=walk, size=BINS - 1)])
        if metric == 0:
            gap += jump * (at >= BINS // 2) + drift * at
        centred = residual - residual.mean(axis=1, keepdims=True)
        made.append(p_values(gap, centred, wander(gap, centred))[2])
    return bool((benjamini_hochberg(np.concatenate(made)) <= LEVEL).any())
