"""``rlaudit clipping``: what the trust region removed, and what another would have."""

from __future__ import annotations

from rich.console import Console

from audit.analyses.clipping import Clipping
from audit.analyses.inner_updates import FirstUpdate
from audit.report import format as fmt
from audit.report.text.breakdown import add_skipped
from audit.report.text.buckets import INTERVALS, add_buckets, add_doubts, trend_in_words
from audit.report.text.rows import Rows
from audit.report.text.shared import QUIET, STRONG, Page, styled

TITLES = {
    "side": "By side",
    "sign": "By sign of A",
    "length": "By length, tenths of responses",
    "position": "By place in the response",
    "tenth": "By part of the response",
    "logp": "By probability under the old policy",
    "epoch": "By inner epoch",
    "update": "By inner update",
}
_LEGEND = (
    "share: loss tokens of the row that the trust region removed, over its loss tokens (by side: over all); "
    "strong where its interval excludes the run's share. lift: that share over the run's. lost: gradient "
    "weight Σ|w| that the trust region takes, of what it would be without one. "
)
_MOST_IDS = 10


def show_clipping(result: Clipping, console: Console | None = None) -> None:
    """Print what the trust region removed, where, and what others would have removed."""
    page = Page(console)
    page.say((result.run, STRONG), f"  {result.objective or fmt.NO_OBJECTIVE}")
    page.gap()
    page.say((result.verdict, STRONG))
    if result.share is not None:
        _whole(page, result)
        for name, title in TITLES.items():
            buckets = result.by.get(name, [])
            if len(buckets) > 1 or name == "side":
                whole = None if name == "side" else result.share
                add_buckets(page, title, buckets, fmt.percent_estimate, whole)
    _ids(page, result)
    _bounds(page, result)
    add_doubts(page, result.doubts)
    add_skipped(page, result.skipped)
    page.gap()
    page.say((_LEGEND + INTERVALS, QUIET))
    page.print()


def _whole(page: Page, result: Clipping) -> None:
    page.gap()
    rows = Rows("", "", "")
    of = f"{fmt.count(result.zeroed)} of {fmt.plural(result.tokens, 'loss token')}"
    of += f", n = {fmt.plural(result.responses, 'response')}"
    rows.add("clip-zeroed", fmt.percent_estimate(result.share), styled(of, QUIET))
    if result.outside_kept is not None:
        kept = styled("loss tokens outside the band that keep their gradient", QUIET)
        rows.add("outside, kept", fmt.percent_estimate(result.outside_kept), kept)
    rows.add_to(page)
    if result.steps is not None:
        page.bullet(f"over steps: {trend_in_words(result.steps, fmt.percent_estimate)}")
    if result.first_update is not None:
        page.bullet(first_in_words(result.first_update))


def first_in_words(first: FirstUpdate) -> str:
    """Say what the ratio is where nothing was updated yet."""
    n = f"n = {fmt.plural(first.responses, 'response')}"
    if first.always_one:
        return f"the ratio is exactly 1 in every update ({n})"
    if first.exact:
        return f"at the first inner update the ratio is exactly 1, as it must be ({n})"
    return (
        f"at the first inner update the ratio is not 1: |log rho| up to {fmt.number(first.largest)}, "
        f"typically {fmt.number(first.typical)} ({n}). Nothing was updated yet: the old "
        "log-probs come from another computation (inference engine, precision, batch shape) or older weights"
    )


def _ids(page: Page, result: Clipping) -> None:
    if not result.ids:
        return
    page.gap()
    rows = Rows(
        "Token ids removed most", "text", "removed", "of", "share", "lift", right=(2, 3), whole=(0, 2, 3)
    )
    for one in result.ids[:_MOST_IDS]:
        text = "" if one.text is None else (repr(one.text) if one.text else "no text")
        rows.add(
            str(one.id),
            text,
            fmt.count(one.zeroed),
            fmt.count(one.tokens),
            fmt.percent_estimate(one.share),
            fmt.estimate(one.lift),
        )
    rows.add_to(page)
    page.say(
        (f"{fmt.plural(result.distinct_ids, 'id')} removed at least once; {result.ids_are}.", QUIET), indent=2
    )


def _bounds(page: Page, result: Clipping) -> None:
    if not result.bounds:
        return
    page.gap()
    rows = Rows("Same tokens under", "removes", "share", "lost", "n", right=(1, 4))
    for one in result.bounds:
        removed = fmt.count(one.zeroed) + (" in responses" if one.unit == "response" and one.zeroed else "")
        rows.add(
            one.objective,
            removed,
            fmt.percent_estimate(one.share),
            "–" if one.lost is None else fmt.percent_estimate(one.lost),
            fmt.count(one.share.n),
        )
    rows.add_to(page)
