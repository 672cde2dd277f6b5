"""A comparison of several runs in words and cells: what the terminal, HTML and Markdown share."""

from __future__ import annotations

from audit.analyses.distances import DistanceMatrix, pairs_of
from audit.analyses.explain import RunId
from audit.analyses.explain_many import ALL_PAIRS, ManyExplanation
from audit.analyses.run_outcomes import METRICS
from audit.analyses.run_splits import PairCause, Split, SplitField
from audit.analyses.seed_comparison import ENOUGH_SEEDS, RATE, SeedComparison
from audit.report import format as fmt
from audit.report.words import skipped_in_words
from audit.stats import LEVEL, RESAMPLES


def order(x: ManyExplanation) -> list[str]:
    """Runs cluster by cluster: what lies close stands close."""
    listed = [run for cluster in x.clusters for run in cluster.runs]
    return listed + [run.id for run in x.runs if run.id not in listed]


def configuration_of(x: ManyExplanation, run: str) -> str:
    """Name of the configuration that a run is a seed of."""
    return next(group.name for group in x.configurations if run in group.runs)


def cluster_of(x: ManyExplanation, run: str) -> str:
    """Number of a run's cluster; a dash where it cannot be compared."""
    found = [cluster.name for cluster in x.clusters if run in cluster.runs]
    return found[0].removeprefix("cluster ") if found else fmt.NOTHING


def metrics(x: ManyExplanation) -> list[str]:
    """Outcomes that any run has, in a fixed order."""
    return [name for name in METRICS if any(name in outcome.means for outcome in x.outcomes)]


def run(x: ManyExplanation, name: str) -> RunId:
    """What is known of one run."""
    return next(one for one in x.runs if one.id == name)


def outcome(x: ManyExplanation, name: str, metric: str) -> str:
    """Mean of a metric in one run, with its interval."""
    means = next(one.means for one in x.outcomes if one.run == name)
    return fmt.estimate(means[metric]) if metric in means else fmt.NOTHING


def pairs(order: list[str]) -> list[tuple[str, str]]:
    """Every pair of runs once."""
    return [(order[i], order[j]) for i, j in pairs_of(len(order))]


def cell(matrix: DistanceMatrix, a: str, b: str) -> str:
    """Distance of two runs with its interval."""
    estimate = matrix.values[matrix.runs.index(a)][matrix.runs.index(b)]
    return fmt.NOTHING if estimate is None else fmt.estimate(estimate)


def distance(matrix: DistanceMatrix, a: str, b: str) -> str:
    """Distance of two runs alone."""
    estimate = matrix.values[matrix.runs.index(a)][matrix.runs.index(b)]
    return fmt.NOTHING if estimate is None else fmt.number(estimate.value)


def first_cause(pair: PairCause) -> str:
    """The first cause with its share, and how many follow."""
    if not pair.causes:
        parts = [c.removeprefix("objective.") for c in pair.not_identifiable if c.startswith("objective.")]
        unseen = f"none found; not identifiable: {', '.join(dict.fromkeys(parts))}"
        return unseen if parts else "nothing beyond seed noise"
    share = f" {fmt.percent(pair.share)}" if pair.share else ""
    more = f", and {len(pair.causes) - 1} more" if len(pair.causes) > 1 else ""
    return f"{pair.causes[0]}{share}{more}"


def field_share(field: SplitField) -> str:
    """Share of the distance between the medoids; a dash for what is no part of the objective."""
    return fmt.NOTHING if field.share is None else fmt.percent_estimate(field.share)


def side(runs: list[str]) -> str:
    """The runs of one side of a split."""
    return ", ".join(runs)


def unsplit(split: Split) -> str:
    """What is said where no field separates the sides."""
    return "" if split.fields or split.causes else "No field is one on each side and differs between them."


def moved(comparison: SeedComparison) -> str:
    """Whether a difference is beyond seed noise."""
    if comparison.p is None:
        return "one seed on a side" if min(comparison.n) < 2 else "no spread between seeds"
    word = "apart" if comparison.apart else "not apart"
    return f"{word}, preliminary" if comparison.preliminary else word


def difference(comparison: SeedComparison) -> str:
    """Difference with its interval over seeds."""
    return fmt.interval(comparison.difference, comparison.low, comparison.high, sign=True)


def skips(x: ManyExplanation) -> list[str]:
    """What was skipped or left out, with the reason."""
    left_out = [f"{broken.path}: {broken.error}" for broken in x.left_out]
    return [*left_out, *map(skipped_in_words, x.skipped)]


def unseen(x: ManyExplanation) -> list[str]:
    """Parts of the objective that runs neither declare nor show, and what would show them."""
    return [f"{each.cause}: needs {each.needs}" for each in x.verdict.not_identifiable]


def parameters(x: ManyExplanation) -> list[tuple[str, str]]:
    """How the numbers were made, thresholds with the word heuristic."""
    return [
        ("intervals of distances", f"{LEVEL:.0%}, bootstrap over prompts, {RESAMPLES:,} resamples, seed 0"),
        ("intervals of configurations", f"{LEVEL:.0%}, Student's t over seeds; Welch's where both have two"),
        ("apart", f"false discovery rate {RATE:g} over all comparisons (Benjamini and Hochberg)"),
        ("preliminary", f"fewer than {ENOUGH_SEEDS} seeds on a side"),
        ("clusters (heuristic)", f"average linkage, cut at 1 - cosine {x.cut:g}"),
        ("clusters of outcomes (heuristic)", f"the same, cut at {x.outcome_cut:g} standard deviations"),
        ("shares", "exact Shapley values between the medoids of the two sides, on the pooled rollouts"),
        (
            "explained pairs",
            f"all of up to {ALL_PAIRS} runs; of more, those of the clusters' medoids and of runs in none",
        ),
    ]
