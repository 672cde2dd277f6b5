"""``rlaudit kl``: how far the policy is from its reference, and what the run's KL pulls on."""

from __future__ import annotations

from rich.console import Console

from audit.analyses.kl_estimates import KLReport
from audit.analyses.kl_estimates_placement import Placement
from audit.report import format as fmt
from audit.report.text.breakdown import add_skipped
from audit.report.text.buckets import INTERVALS, add_doubts, trend_in_words
from audit.report.text.rows import Rows
from audit.report.text.shared import QUIET, STRONG, Page

_LEGEND = (
    "d = log pi - log pi_ref on a sampled token; k1 = d, k2 = d²/2, k3 = exp(-d) - 1 + d, in nats. "
    "corrected: weighted by pi_theta / pi_old, for the tokens are samples of old. error: Monte-Carlo "
    "standard error, clustered by prompt. h: gradient of the estimator as a loss; alignment: cosine with d, "
    "the pull of reverse KL. "
)
_NAMES = {
    "theta_ref_k1": "KL(theta ‖ ref), k1",
    "theta_ref_k3": "KL(theta ‖ ref), k3",
    "old_ref_k3": "KL(old ‖ ref), k3",
    "drift_k3": "KL(old ‖ theta), k3",
}


def show_kl(result: KLReport, console: Console | None = None) -> None:
    """Print the KL estimates of a run, and what its own KL does."""
    page = Page(console)
    page.say((result.run, STRONG), f"  {result.objective or fmt.NO_OBJECTIVE}")
    page.gap()
    page.say((result.verdict, STRONG))
    for per in ("token", "sequence"):
        _estimates(page, result, per)
    if result.correction is not None and result.estimates:
        weights = result.correction
        page.bullet(
            f"weights of the correction per sequence: ESS {fmt.percent_estimate(weights.ess)}, Pareto k "
            f"{fmt.number(weights.pareto_k)} of the {fmt.count(weights.tail)} largest, reliable below "
            f"{weights.reliable_k:.2f} (n = {fmt.plural(weights.ess.n, 'response')})"
        )
    _drift(page, result)
    if result.trends:
        page.heading("Over steps")
        for name, trend in result.trends.items():
            page.bullet(f"{_NAMES.get(name, name)}: {trend_in_words(trend, fmt.estimate)}")
    for start in result.start:
        page.heading(f"KL({start.of} ‖ ref) at step {start.step}")
        page.bullet(
            f"k1 {fmt.estimate(start.mean)}, k3 {fmt.estimate(start.k3)}, mean |d| "
            f"{fmt.estimate(start.size)} (n = {fmt.plural(start.size.n, 'response')}): {start.meaning}"
        )
    _pulls(page, result)
    if result.placement is not None:
        _placement(page, result.placement, result)
    add_doubts(page, result.doubts)
    add_skipped(page, result.skipped)
    page.gap()
    page.say((_LEGEND + INTERVALS, QUIET))
    page.print()


def _estimates(page: Page, result: KLReport, per: str) -> None:
    listed = [e for e in result.estimates if e.per == per]
    if not listed:
        return
    page.gap()
    rows = Rows(f"KL to the reference per {per}", "", "nats", "error", "n", right=(4,))
    for e in listed:
        name = f"{e.of} ‖ ref" + (", corrected" if e.corrected else "")
        rows.add(name, e.estimator, fmt.estimate(e.value), fmt.number(e.standard_error), fmt.count(e.value.n))
    rows.add_to(page)


def _drift(page: Page, result: KLReport) -> None:
    drift = result.drift
    if drift is None:
        return
    page.gap()
    rows = Rows("Drift KL(old ‖ theta) per token", "nats", "n", right=(2,))
    for name, e in (("k1", drift.k1), ("k2", drift.k2), ("k3", drift.k3)):
        rows.add(name, fmt.estimate(e), fmt.count(e.n))
    for bucket in drift.by_update if len(drift.by_update) > 1 else []:
        rows.add(f"k3, {bucket.name}", fmt.estimate(bucket.value), fmt.count(bucket.value.n))
    rows.add_to(page)


def _pulls(page: Page, result: KLReport) -> None:
    if not result.pulls:
        return
    page.gap()
    rows = Rows("As a loss", "h", "mean h", "alignment", "pulls towards", whole=(0, 1))
    for pull in result.pulls:
        rows.add(pull.form, pull.h, fmt.estimate(pull.mean), fmt.estimate(pull.alignment), pull.effect)
    rows.add_to(page)


def _placement(page: Page, own: Placement, result: KLReport) -> None:
    if own.where == "none":
        return
    page.heading("KL of this objective", own.form)
    page.bullet(f"coefficient {fmt.number(own.coefficient)}; pulls towards {own.effect}")
    if own.effective_beta is not None and own.group_std is not None:
        groups = f"n = {fmt.plural(own.group_std.n, 'group')} with signal"
        page.bullet(
            "next to the reward: coefficient · std of the group's rewards = "
            f"{fmt.estimate(own.effective_beta)} (std {fmt.estimate(own.group_std)}, {groups})"
        )
    if own.by_rate:
        told = [f"{r.rate:g}: {fmt.number(r.beta)}" for r in own.by_rate]
        if len({r.beta for r in own.by_rate}) == 1:
            told = [f"{fmt.number(own.by_rate[0].beta)} for every prompt"]
        page.bullet(f"next to the reward by success rate of a prompt, exactly: {', '.join(told)}")
    if own.penalty is not None:
        page.bullet(
            f"taken off a reward: {fmt.estimate(own.penalty.mean)} "
            f"(n = {fmt.plural(own.penalty.mean.n, 'response')}); within groups its spread is "
            f"{fmt.number(own.penalty.spread)} of the reward's"
        )
    share = result.gradient
    if share is not None:
        page.bullet(
            f"of the gradient: |w_kl| is {fmt.estimate(share.ratio)} of |w_policy|, cosine "
            f"{fmt.estimate(share.cosine)} (n = {fmt.plural(share.ratio.n, 'response')})"
        )
