"""``rlaudit rewards``: what the reward is made of."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from audit.analyses.reward_parts import RewardPart
from audit.analyses.reward_signal import Signal
from audit.analyses.rewards import RewardBreakdown
from audit.report import format as fmt
from audit.report.text.breakdown import add_left_out, add_legend, span
from audit.report.text.rows import Rows
from audit.report.text.shared import DOUBT, QUIET, STRONG, Page, styled

_LEGEND = (
    "Spread: standard deviation within groups. No signal: groups in which it is the same for every sample. "
    "Share: of the variance of the reward within groups, covariances included; all shares sum to 100 %."
)
_HOW = {
    "sum": "the reward is the sum of its components",
    "fitted": "weights fitted, and exact: the reward is the weighted sum",
    "fitted with misfit": "weights fitted; the components do not make the reward exactly",
}


def show_rewards(result: RewardBreakdown, console: Console | None = None) -> None:
    """Print what each component adds, where rewards saturate, what cancels and what changes."""
    page = Page(console)
    page.say((result.run, STRONG), f"  {fmt.plural(result.samples, 'scored sample')}")
    parts = [result.reward, *result.components]
    _values(page, parts)
    _ends(page, parts)
    if result.signal is not None:
        _signal(page, result.signal)
    _changes(page, result)
    _remarks(page, result)
    add_left_out(page, result.skipped, result.notes)
    add_legend(page, _LEGEND)
    page.print()


def _values(page: Page, parts: list[RewardPart]) -> None:
    page.gap()
    rows = Rows("Reward", "mean", "spread", "no signal", "with length", "n", right=(5,), whole=(0,))
    for part in parts:
        rows.add(
            _name(part.name, part is parts[0]),
            fmt.estimate(part.mean),
            fmt.estimate(part.spread),
            fmt.percent_estimate(part.alike),
            fmt.estimate(part.with_length, sign=True),
            fmt.count(part.mean.n),
        )
    rows.add_to(page)


def _ends(page: Page, parts: list[RewardPart]) -> None:
    page.gap()
    rows = Rows(
        "Values",
        "least",
        "of samples",
        "median",
        "most",
        "of samples",
        "different",
        right=(1, 3, 4, 6),
        whole=(0,),
    )
    for part in parts:
        values = dict(part.quantiles)
        rows.add(
            _name(part.name, part is parts[0]),
            fmt.number(values.get(0.0)),
            fmt.percent_estimate(part.at_low),
            fmt.number(values.get(0.5)),
            fmt.number(values.get(1.0)),
            fmt.percent_estimate(part.at_high),
            fmt.count(part.distinct),
        )
    rows.add_to(page)


def _signal(page: Page, signal: Signal) -> None:
    page.gap()
    rows = Rows("Signal", "weight", "share", right=(1,))
    for each in signal.shares:
        rows.add(fmt.visible(each.name), fmt.number(each.weight), fmt.percent_estimate(each.share))
    if signal.how == "fitted with misfit":
        rows.add("not explained", "", fmt.percent_estimate(signal.rest))
    rows.add_to(page)
    page.say((_HOW[signal.how], QUIET), indent=2)
    said: list[tuple[str, str]] = []
    if signal.tied:
        said.append((f"weights that cannot be told apart: {', '.join(signal.tied)}", DOUBT))
    if signal.cancelled.value is not None and signal.cancelled.value > 0 and signal.cancelled.excludes(0.0):
        share = fmt.percent_estimate(signal.cancelled)
        said.append((f"components cancel {share} of the variance that they add", DOUBT))
    if signal.cancelled_groups.value:
        share, n = fmt.percent_estimate(signal.cancelled_groups), fmt.count(signal.cancelled_groups.n)
        said.append((f"in {share} of {n} groups components vary and the sum does not", DOUBT))
    for pair in signal.pairs[:5]:
        value = fmt.estimate(pair.correlation, sign=True)
        said.append((f"{pair.a} and {pair.b}: correlation {value} within groups", ""))
    if said:
        page.gap()
    for remark in said:
        page.bullet(remark)


def _changes(page: Page, result: RewardBreakdown) -> None:
    if not result.changes:
        return
    page.gap()
    spans = [span(each.first_step, each.last_step) for each in result.changes[0].by_step]
    rows = Rows("Mean at", *spans, "change", "spread ×", right=range(1, len(spans) + 1), whole=(0,))
    for change in result.changes:
        means = [fmt.number(each.mean.value) for each in change.by_step]
        rows.add(
            _name(change.name, change is result.changes[0]),
            *means,
            fmt.estimate(change.mean_change, sign=True),
            fmt.estimate(change.spread_ratio),
        )
    rows.add_to(page)


def _remarks(page: Page, result: RewardBreakdown) -> None:
    page.gap()
    bad = result.unscored
    for count, what in ((bad.null, "null"), (bad.nan, "NaN"), (bad.infinite, "infinite")):
        if count:
            page.bullet((f"{fmt.count(count)} of {fmt.count(bad.responses)} rewards are {what}", DOUBT))
    for part in result.components:
        if part.missing:
            page.bullet((f"{part.name}: missing in {fmt.plural(part.missing, 'sample')}", DOUBT))
    for part in (result.reward, *result.components):
        if part.distinct == 1:
            page.bullet((f"{part.name}: one value in every sample", DOUBT))
        elif part.constant_steps:
            page.bullet(
                (f"{part.name}: one value over {fmt.plural(part.constant_steps, 'whole step')}", DOUBT)
            )
    if result.texts is None:
        return
    texts = result.texts
    gap = f", by up to {fmt.number(texts.largest_gap)}" if texts.differing else ""
    page.bullet(
        f"equal texts: {fmt.count(texts.repeated)} repeat for a prompt, {fmt.count(texts.differing)} of them "
        f"with different rewards{gap}"
    )
    page.bullet(
        f"different texts: {fmt.count(texts.distinct_alike)} of {fmt.plural(texts.distinct, 'group')} with "
        "several texts have one reward"
    )


def _name(name: str, total: bool) -> Text | str:
    return styled(name, STRONG) if total else fmt.visible(name)
