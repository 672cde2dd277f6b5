"""``rlaudit groups``: which groups carry no signal, why, and what they cost."""

from __future__ import annotations

from rich.console import Console

from audit.analyses.group_shapes import GroupShapes
from audit.analyses.zero_groups import GroupBreakdown
from audit.report import format as fmt
from audit.report.text.breakdown import add_left_out, add_legend, n_of, span
from audit.report.text.rows import Rows
from audit.report.text.shared import DOUBT, QUIET, STRONG, Page

_LEGEND = (
    "Without signal: all rewards of the group are equal. Predicted: were every reward an independent draw at "
    "the prompt's success rate, which is estimated from its visits just before and after. n: groups, unless "
    "said otherwise."
)
_ALIKE = (
    "Groups are more alike than predicted: success rates move from visit to visit, or the responses of a "
    "group are not independent draws."
)
_UNLIKE = "Groups are less alike than predicted: groups without signal may have been left out before logging."


def show_groups(result: GroupBreakdown, console: Console | None = None) -> None:
    """Print how many groups carry no signal, against what to expect, over steps and by group size."""
    page = Page(console)
    page.say((result.run, STRONG), f"  {result.objective or fmt.NO_OBJECTIVE}")
    head = f"{fmt.plural(result.groups, 'group')} of {fmt.plural(result.prompts, 'prompt')}"
    page.say((f"{head}, most often {fmt.plural(result.group_size, 'sample')}", QUIET))
    _shares(page, result)
    _over_steps(page, result)
    _sizes(page, result)
    _cost(page, result)
    _shapes(page, result.shapes)
    add_left_out(page, result.skipped, result.notes)
    add_legend(page, _LEGEND)
    page.print()


def _shares(page: Page, result: GroupBreakdown) -> None:
    page.gap()
    zero = result.zero_signal
    rows = Rows("Groups without signal", "share", "n", right=(2,))
    rows.add("all", fmt.percent_estimate(zero.all), n_of(zero.all))
    for name, e in (("all right", zero.right), ("all wrong", zero.wrong), ("equal otherwise", zero.other)):
        if e is not None and (e.value or name != "equal otherwise"):
            rows.add(f"  {name}", fmt.percent_estimate(e), n_of(e))
    if result.expected is not None:
        held = result.expected
        rows.add("predicted", fmt.percent_estimate(held.predicted), n_of(held.predicted))
        rows.add("observed - predicted", fmt.percent_estimate(held.difference), n_of(held.difference))
    if result.silenced is not None:
        silent = result.silenced
        name = f"without weight under {result.objective}"
        rows.add(name, fmt.percent_estimate(silent.without_weight), n_of(silent.without_weight))
    rows.add_to(page)
    if zero.right is not None:
        page.say((f"right and wrong by {zero.correct_is}", QUIET), indent=2)
    if result.expected is not None and result.expected.difference.excludes(0.0):
        page.gap()
        page.bullet(_ALIKE if (result.expected.difference.value or 0.0) > 0 else _UNLIKE)


def _over_steps(page: Page, result: GroupBreakdown) -> None:
    if not result.by_step:
        return
    page.gap()
    rows = Rows("Over steps", "without signal", "predicted", "n", right=(3,))
    for part in result.by_step:
        rows.add(
            span(part.first_step, part.last_step),
            fmt.percent_estimate(part.observed),
            fmt.percent_estimate(part.predicted),
            n_of(part.observed),
        )
    rows.add_to(page)


def _sizes(page: Page, result: GroupBreakdown) -> None:
    page.gap()
    rows = Rows("At group size", "without signal", "n", right=(2,))
    for size in result.by_size:
        own = "  this run" if size.group_size == result.group_size else ""
        rows.add(f"{size.group_size}{own}", fmt.percent_estimate(size.share), n_of(size.share))
    rows.add_to(page)
    if any(size.share.n < size.groups for size in result.by_size):
        page.say(("n: groups of prompts with enough samples; the others are left out", QUIET), indent=2)


def _cost(page: Page, result: GroupBreakdown) -> None:
    page.gap()
    rows = Rows("Generated for groups without signal", "", "share", "n", right=(1, 3))
    spent, again = result.cost, result.refill
    shares = (spent.samples_share, spent.tokens_share)
    rows.add("samples", fmt.count(spent.samples), fmt.percent_estimate(shares[0]), n_of(shares[0], "sample"))
    rows.add("tokens", fmt.count(spent.tokens), fmt.percent_estimate(shares[1]), n_of(shares[1], "sample"))
    rows.add_to(page)
    page.gap()
    done = " (done already)" if again.applied else ""
    page.bullet(
        f"Dynamic sampling{done}: {fmt.estimate(again.drawn_per_kept)} groups drawn for each that is kept; "
        f"{fmt.plural(again.never, 'prompt')} never had a group with signal in several visits."
    )
    if result.silenced is not None and result.silenced.alike_with_weight.value:
        pull = result.silenced
        page.bullet(
            f"{fmt.percent_estimate(pull.alike_with_weight)} of the groups with equal rewards have policy "
            f"weight all the same under {result.objective} (n = {fmt.count(pull.alike_with_weight.n)})."
        )
    if result.silenced is not None and result.silenced.square_share.value:
        page.bullet(
            f"Groups with equal rewards hold {fmt.percent_estimate(result.silenced.square_share)} of the "
            "squared token weights, KL in the loss included."
        )


def _shapes(page: Page, shapes: GroupShapes) -> None:
    source = "of run.json" if shapes.declared else "the most frequent"
    page.heading("Shape", f"expected: {shapes.expected_size} samples ({source})")
    odd = [
        (shapes.smaller, "group", "with fewer samples"),
        (shapes.larger, "group", "with more samples: merged?"),
        (shapes.singletons, "group", "of one sample: no baseline"),
        (shapes.mixed_prompts, "group", "of several prompts"),
        (shapes.several_steps, "group", "spread over several steps"),
        (shapes.repeated_samples, "row", "whose (group_id, sample_index) occurred before"),
        (shapes.same_prompt_in_step, "group", "that share a prompt and a step with another"),
        (shapes.copies, "group", "that repeat the texts and rewards of another"),
        (shapes.touched_by_unscorable, "group", f"short of {shapes.unscorable} rows without a reward"),
        (shapes.ungrouped, "row", "without group_id"),
    ]
    found = [f"{fmt.plural(count, noun)} {what}" for count, noun, what in odd if count]
    for said in found:
        page.bullet((said, DOUBT))
    if not found:
        page.bullet("nothing irregular")
    if len(shapes.sizes) > 1:
        sizes = ", ".join(f"{each.size} ({fmt.count(each.groups)})" for each in shapes.sizes)
        page.bullet((f"sizes, with their groups: {sizes}", QUIET))
