"""``rlaudit mismatch``: the inference engine's log-probs against the trainer's."""

from __future__ import annotations

from rich.console import Console

from audit.analyses.mismatch import Mismatch
from audit.analyses.mismatch_corrections import CorrectionEffect
from audit.analyses.mismatch_weights import Weights
from audit.report import format as fmt
from audit.report.mismatch_rows import gap_rows, level_name
from audit.report.text.breakdown import add_skipped
from audit.report.text.buckets import INTERVALS, add_buckets, add_doubts, trend_in_words
from audit.report.text.rows import Rows
from audit.report.text.shared import QUIET, STRONG, Page, styled

TITLES = {"position": "By place in the response", "logp": "By probability under the old policy"}
_LEGEND = (
    "g = log pi_old - log pi_sampler on a sampled token, in nats. k3 = exp(g) - 1 - g estimates "
    "KL(sampler ‖ old). ESS: effective share of the samples under the weights pi_old / pi_sampler. By place "
    "and probability: strong where the interval excludes the run's mean. "
)
_MOST_RESETS = 10


def show_mismatch(result: Mismatch, console: Console | None = None) -> None:
    """Print how sampler and trainer differ, and what that does to weights."""
    page = Page(console)
    page.say((result.run, STRONG))
    page.gap()
    page.say((result.verdict, STRONG))
    if result.gap is not None:
        _gap(page, result)
    if result.tail is not None:
        _tail(page, result)
    if result.weights is not None:
        _weights(page, result.weights)
    _corrections(page, result.corrections)
    for name, title in TITLES.items():
        whole = None if result.gap is None else result.gap.size
        add_buckets(page, title, result.by.get(name, []), fmt.estimate, whole, value="mean |g|")
    _storage(page, result)
    add_doubts(page, result.doubts)
    add_skipped(page, result.skipped)
    page.gap()
    page.say((_LEGEND + INTERVALS, QUIET))
    page.print()


def _gap(page: Page, result: Mismatch) -> None:
    gap = result.gap
    assert gap is not None
    page.gap()
    rows = Rows("Per loss token", "", "")
    n = f"n = {fmt.plural(result.responses, 'response')}, {fmt.plural(result.tokens, 'loss token')}"
    for name, e in gap_rows(gap):
        rows.add(name, fmt.estimate(e), styled(n, QUIET))
        n = ""
    rows.add_to(page)
    if result.steps is not None:
        page.bullet(f"mean |g| over steps: {trend_in_words(result.steps, fmt.estimate)}")
    if result.resets:
        shown = ", ".join(str(step) for step in result.resets[:_MOST_RESETS])
        more = f" and {len(result.resets) - _MOST_RESETS} more" if len(result.resets) > _MOST_RESETS else ""
        noun = "step" if len(result.resets) == 1 else "steps"
        page.bullet(f"falls back at {noun} {shown}{more}: weights were synchronised, or the engine restarted")


def _tail(page: Page, result: Mismatch) -> None:
    tail = result.tail
    assert tail is not None
    page.gap()
    rows = Rows("Over responses", *(level_name(level) for level in tail.mean_quantiles))
    for name, quantiles in (("mean |g|", tail.mean_quantiles), ("largest |g|", tail.max_quantiles)):
        rows.add(name, *(fmt.number(value) for value in quantiles.values()))
    rows.add_to(page)
    if tail.held is not None:
        page.bullet(
            f"the {fmt.percent(tail.head)} of responses with the largest Σ|g| hold {fmt.percent(tail.held)} "
            f"of it; they are of {tail.prompts} of {fmt.plural(tail.all_prompts, 'prompt')}"
        )
    page.bullet(f"equal on every token: {fmt.percent(tail.identical, decimals=1)} of the responses")


def _weights(page: Page, weights: Weights) -> None:
    page.gap()
    n = f"n = {fmt.plural(weights.responses, 'response')}"
    rows = Rows("Importance weights", "", "")
    rows.add("mean weight of a response", fmt.estimate(weights.mean), styled(f"{n}; 1 in expectation", QUIET))
    rows.add("ESS of responses", fmt.percent_estimate(weights.ess), "")
    if weights.update_ess_median is not None:
        of_update = f"{fmt.percent(weights.update_ess_median)}, least {fmt.percent(weights.update_ess_least)}"
        updates = styled(fmt.plural(weights.updates, "update"), QUIET)
        rows.add("ESS within an update", f"median {of_update}", updates)
    rows.add("ESS of tokens", fmt.percent_estimate(weights.token_ess), "")
    k = f"{fmt.number(weights.pareto_k)} ({weights.state})"
    of = f"of the {fmt.plural(weights.tail, 'largest weight')}; reliable below {weights.reliable_k:.2f}"
    rows.add("Pareto k of responses", k, styled(of, QUIET))
    rows.add("correlation of log W with length", fmt.estimate(weights.with_length), "")
    rows.add_to(page)


def _corrections(page: Page, corrections: list[CorrectionEffect]) -> None:
    if not corrections:
        return
    page.gap()
    rows = Rows("Correction", "does", "tokens touched", "responses", "mean weight", "n", right=(5,))
    for one in corrections:
        rows.add(
            one.name,
            does(one),
            fmt.percent_estimate(one.touched),
            "–" if one.responses is None else fmt.percent_estimate(one.responses),
            fmt.estimate(one.mean_weight),
            fmt.count(one.touched.n),
        )
    rows.add_to(page)


def does(one: CorrectionEffect) -> str:
    """Say what a correction does, to what, and where."""
    window = f"[{0 if one.low is None else one.low:g}, {'∞' if one.high is None else format(one.high, 'g')}]"
    whose = "tokens" if one.level == "token" else f"responses ({one.level})"
    return f"{one.action}s {whose} {'to' if one.action == 'truncate' else 'outside'} {window}"


def _storage(page: Page, result: Mismatch) -> None:
    if not result.grids:
        return
    page.gap()
    rows = Rows("Log-probs on the grid of", "bfloat16", "float16", "of", right=(3,))
    for grid in result.grids:
        shares = (fmt.percent(share, decimals=1) for share in (grid.bfloat16, grid.float16))
        rows.add(grid.column, *shares, fmt.count(grid.tokens))
    rows.add_to(page)
