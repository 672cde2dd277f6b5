"""Which percentiles of a bootstrap cover: three ways, over settings that the other sections do not use.

Sums over prompts are drawn straight from distributions, without logs, so that thousands of runs take seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, t

from audit.analyses.coalitions import distances, shapley_matrix
from audit.interval_tails import cut, tails, without_each
from audit.stats import LEVEL, _resampled, cluster_sums
from bench.page import Section

GROUP = 8
TRUTH_GROUPS = 400_000


class Setting(NamedTuple):
    """How runs are drawn."""

    prompts: int
    groups: int
    rates: tuple[float, float]
    """Success rates of prompts are uniform between them."""
    tail: float
    """Standard deviation of the log of lengths; 0: the toy language's, geometric and cut at 6."""


SETTINGS = (
    Setting(20, 96, (0.1, 0.7), 0.8),
    Setting(40, 96, (0.0, 0.3), 0.8),
    Setting(40, 96, (0.55, 0.95), 0.0),
    Setting(160, 384, (0.1, 0.7), 0.0),
)


def ratio(totals: np.ndarray) -> np.ndarray:
    """Shape (..., 1) of (..., 2)."""
    return np.asarray(totals[..., :1] / totals[..., 1:2])


def gap(totals: np.ndarray) -> np.ndarray:
    """B's ratio less A's."""
    return ratio(totals[..., 2:]) - ratio(totals[..., :2])


def effective(totals: np.ndarray) -> np.ndarray:
    """(Σ w)² / (n Σ w²)."""
    return np.asarray((totals[..., 0] ** 2 / (totals[..., 1] * totals[..., 2]))[..., None])


def whole_and_share(totals: np.ndarray) -> np.ndarray:
    """1 - cosine, and the scale's share of it."""
    found = distances(totals, 4)
    return np.stack([found[..., 3], (found @ shapley_matrix(2).T)[..., 0] / found[..., 3]], axis=-1)


STATISTICS = {
    "success rate": (ratio, ["success rate"]),
    "length": (ratio, ["mean length"]),
    "zero": (ratio, ["zero-signal share"]),
    "effect": (whole_and_share, ["1 - cosine", "share of the scale"]),
    "heavy": (ratio, ["mean of a log-normal"]),
    "sample size": (effective, ["effective sample size of log-normal weights"]),
    "gap": (gap, ["difference in reward, alike"]),
    "zero gap": (gap, ["difference in zero-signal share, alike"]),
}


