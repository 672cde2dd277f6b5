"""``rlaudit prompts``: which prompts carry the gradient."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from audit.analyses.prompt_list import PromptRow
from audit.analyses.prompt_weights import PromptShares
from audit.analyses.prompts import PromptBreakdown
from audit.report import format as fmt
from audit.report.text.breakdown import add_left_out, add_legend, n_of
from audit.report.text.rows import Rows
from audit.report.text.shared import DOUBT, QUIET, STRONG, Page, styled
from audit.stats import Estimate

_LEGEND = (
    "Success rate: of the prompt, from its visits just before and after, the group itself left out. "
    "Gradient: share of the sum of |policy weight| over responses, KL in the loss left out. Factor: weight "
    "of a prompt, 1 for the unbiased gradient (leave-one-out); strong where it is not what the objective "
    "should give. Gini: 0 where every prompt has the same share, 1 where one has all. n: groups, unless said "
    "otherwise."
)
_LONGEST = 40


def show_prompts(result: PromptBreakdown, console: Console | None = None) -> None:
    """Print what prompts of each success rate get, how unequal the shares are, and the heaviest prompts."""
    page = Page(console)
    page.say((result.run, STRONG), f"  {result.objective or fmt.NO_OBJECTIVE}")
    page.say((_what(result), QUIET))
    _solved(page, result)
    _rates(page, result)
    _objectives(page, result)
    _heaviest(page, result)
    _texts(page, result)
    add_left_out(page, result.skipped, result.notes)
    add_legend(page, _LEGEND)
    page.print()


def _what(result: PromptBreakdown) -> str:
    visits = result.visits
    times = f"{visits.least}" if visits.least == visits.most else f"{visits.least} to {visits.most}"
    said = f"{fmt.plural(visits.prompts, 'prompt')}, {fmt.plural(result.groups, 'group')}: {times} a prompt"
    return said + (f", {fmt.count(visits.once)} visited once" if visits.once else "")


def _solved(page: Page, result: PromptBreakdown) -> None:
    if result.solved is None:
        return
    page.gap()
    solved = result.solved
    rows = Rows("Prompts", "share of prompts", "n", "share of samples", "n", right=(2, 4))
    for name, e, spent in (
        ("never solved", solved.never, solved.samples_on_never),
        ("always solved", solved.always, solved.samples_on_always),
    ):
        rows.add(name, fmt.percent_estimate(e), n_of(e), fmt.percent_estimate(spent), n_of(spent))
    rows.add_to(page)
    page.say(
        (f"solved: {result.correct_is}; median {solved.median_samples:g} samples a prompt", QUIET), indent=2
    )


def _rates(page: Page, result: PromptBreakdown) -> None:
    if not result.by_rate:
        return
    own = result.shares[0] if result.shares and result.shares[0].objective == result.objective else None
    gradient = {} if own is None else {each.low: each.share for each in own.by_rate}
    page.gap()
    rows = Rows("Success rate", "success", "length", "zero-signal", "gradient", "n", right=(5,))
    for each in result.by_rate:
        rows.add(
            _span(each.low, each.high),
            fmt.percent_estimate(each.success),
            fmt.estimate(each.length),
            fmt.percent_estimate(each.zero_signal),
            fmt.percent_estimate(gradient.get(each.low)),
            fmt.count(each.groups),
        )
    rows.add_to(page)
    factor = next((each for each in result.factors if each.objective == result.objective), None)
    if factor is None:
        return
    page.gap()
    rows = Rows("Factor at", "observed", "expected", "difference", "n", right=(2, 4))
    for at in factor.bins:
        rows.add(
            _span(at.low, at.high),
            fmt.estimate(at.observed),
            fmt.number(at.expected, decimals=2),
            _signed(at.difference),
            n_of(at.observed),
        )
    rows.add_to(page)
    if factor.left_out:
        said = "of another size, or of prompts with too few other visits, left out"
        page.say((f"{fmt.plural(factor.left_out, 'group')} {said}", QUIET), indent=2)


def _objectives(page: Page, result: PromptBreakdown) -> None:
    page.gap()
    rows = Rows("Shares under", "Gini", "heaviest 10 %", "prompts", right=(2, 3))
    for each in result.shares:
        rows.add(_marked(each.objective, result), *_unequal(each), n_of(each.gini))
    if result.samples_share is not None:
        number = Text("number of samples", QUIET)
        rows.add(number, *_unequal(result.samples_share), n_of(result.samples_share.gini))
    rows.add_to(page)
    if not result.factors:
        return
    page.gap()
    spans = list(dict.fromkeys(_span(at.low, at.high) for each in result.factors for at in each.bins))
    rows = Rows("Factor under", *spans, right=range(1, len(spans) + 1))
    for factor in result.factors:
        by_span = {_span(at.low, at.high): at.observed.value for at in factor.bins}
        cells = [fmt.number(by_span.get(span), decimals=2) for span in spans]
        rows.add(_marked(factor.objective, result), *cells)
    rows.add_to(page)


def _marked(objective: str, result: PromptBreakdown) -> Text | str:
    return styled(f"{objective} *", STRONG) if objective == result.objective else objective


def _unequal(shares: PromptShares) -> tuple[str, str]:
    return fmt.estimate(shares.gini), fmt.percent(shares.top_share.value)


def _heaviest(page: Page, result: PromptBreakdown) -> None:
    if not result.heaviest:
        return
    page.gap()
    by = "gradient" if result.shares and result.shares[0].objective == result.objective else "samples"
    rows = Rows("Heaviest prompts", by, "of samples", "samples", "solved", "length", right=range(1, 6))
    for each in result.heaviest:
        rows.add(
            _name(each),
            fmt.percent(each.share, decimals=1),
            fmt.percent(each.samples_share, decimals=1),
            fmt.count(each.samples),
            fmt.percent(each.success),
            fmt.number(each.length),
        )
    rows.add_to(page)


def _name(each: PromptRow) -> str:
    text = each.prompt if each.prompt is not None else each.prompt_id
    shown = fmt.visible(text[: 2 * _LONGEST])
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _texts(page: Page, result: PromptBreakdown) -> None:
    if result.texts is None:
        return
    found = [
        (result.texts.ids_of_shared_text, "with the text of another"),
        (
            result.texts.ids_of_like_text - result.texts.ids_of_shared_text,
            "with the text of another but for case and white space",
        ),
        (result.texts.ids_of_several_texts, "that stands for several texts"),
    ]
    said = [f"{fmt.plural(count, 'prompt_id')} {what}" for count, what in found if count]
    if said:
        page.heading("Prompt texts")
        for each in said:
            page.bullet((each, DOUBT))


def _span(low: float, high: float) -> str:
    return f"{100 * low:g}–{100 * high:g} %"


def _signed(e: Estimate) -> Text:
    shown = fmt.estimate(e, sign=True)
    return Text(shown, STRONG if e.excludes(0.0) and not shown.startswith("0 ") else "")
