"""Exact numbers of objectives as tables: prompt factor, groups without signal, effective batch and beta."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from audit.analyses.effective_batch import EffectiveBatch
from audit.analyses.effective_beta import EffectiveBeta
from audit.analyses.prompt_factor import Factor
from audit.analyses.prompt_tables import Column, Table, titles_of
from audit.analyses.zero_signal import Silence
from audit.report.format import NOTHING, number, percent
from audit.report.text.rows import Rows
from audit.report.text.shared import QUIET, STRONG, Page

_ON_POLICY = "On-policy, responses of one length: what clip, aggregation and KL do comes on top."


def show_table(table: Table, console: Console | None = None) -> None:
    """Print a table of exact numbers, and what they mean."""
    page = Page(console)
    _PAGES[table.kind](page, table)
    page.print()


def _factor(page: Page, table: Table) -> None:
    _title(page, "Prompt-weight factor", "1: the unbiased gradient (leave-one-out)", table)
    page.gap()
    if table.rewards:
        _reward_factor(page, table)
        return
    refilled = [column for column in table.columns if any(f.refilled for f in _factors(column))]
    titles = titles_of(table.columns, table) + [f"{title}, refilled" for title in titles_of(refilled, table)]
    rows = Rows("Success rate", *titles, right=range(1, len(titles) + 1))
    for at, first in enumerate(_factors(table.columns[0])):
        cells = [_two(_factors(column)[at].factor) for column in table.columns]
        cells += [_two(_factors(column)[at].refilled) for column in refilled]
        rows.add(_rate(first.rate), *cells)
    rows.add_to(page)
    page.gap()
    for title, column in zip(titles_of(table.columns, table), table.columns, strict=True):
        page.bullet(f"{title}: {_spread(_factors(column))}.")
    if refilled:
        page.bullet("refilled: per group that trains, where dynamic sampling replaces the others.")
    page.gap()
    page.say((_ON_POLICY, QUIET))


def _two(value: float | None) -> str:
    # 0.875 is shown alike whichever way its last bit fell.
    return number(None if value is None else round(value, 9), decimals=2)


def _spread(factors: Sequence[Factor]) -> str:
    """Say how unequally prompts count."""
    low = min(factors, key=lambda f: f.factor)
    high = max(factors, key=lambda f: f.factor)
    if high.factor - low.factor < 1e-9:
        same = "its own weight" if abs(low.factor - 1.0) < 1e-9 else f"the same weight, {low.factor:.3g}"
        return f"every prompt has {same}"
    if low.factor < 0.005 * high.factor:
        return f"a prompt {_at(low)} has next to no weight beside one {_at(high)}"
    more = percent(high.factor / low.factor - 1.0)
    if high.factor > 2 * low.factor:
        more = f"{high.factor / low.factor:.1f} times"
        return f"a prompt {_at(high)} weighs {more} as much as one {_at(low)}"
    return f"a prompt {_at(high)} weighs {more} more than one {_at(low)}"


def _at(factor: Factor) -> str:
    rate = factor.rate
    if rate in (0.0, 1.0):
        return f"near p = {rate:g}"
    return f"at p = {rate:g}"


def _reward_factor(page: Page, table: Table) -> None:
    told = ", ".join(f"{value:g} ({percent(share)})" for value, share in table.rewards)
    page.say(f"Rewards: {told}")
    page.gap()
    rows = Rows("Objective", "factor", right=(1,))
    drawn = False
    for title, column in zip(titles_of(table.columns, table), table.columns, strict=True):
        (factor,) = _factors(column)
        error = factor.standard_error
        drawn |= error > 0
        rows.add(title, number(factor.factor, decimals=3) + (f" ± {error:.2g}" if error else ""))
    rows.add_to(page)
    page.gap()
    how = "± one standard error of 20,000 drawn groups." if drawn else "Exact: every group was listed."
    page.say((f"{how} {_ON_POLICY}", QUIET))


def _zero_signal(page: Page, table: Table) -> None:
    _title(page, "Groups without signal", "all rewards equal: p^G + (1 - p)^G", table)
    page.gap()
    differs = [c for c in table.columns if any(abs(s.equal - s.no_advantage) > 1e-12 for s in _silences(c))]
    sizes: dict[int, Column] = {column.group_size: column for column in reversed(table.columns)}
    shown = [sizes[size] for size in sorted(sizes)]
    titles = [f"G = {column.group_size}" for column in shown]
    titles += [f"{title}: no advantage" for title in titles_of(differs, table)]
    rows = Rows("Success rate", *titles, right=range(1, len(titles) + 1))
    for at, first in enumerate(_silences(shown[0])):
        cells = [percent(_silences(column)[at].equal, decimals=1) for column in shown]
        cells += [percent(_silences(column)[at].no_advantage, decimals=1) for column in differs]
        rows.add(_rate(first.rate), *cells)
    rows.add_to(page)
    page.gap()
    text = (
        "Such groups train nothing, yet they count in the divisor of the loss unless they are filtered out."
    )
    page.say((text, QUIET))


def _effective_batch(page: Page, table: Table) -> None:
    _title(page, "Effective batch", "one group per prompt of the mix", table)
    for title, column in zip(titles_of(table.columns, table), table.columns, strict=True):
        batch = column.rows
        assert isinstance(batch, EffectiveBatch)
        page.gap()
        rows = Rows("Success rate", "groups with signal", "share of the pull", right=(1, 2))
        for prompt in batch.prompts:
            rows.add(_rate(prompt.rate), percent(prompt.live, decimals=1), percent(prompt.pull, decimals=1))
        rows.add_to(page)
        page.gap()
        size = batch.groups * batch.group_size
        page.bullet(
            f"{title}: {batch.live_groups:.1f} of {batch.groups} groups and {batch.live_responses:.1f} of "
            f"{size} responses carry an advantage; they are worth {batch.effective_responses:.1f} responses "
            "of equal weight."
        )


def _effective_beta(page: Page, table: Table) -> None:
    _title(page, "Effective beta", "the KL coefficient beside an unscaled reward", table)
    page.gap()
    titles = titles_of(table.columns, table)
    rows = Rows("Success rate", *titles, right=range(1, len(titles) + 1))
    for at, first in enumerate(_betas(table.columns[0])):
        rows.add(_rate(first.rate), *(_beta(_betas(column)[at]) for column in table.columns))
    rows.add_to(page)
    page.gap()
    page.say((f"beta over the prompt-weight factor: what the scale does not divide. {_ON_POLICY}", QUIET))


def _beta(found: EffectiveBeta) -> str:
    return NOTHING if found.beta is None else number(found.beta, decimals=4)


def _title(page: Page, title: str, aside: str, table: Table) -> None:
    sizes = {column.group_size for column in table.columns}
    at = f" at G = {sizes.pop()}" if len(sizes) == 1 else ""
    page.say((f"{title}{at}", STRONG), f"  {aside}")


def _rate(rate: float | None) -> str:
    if rate in (0.0, 1.0):
        return f"p → {rate:g}"
    return f"p = {rate:g}"


def _factors(column: Column) -> list[Factor]:
    return [row for row in column.rows if isinstance(row, Factor)] if isinstance(column.rows, list) else []


def _silences(column: Column) -> list[Silence]:
    return [row for row in column.rows if isinstance(row, Silence)] if isinstance(column.rows, list) else []


def _betas(column: Column) -> list[EffectiveBeta]:
    found = column.rows
    return [row for row in found if isinstance(row, EffectiveBeta)] if isinstance(found, list) else []


_PAGES: dict[str, Callable[[Page, Table], None]] = {
    "factor": _factor,
    "zero-signal": _zero_signal,
    "effective-batch": _effective_batch,
    "effective-beta": _effective_beta,
}
