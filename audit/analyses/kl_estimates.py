"""How far is the policy from its reference and from its old self, and what does the run's KL pull on?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from audit.analyses.bucket_shares import Bucket, Trend, by_rank, trend
from audit.analyses.inner_updates import inner_update
from audit.analyses.kl_estimates_gradient import GradientShare, Pull, gradient_share, pull_facts, pulls
from audit.analyses.kl_estimates_placement import Placement, placement
from audit.analyses.kl_estimates_start import Start, start
from audit.analyses.kl_estimates_values import (
    CorrectionWeights,
    KLEstimate,
    correction_weights,
    kl_to_reference,
    needed_facts,
)
from audit.analyses.left_out import files_left_out
from audit.analyses.outcomes import first_pass
from audit.analyses.overflow import overflow_notes
from audit.analyses.skipped import Skipped
from audit.analyses.skips import Skips
from audit.facts.rows import RunRows
from audit.objectives.objective import Objective
from audit.stats import FEW_CLUSTERS, Estimate, ratio_of_sums

HEAVY = 0.2
"""Share of a sum from which one response is said to decide it; heuristic."""


class Drift(msgspec.Struct, frozen=True):
    """KL(old ‖ theta) per token, nats: how far updates moved the policy from the one that was sampled."""

    k1: Estimate
    k2: Estimate
    k3: Estimate
    by_update: list[Bucket]
    """k3 by inner update on the same batch, many of them in bins."""


class KLReport(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit kl --json``; values are nats."""

    run: str
    objective: str | None
    estimates: list[KLEstimate]
    correction: CorrectionWeights | None
    """Of the corrected estimates per sequence."""
    trends: dict[str, Trend]
    """theta_ref_k1, theta_ref_k3, old_ref_k3, drift_k3 per token, over steps."""
    drift: Drift | None
    start: list[Start]
    pulls: list[Pull]
    """What each estimator does as a loss on these tokens."""
    placement: Placement | None
    """Where the run's own KL stands."""
    gradient: GradientShare | None
    """The part of the gradient that is the KL in the loss."""
    skipped: list[Skipped]
    doubts: list[str]
    verdict: str
    schema: str = "rlaudit.kl.v1"


def kl_report(rows: RunRows, objective: Objective | None, notes: Sequence[str] = ()) -> KLReport:
    """Estimate the KLs of a run, and say what its own KL term does.

    Parameters
    ----------
    objective : Objective, optional
        Usually the run's own; without one the run's own KL is not spoken of.
    notes : sequence of str
        What was assumed about the objective; repeated among the doubts.
    """
    skips = Skips(rows)
    doubts = [*notes, *files_left_out(rows.run), *overflow_notes(rows)]
    estimates: list[KLEstimate] = []
    trends: dict[str, Trend] = {}
    starts: list[Start] = []
    found_pulls: list[Pull] = []
    drift = correction = None
    sources: dict[Literal["theta", "old"], np.ndarray] = {}
    has_tokens = not skips.lacks("KL", ("logp_theta", "logp_old", "logp_ref")) and rows.facts is not None
    if has_tokens and rows.facts is not None:
        trained = ~rows.greedy
        if not skips.lacks("KL(theta ‖ ref)", "logp_theta", "logp_ref"):
            sources["theta"] = trained
            if not rows.has("logp_old"):
                skips.add("corrected KL(theta ‖ ref)", "logp_old")
        if not skips.lacks("KL(old ‖ ref)", "logp_old", "logp_ref"):
            # The old policy is the same in every inner pass.
            sources["old"] = first_pass(rows)
        rows.facts.read(_facts(rows, sources))
        for of, use in sources.items():
            estimates += [e for e in kl_to_reference(rows, of, use) if e.value.n]
            _follow(rows, of, use, trends, skips)
            first = skips.attempt(f"KL({of} ‖ ref) at the first step", lambda: start(rows, of, use))  # noqa: B023
            starts += [] if first is None else [first]
        if "theta" in sources and rows.has("logp_old"):
            correction = correction_weights(rows, trained)
        if "theta" in sources:
            found_pulls = pulls(rows, trained)
        if not skips.lacks("drift of theta from old", "logp_theta", "logp_old"):
            drift = _drift(rows, trained, trends, skips)
        doubts += _lost(rows, sources)
    own = share = None
    if objective is None:
        skips.add("the run's own KL", "an objective: declared in run.json, or --objective")
    else:
        own = placement(rows, objective, skips)
        if own.where in ("loss", "both"):
            share = skips.attempt("KL's share of the gradient", lambda: gradient_share(rows, objective))
    doubts += _doubts(rows, estimates, correction)
    return KLReport(
        run=rows.run.run_id,
        objective=None if objective is None else objective.name,
        estimates=estimates,
        correction=correction,
        trends=trends,
        drift=drift,
        start=starts,
        pulls=found_pulls,
        placement=own,
        gradient=share,
        skipped=skips.found,
        doubts=doubts,
        verdict=_verdict(estimates, trends, starts, own),
    )


def _facts(rows: RunRows, sources: dict[Literal["theta", "old"], np.ndarray]) -> list[str]:
    """Everything that will be read, so that one pass over tokens computes it."""
    names = ["loss_tokens"]
    for of in sources:
        names += [*needed_facts(of), f"kl_{of}_ref_abs"]
    if "theta" in sources:
        names += pull_facts(rows)
    if rows.has("logp_theta") and rows.has("logp_old"):
        names += ["log_ratio", "log_ratio_square", "ratio"]
    return names