@np.errstate(divide="ignore", invalid="ignore")
def draw(setting: Setting, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Sums over the prompts of one run, shape (P, K), for each statistic."""
    rate = rng.uniform(*setting.rates, setting.prompts)
    shape = (setting.groups, GROUP)
    prompts = [rng.integers(setting.prompts, size=setting.groups) for _ in range(2)]
    rewards = [(rng.random(shape) < rate[prompt][:, None]).astype(float) for prompt in prompts]
    length = (
        np.ceil(np.exp(rng.normal(3.0, setting.tail, shape)))
        if setting.tail
        else np.minimum(1.0 + rng.geometric(0.25, shape), 6.0)
    )
    r, n = rewards[0], np.full(setting.groups, float(GROUP))
    spread = r.std(axis=1, keepdims=True)
    unscaled = r - r.mean(axis=1, keepdims=True)
    scaled = np.where(spread > 0, unscaled / np.where(spread > 0, spread, 1.0), 0.0)
    # GRPO's weight of a token; without its scale; with a constant normaliser; with neither.
    weights = [scaled / length, unscaled / length, scaled, unscaled]
    products = [(weights[0] * w * length).sum(axis=1) for w in weights]
    squares = [(w * w * length).sum(axis=1) for w in weights]
    level = rng.normal(0.0, 0.5, setting.prompts)[prompts[0]][:, None]
    heavy = np.exp(level + rng.normal(0.0, 1.0, shape))
    ratios = np.exp(rng.normal(0.0, 0.6, shape))
    dead = [(x.std(axis=1) == 0).astype(float) for x in rewards]

    def summed(*columns: np.ndarray, side: int = 0) -> np.ndarray:
        made = np.zeros((setting.prompts, len(columns)))
        found = cluster_sums(np.column_stack(columns), prompts[side])
        made[: len(found)] = found
        return made

    one = np.ones(setting.groups)
    return {
        "success rate": summed(r.sum(axis=1), n),
        "length": summed(length.sum(axis=1), n),
        "zero": summed(dead[0], one),
        "effect": summed(*products, *squares),
        "heavy": summed(heavy.sum(axis=1), n),
        "sample size": summed(ratios.sum(axis=1), (ratios**2).sum(axis=1), n),
        "gap": np.hstack([summed(r.sum(axis=1), n), summed(rewards[1].sum(axis=1), n, side=1)]),
        "zero gap": np.hstack([summed(dead[0], one), summed(dead[1], one, side=1)]),
    }


def truths(setting: Setting, seed: int) -> dict[str, float]:
    """What the statistics are of very many groups, each with a prompt of its own; 0 for gaps."""
    many = setting._replace(prompts=TRUTH_GROUPS // 20, groups=TRUTH_GROUPS)
    sums = draw(many, np.random.default_rng(seed))
    found = {}
    for key, (statistic, names) in STATISTICS.items():
        made = statistic(sums[key].sum(axis=0))
        found |= {name: 0.0 if "alike" in name else float(x) for name, x in zip(names, made, strict=True)}
    return found


def ways(
    sums: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Ends by each way, of the same resamples."""
    sums = sums[(sums != 0).any(axis=1)]
    value, replicates = statistic(sums.sum(axis=0)), statistic(_resampled(sums, 0))
    left_out, c = statistic(without_each(sums)), len(sums)
    tail = norm.cdf(-t(c - 1).ppf((1 + LEVEL) / 2) * np.sqrt(c / (c - 1)))
    equal = np.repeat([[tail], [1.0 - tail]], len(value), axis=1)
    d = left_out.mean(axis=0) - left_out
    a = (d**3).sum(axis=0) / np.maximum(6 * (d**2).sum(axis=0) ** 1.5, 1e-300)
    share = ((replicates < value) + 0.5 * (replicates == value)).mean(axis=0)
    z0 = norm.ppf(np.clip(share, 1e-3, 1 - 1e-3))
    z = z0 + norm.ppf((1 + LEVEL) / 2) * np.array([[-1.0], [1.0]])
    return {
        "expanded percentiles": cut(value, replicates, equal),
        "BCa": cut(value, replicates, norm.cdf(z0 + z / (1 - a * z))),
        "ours": cut(value, replicates, tails(value, replicates, left_out, c, LEVEL)),
    }


def methods_section(runs: int, seed: int = 60) -> Section:
    """Lowest and highest coverage of each statistic over the settings, for each way."""
    covered: dict[tuple[str, str], list[float]] = defaultdict(list)
    for at, setting in enumerate(SETTINGS):
        true, held = truths(setting, seed + at), defaultdict(list)
        for run in range(runs):
            sums = draw(setting, np.random.default_rng([seed, at, run]))
            for key, (statistic, names) in STATISTICS.items():
                for way, (low, high) in ways(sums[key], statistic).items():
                    for i, name in enumerate(names):
                        held[name, way].append(low[i] <= true[name] <= high[i])
        for key_, hits in held.items():
            covered[key_].append(float(np.mean(hits)))
    columns = list(dict.fromkeys(way for _, way in covered))
    section = Section("Which percentiles", ("interval of", *columns))
    for name in dict.fromkeys(name for name, _ in covered):
        spans = [covered[name, way] for way in columns]
        section.rows.append([name, *(f"{min(s):.1%} to {max(s):.1%}" for s in spans)])
    said = "; ".join(
        f"{s.prompts} prompts, {s.groups} groups, rates {s.rates[0]:g} to {s.rates[1]:g}"
        + (", log-normal lengths" if s.tail else "")
        for s in SETTINGS
    )
    section.intro = (
        f"Lowest and highest coverage over {len(SETTINGS)} settings ({said}), {runs} runs each, of 95 % "
        "intervals from the same resamples. BCa: Efron's (1987) with normal quantiles; ours: "
        "`audit/interval_tails.py`, chosen on draws with other seeds before this page was measured."
    )
    return section
