"""``rlaudit staleness``: how far behind the policy its data were."""

from __future__ import annotations

from rich.console import Console

from audit.analyses.staleness import StalenessBreakdown
from audit.analyses.token_means import NOISE
from audit.analyses.version_lag import Lag
from audit.report import format as fmt
from audit.report.text.breakdown import add_columns, add_left_out, add_legend, n_of, span
from audit.report.text.rows import Rows
from audit.report.text.shared import DOUBT, QUIET, STRONG, Page

_LEGEND = (
    "Lag: policy_version - sampler_version, in versions. |log ratio|: root mean square of log pi_theta - log "
    "pi_old per loss token, nats. Mismatch: mean |log pi_old - log pi_sampler|. Removed: loss tokens that "
    f"the trust region zeroed. Ratio ≠ 1: of a token of the response |log ratio| is above {NOISE:g} "
    "(heuristic). n: responses."
)


def show_staleness(result: StalenessBreakdown, console: Console | None = None) -> None:
    """Print lag, what goes with it, and the drift of the policy ratio over inner passes."""
    page = Page(console)
    page.say((result.run, STRONG), f"  {result.objective or fmt.NO_OBJECTIVE}")
    page.gap()
    page.say((result.verdict, STRONG))
    if result.lag is not None:
        _lags(page, result.lag)
        _steps(page, result.lag)
    _passes(page, result)
    add_left_out(page, result.skipped, result.notes)
    add_legend(page, _LEGEND)
    page.print()


def _lags(page: Page, lag: Lag) -> None:
    shares = lag.shares
    columns = [
        ("responses", [fmt.percent_estimate(each.responses) for each in shares]),
        ("tokens", [fmt.percent_estimate(each.tokens) for each in shares]),
        ("length", [fmt.estimate(each.length) for each in shares]),
        ("|log ratio|", [fmt.estimate(each.log_ratio) for each in shares]),
        ("mismatch", [fmt.estimate(each.mismatch) for each in shares]),
        ("removed", [fmt.percent_estimate(each.zeroed) for each in shares]),
    ]
    add_columns(page, [span(each.low, each.high) for each in shares], "Lag", columns)
    said = f"n = {fmt.plural(lag.mean.n, 'response')}, mean lag {fmt.estimate(lag.mean)}"
    page.say((said, QUIET), indent=2)
    for count, what in (
        (lag.unknown, "without one of the two versions: left out"),
        (lag.negative, "with a negative lag"),
    ):
        if count:
            page.bullet((f"{fmt.plural(count, 'response')} {what}", DOUBT))


def _steps(page: Page, lag: Lag) -> None:
    if not lag.by_step:
        return
    page.gap()
    rows = Rows("Lag over steps", "mean", "most", "lag > 0", "n", right=(2, 4))
    for each in lag.by_step:
        rows.add(
            span(each.first_step, each.last_step),
            fmt.estimate(each.mean),
            fmt.count(each.most),
            fmt.percent_estimate(each.stale),
            n_of(each.mean),
        )
    rows.add_to(page)


def _passes(page: Page, result: StalenessBreakdown) -> None:
    passes = result.passes
    columns = [
        ("mean ratio", [fmt.estimate(each.ratio) for each in passes]),
        ("mean log ratio", [fmt.estimate(each.log_ratio, sign=True) for each in passes]),
        ("|log ratio|", [fmt.estimate(each.size) for each in passes]),
        ("largest", [fmt.number(each.largest) for each in passes]),
        ("ratio ≠ 1", [fmt.percent_estimate(each.moved) for each in passes]),
        ("removed", [fmt.percent_estimate(each.zeroed) for each in passes]),
    ]
    add_columns(
        page, [f"{each.epoch}, n = {fmt.count(each.responses)}" for each in passes], "Inner pass", columns
    )
