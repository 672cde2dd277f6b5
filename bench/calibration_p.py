"""P-values of :mod:`bench.calibration`: are they uniform where nothing differs?"""

from __future__ import annotations

import numpy as np
from scipy.stats import kstest

from audit.analyses.prompt_mix import Draws, compare_mixes
from audit.analyses.timeline_noise import p_values
from audit.logs import Run
from bench.page import Section

EPOCHS = "prompt mix, shuffled epochs"
CAREFUL = (
    "counts of prompts are whole numbers, of which shuffled epochs allow few: each p-value here is drawn "
    "evenly between the probability of a larger difference and that of one as large; explain states the "
    "latter, which is never too small"
)


def mix_p_values(prompts: int, groups: int, steps: int, rng: np.random.Generator) -> dict[str, float]:
    """Of two runs that draw from one mix: every group by itself, or prompts in shuffled epochs."""
    alone = [rng.integers(prompts, size=groups) for _ in range(2)]
    epochs = -(-groups // prompts)
    shuffled = [np.concatenate([rng.permutation(prompts) for _ in range(epochs)])[:groups] for _ in range(2)]
    step = np.repeat(np.arange(steps), groups // steps)

    def p(pair: list[np.ndarray]) -> float:
        a, b = (Draws(prompt, step[: len(prompt)], prompts) for prompt in pair)
        mix = compare_mixes(a, b)
        # Few values are possible where runs draw in epochs: between its two sides a p-value is uniform.
        return float(rng.uniform(mix.p_larger, mix.p_value))

    return {
        f"prompt mix, independent draws, {groups} groups": p(alone),
        f"{EPOCHS}, {groups} groups": p(shuffled),
    }


def gap_p_values(a: Run, b: Run, prompts: int, half_after: int) -> dict[str, float]:
    """Uncorrected p-values of the timeline's test: the gap in the second half against that in the first."""
    found = {}
    for name in ("reward", "length"):
        gap, residual = np.zeros(2), np.zeros((2, prompts))
        for sign, run in ((-1.0, a), (1.0, b)):
            table = run.responses(["prompt_id", "step", name])
            prompt = np.array([int(p[1:]) for p in table["prompt_id"].to_pylist()])
            values = np.asarray(table[name].to_numpy(), dtype=float)
            half = (np.asarray(table["step"].to_numpy()) > half_after).astype(int)
            for h in (0, 1):
                mean = values[half == h].mean()
                gap[h] += sign * mean
                off = sign * (values[half == h] - mean) / (half == h).sum()
                residual[h] += np.bincount(prompt[half == h], weights=off, minlength=prompts)
        p = p_values(gap, residual, 0.0)[2]
        found[f"gap in {name} at the start"] = float(p[0])
        found[f"change of the gap in {name}"] = float(p[1])
    return found


def p_section(p_values: dict[str, list[float]]) -> Section:
    """Kolmogorov-Smirnov tests against the uniform distribution."""
    columns = ("p-value of", "KS p", "≤ 0.01", "≤ 0.05", "≤ 0.5", "n", "KS p > 0.01")
    section = Section("P-values where nothing differs", columns)
    for name, values in p_values.items():
        p = np.array([value for value in values if np.isfinite(value)])
        test = kstest(p, "uniform").pvalue
        shares = [f"{(p <= level).mean():.1%}" for level in (0.01, 0.05, 0.5)]
        section.rows.append([name, f"{test:.3g}", *shares, str(len(p)), "yes" if test > 0.01 else "**no**"])
        if len(p) < len(values):
            section.notes.append(f"{name}: {len(values) - len(p)} without a p-value (too few prompts).")
    section.notes.append(f"Prompt mix: {CAREFUL}.")
    return section
