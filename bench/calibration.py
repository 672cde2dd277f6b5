"""Do 95 % intervals cover the truth, and are p-values uniform where nothing differs?

``python -m bench.calibration`` writes docs/calibration.md. Runs are simulated from the toy language's
reference policy, of which everything is known (:mod:`bench.calibration_truth`): prompts with rates drawn anew
for every run or pair, because intervals resample prompts and so speak of a population of them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from scipy.stats import binomtest

from audit.analyses.effect import objective_effects
from audit.analyses.explain import explain
from audit.analyses.groups import zero_signal_share
from audit.analyses.length_law import weights_of
from audit.analyses.length_pressure import length_pressure
from audit.analyses.length_rows import length_rows
from audit.analyses.outcomes import mean_of
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.logs.manifest import Manifest
from audit.objectives.catalogue import named
from audit.objectives.objective import KL
from audit.testbed.language import Language
from audit.testbed.sampling import Draw, sample
from bench.calibration_methods import methods_section
from bench.calibration_p import gap_p_values, mix_p_values, p_section
from bench.calibration_timeline import timeline_section
from bench.calibration_truth import HIGH, LOW, length_moments, truth
from bench.page import Section, machine
from bench.sizes import ROOT

PAGE = ROOT / "docs" / "calibration.md"
PROMPTS = 40
GROUPS = 96
"""Groups of a run: each of a prompt drawn at random."""
STEPS = 12
GROUP_SIZE = 8
SHAPE = Language(rates=(0.5,), letters=3, budget=6)
SHIFT = 0.1
"""What B's success rates exceed A's by, in pairs that do differ."""
B_STOP = 0.35
"""Probability to stop after a letter in B, where A has the language's own 0.25."""
GRPO, DR_GRPO = (named(name).replace(kl=KL()) for name in ("grpo", "dr_grpo"))
WITHIN = (0.93, 0.97)
FOLLOWED = ("reward", "truncated share", "log-prob of the samples")
"""Metrics of the timeline whose intervals are looked at."""

SHORT = "few prompts carry the skewness, which is then corrected by less than it is"
"""The likely reason where intervals cover too little; a conjecture, not measured."""
WIDE = "few prompts carry the variance, and the t quantile allows for fewer than there are"
"""The same where they cover too much."""

Interval = tuple[float | None, float | None]


def simulate(
    rates: np.ndarray, rng: np.random.Generator, *, shift: float = 0.0, stop: float = SHAPE.stop
) -> Run:
    """Draw one run on the prompts with the given rates, shape (P,)."""
    prompt = rng.integers(len(rates), size=GROUPS)
    # Every group is a prompt of its own to the language; the log says whose it is.
    language = Language(
        rates=tuple((rates[prompt] + shift).tolist()), letters=SHAPE.letters, budget=SHAPE.budget, stop=stop
    )
    uniforms = torch.tensor(rng.random((1, GROUPS, GROUP_SIZE, SHAPE.budget)))
    draw = sample(language, language.reference[None], uniforms)
    rows = _rows(language, draw, prompt, rng.permutation(np.arange(GROUPS) % STEPS))
    return Run.from_table(
        Path("simulated"), "simulated", Manifest(run_id="simulated"), rows, format="rlaudit"
    )


def _rows(language: Language, draw: Draw, prompt: np.ndarray, step: np.ndarray) -> pa.Table:
    group = draw.prompt.numpy()
    starts = pa.array(draw.layout.offsets.numpy().astype(np.int32))
    logp = draw.at_tokens(language.reference[None]).to(torch.float32).numpy()
    logps = pa.ListArray.from_arrays(starts, pa.array(logp))
    correct = draw.correct(language).numpy()
    return pa.table(
        {
            "step": pa.array(step[group] + 1),
            "update": pa.array(step[group] + 1),
            "prompt_id": pa.array([f"p{p}" for p in prompt[group]]),
            "group_id": pa.array([f"g{g}" for g in group]),
            "sample_index": pa.array(draw.sample.numpy().astype(np.int32)),
            "length": pa.array(draw.length.numpy().astype(np.int32)),
            "token_ids": pa.ListArray.from_arrays(starts, pa.array(draw.token.numpy().astype(np.int32))),
            "reward": pa.array(correct.astype(float)),
            "correct": pa.array(correct),
            "finish_reason": pa.array(np.where(draw.cut.numpy(), "length", "stop")),
            "logp_theta": logps,
            "logp_old": logps,
        }
    )