def _follow(rows: RunRows, of: str, use: np.ndarray, trends: dict[str, Trend], skips: Skips) -> None:
    assert rows.facts is not None
    for form in ("k1", "k3") if of == "theta" else ("k3",):
        values = rows.facts[f"kl_{of}_ref_{form}"]
        held = use & np.isfinite(values)
        if held.any():
            name = f"{of}_ref_{form}"
            made = skips.attempt(f"{name} over steps", lambda: _trend(rows, held, values))  # noqa: B023
            trends |= {} if made is None else {name: made}


def _trend(rows: RunRows, held: np.ndarray, values: np.ndarray) -> Trend:
    assert rows.facts is not None
    return trend(rows, held, values, rows.facts["loss_tokens"].astype(np.float64))


def _drift(rows: RunRows, trained: np.ndarray, trends: dict[str, Trend], skips: Skips) -> Drift | None:
    assert rows.facts is not None
    log, square, ratio = (rows.facts[name] for name in ("log_ratio", "log_ratio_square", "ratio"))
    tokens = rows.facts["loss_tokens"].astype(np.float64)
    # Log-probs may be infinite; such responses are not held.
    with np.errstate(invalid="ignore"):
        k3 = ratio - tokens - log
    held = trained & np.isfinite(k3)
    if not held.any():
        skips.add("drift of theta from old", "a response with finite logp_theta and logp_old")
        return None
    prompt, n = rows.prompt[held], int(held.sum())
    k1, k2, k3_ = (ratio_of_sums(x[held], tokens[held], prompt, n) for x in (-log, 0.5 * square, k3))
    made = skips.attempt("drift_k3 over steps", lambda: _trend(rows, held, k3))
    trends |= {} if made is None else {"drift_k3": made}
    inner = skips.attempt("drift by inner update", lambda: inner_update(rows))
    buckets: list[Bucket] = []
    if inner is not None:
        buckets = by_rank("inner update", inner[held] + 1, k3[held], tokens[held], prompt)
    return Drift(k1, k2, k3_, buckets)


def _lost(rows: RunRows, sources: dict[Literal["theta", "old"], np.ndarray]) -> list[str]:
    assert rows.facts is not None
    said = []
    for of, use in sources.items():
        lost = int((use & ~np.isfinite(rows.facts[f"kl_{of}_ref_k1"])).sum())
        if lost:
            said.append(f"{lost} responses left out of KL({of} ‖ ref): log-probs are missing or not finite")
    return said


def _doubts(
    rows: RunRows, estimates: Sequence[KLEstimate], correction: CorrectionWeights | None
) -> list[str]:
    said = []
    k = None if correction is None else correction.pareto_k
    if correction is not None and k is not None and k >= correction.reliable_k:
        said.append(
            f"the weights of responses that correct for samples from old have Pareto k = {k:.2f}, beyond "
            f"{correction.reliable_k:.2f}: corrected values per sequence cannot be trusted"
        )
    for e in estimates:
        if e.estimator == "k1" and e.value.high is not None and e.value.high < 0 and not e.corrected:
            said.append(
                f"k1 of {e.of} per {e.per} is below 0 beyond noise, which no KL is: the tokens are no "
                f"samples of {e.of} (old log-probs, another engine, another temperature)"
            )
        if e.heaviest is not None and e.heaviest > HEAVY and e.value.n > 10:
            name = f"{'corrected ' if e.corrected else ''}{e.estimator} of {e.of} per {e.per}"
            said.append(
                f"one response holds {e.heaviest:.0%} of {name}: neither value nor interval can be trusted"
            )
    if rows.has("logp_sampler"):
        said.append("tokens were sampled by the inference engine; the correction is from old to theta alone")
    prompts = len(np.unique(rows.prompt)) if rows.num_rows else 0
    if 0 < prompts < FEW_CLUSTERS:
        said.append(f"only {prompts} prompts: intervals by prompt are rough")
    return said


def _verdict(
    estimates: Sequence[KLEstimate], trends: dict[str, Trend], starts: Sequence[Start], own: Placement | None
) -> str:
    said = []
    for of in ("theta", "old"):
        plain = [
            e
            for e in estimates
            if e.of == of and e.per == "token" and e.estimator == "k3" and not e.corrected
        ]
        if plain and plain[0].value.value is not None:
            moved = trends.get(f"{of}_ref_k3")
            way = ""
            if moved is not None and moved.slope.value is not None and moved.slope.excludes(0.0):
                way = ", rising over the run" if moved.slope.value > 0 else ", falling over the run"
            said.append(f"KL({of} ‖ ref) is {plain[0].value.value:.3g} nats a token (k3){way}.")
            break
    if not estimates:
        said.append("This log cannot say how far the policy is from a reference.")
    if starts and starts[0].state != "same":
        said.append(f"At step {starts[0].step} it is not exactly 0: {starts[0].meaning}.")
    if own is not None:
        said.append(_told(own))
    return " ".join(said)


def _told(own: Placement) -> str:
    if own.where == "none":
        return "The objective has no KL to the reference."
    text = f"The objective has {own.form}, coefficient {own.coefficient:g}: it pulls towards {own.effect}."
    if own.effective_beta is not None and own.effective_beta.value is not None:
        text += (
            f" Next to the reward it counts {own.effective_beta.value:.3g}: advantages are divided by a std."
        )
    return text