def draw_rates(rng: np.random.Generator) -> np.ndarray:
    """Rates of the prompts of one run, shape (P,)."""
    return rng.uniform(LOW, HIGH, PROMPTS)


def one_run(rng: np.random.Generator) -> dict[str, Interval]:
    """Intervals of a single run."""
    rows = RunRows.read(simulate(draw_rates(rng), rng))
    data = length_rows(rows)
    pressure = length_pressure(data, weights_of(data, GRPO).per_token)
    effects, _ = objective_effects([rows], GRPO, DR_GRPO)
    scale = next(part for part in effects[0].parts if part.part == "scale")
    found = {
        "success rate": mean_of(rows, rows.numpy("reward")),
        "mean length": mean_of(rows, rows.length),
        "zero-signal share": zero_signal_share(rows),
        "length pressure, correct": pressure.correct,
        "length pressure, wrong": pressure.wrong,
        "length pressure, all": pressure.all,
        "objective effect: 1 - cosine": effects[0].distance,
        "objective effect: share of the scale": scale.share,
    }
    return {name: (estimate.low, estimate.high) for name, estimate in found.items()}


def one_pair(rng: np.random.Generator, *, differ: bool) -> tuple[dict[str, Interval], dict[str, float], bool]:
    """Intervals of differences, p-values, and whether any metric was said to part, of two runs."""
    rates = draw_rates(rng)
    b = simulate(rates, rng, shift=SHIFT, stop=B_STOP) if differ else simulate(rates, rng)
    a = simulate(rates, rng)
    found = explain(a, b)
    kind = "that differ" if differ else "alike"
    intervals = {
        f"difference in {effect.name}, runs {kind}": (effect.low, effect.high) for effect in found.outcomes
    }
    p_values: dict[str, float] = {}
    if not differ:
        for course in found.timeline.courses:
            if course.metric in FOLLOWED and len(course.moments) > 1:
                last = course.moments[-1]
                intervals[f"change of the gap in {course.metric}, first to last bin"] = (last.low, last.high)
        p_values = {
            **mix_p_values(PROMPTS, GROUPS, STEPS, rng),
            **mix_p_values(PROMPTS, 4 * GROUPS, STEPS, rng),
            **gap_p_values(a, b, PROMPTS, STEPS // 2),
        }
    parted = any(course.parted is not None for course in found.timeline.courses)
    return intervals, p_values, parted


def expected() -> dict[str, float]:
    """The truth of every interval."""
    one = truth(SHAPE, GROUP_SIZE)
    shorter = Language(rates=SHAPE.rates, letters=SHAPE.letters, budget=SHAPE.budget, stop=B_STOP)
    cut = [(1.0 - stop) ** (SHAPE.budget - 1) for stop in (SHAPE.stop, B_STOP)]
    return {
        "success rate": one.reward,
        "mean length": one.length,
        "zero-signal share": one.zero_signal,
        "length pressure, correct": one.pressure_correct,
        "length pressure, wrong": one.pressure_wrong,
        "length pressure, all": 0.0,
        "objective effect: 1 - cosine": one.distance,
        "objective effect: share of the scale": one.share_of_scale,
        "difference in reward, runs that differ": SHIFT,
        "difference in length, runs that differ": length_moments(shorter)[0] - one.length,
        "difference in truncated share, runs that differ": cut[1] - cut[0],
    }


class Tally:
    """Whether intervals of each name held the truth."""

    def __init__(self) -> None:
        self.covered: dict[str, list[bool]] = defaultdict(list)
        self.above: dict[str, int] = defaultdict(int)
        self.missing: dict[str, int] = defaultdict(int)
        self.truth = expected()

    def add(self, intervals: dict[str, Interval]) -> None:
        """Count one run or pair; where nothing differs the truth is 0."""
        for name, (low, high) in intervals.items():
            if low is None or high is None:
                self.missing[name] += 1
                continue
            true = self.truth.get(name, 0.0)
            self.covered[name].append(low <= true <= high)
            self.above[name] += low > true

    def section(self) -> Section:
        """Coverage of each."""
        columns = ("interval of", "truth", "covered", "95 % of that", "lies above, below", "n", "93–97 %")
        section = Section("Coverage of 95 % intervals", columns)
        for name, held in self.covered.items():
            n, hits = len(held), sum(held)
            ci = binomtest(hits, n).proportion_ci(method="wilson")
            inside = WITHIN[0] <= hits / n <= WITHIN[1]
            off = f"{self.above[name] / n:.1%}, {(n - hits - self.above[name]) / n:.1%}"
            row = [name, f"{self.truth.get(name, 0.0):.4g}", f"{hits / n:.1%}"]
            section.rows.append(
                [*row, f"{ci.low:.1%} to {ci.high:.1%}", off, str(n), "yes" if inside else "**no**"]
            )
        for name, held in self.covered.items():
            share = sum(held) / len(held)
            if not WITHIN[0] <= share <= WITHIN[1]:
                ci = binomtest(sum(held), len(held)).proportion_ci(method="wilson")
                reaches_in = ci.high >= WITHIN[0] and ci.low <= WITHIN[1]
                why = f"likely {SHORT if share < WITHIN[0] else WIDE}"
                few = f"{len(held)} runs cannot tell this from coverage inside the bounds"
                section.notes.append(f"{name}: {few if reaches_in else why}.")
        section.notes += [f"{name}: {n} without an interval." for name, n in self.missing.items()]
        return section


def measure(runs: int, pairs: int, seed: int = 1) -> list[Section]:
    """Simulate and count; seed 0 is the one that the intervals were faulted on."""
    torch.set_num_threads(1)
    tally, parted = Tally(), []
    p_values: dict[str, list[float]] = defaultdict(list)
    for at in range(runs):
        tally.add(one_run(np.random.default_rng([seed, 0, at])))
    for differ in (True, False):
        for at in range(pairs):
            intervals, p, moved = one_pair(np.random.default_rng([seed, 1 + differ, at]), differ=differ)
            tally.add(intervals)
            parted += [] if differ else [moved]
            for name, value in p.items():
                p_values[name].append(value)
    return [
        tally.section(),
        p_section(p_values),
        timeline_section(pairs // 4, parted),
    ]


HEAD = f"""# Are the intervals and p-values what they say?

Written by `python -m bench.calibration`. Every run is {GROUPS} groups of {GROUP_SIZE} of the toy language's
reference policy, on prompts drawn from {PROMPTS} whose success rates are uniform on {LOW} to {HIGH} and new
in every run; the two runs of a pair share their prompts. Truths are exact (`bench/calibration_truth.py`).
"Differ" means success rates higher by {SHIFT} and another probability to stop, {B_STOP}, in B.
"""


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibration", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1400, help="single runs")
    parser.add_argument("--pairs", type=int, default=800, help="pairs that differ, and as many alike")
    parser.add_argument("--methods", type=int, default=0, help="runs a setting to compare ways to cut")
    parser.add_argument("--no-page", action="store_true", help="print only")
    asked = parser.parse_args()
    began = time.perf_counter()
    sections = measure(asked.runs, asked.pairs)
    sections += [methods_section(asked.methods)] if asked.methods else []
    parts = [
        HEAD,
        f"Measured {dt.date.today().isoformat()}, {machine()}.\n",
        *(s.markdown() for s in sections),
    ]
    print("\n".join(parts), f"({time.perf_counter() - began:.0f} s)", sep="\n")
    if not asked.no_page:
        PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
