"""``rlaudit explain`` of several runs: the verdict, the runs, their distances, and what splits them."""

from __future__ import annotations

from rich.console import Console

from audit.analyses.distances import DistanceMatrix
from audit.analyses.explain_many import ManyExplanation
from audit.report import format as fmt
from audit.report import many_words as words
from audit.report.text.rows import Rows
from audit.report.text.shared import DOUBT, QUIET, STRONG, Page, styled

_FIELDS = 6
_LEGEND = (
    "1 - cosine of the token weights on the same rollouts: 0 same direction, 1 orthogonal; share: of the "
    "distance between the sides' medoids; intervals of configurations are over seeds; the cut of the "
    "clusters is a heuristic"
)


def show_many(explanation: ManyExplanation, console: Console | None = None) -> None:
    """Print how several runs lie to each other, and what splits them."""
    page = Page(console)
    page.say((explanation.verdict.text, STRONG))
    order = words.order(explanation)
    _runs(page, explanation, order)
    for matrix in (explanation.objective, explanation.outcome):
        if matrix is not None:
            _matrix(page, matrix, order)
    _splits(page, explanation)
    _pairs(page, explanation)
    _seeds(page, explanation)
    if unseen := words.unseen(explanation):
        page.heading("Not identifiable")
        page.listing(unseen, most=6)
    skips = words.skips(explanation)
    if skips:
        page.heading("Skipped")
        page.listing(skips, most=6)
    page.gap()
    page.say((f"{_LEGEND}; all of it: -o report.html", QUIET))
    page.print()


def _runs(page: Page, x: ManyExplanation, order: list[str]) -> None:
    page.gap(always=True)
    means = {outcome.run: outcome.means for outcome in x.outcomes}
    metrics = words.metrics(x)
    right = (2, *range(4, 5 + len(metrics)))
    rows = Rows("Runs", "", "cluster", "configuration", *metrics, "n", right=right, whole=(1, 3))
    for number, run in enumerate(order, start=1):
        rows.add(
            str(number),
            styled(run, STRONG),
            words.cluster_of(x, run),
            words.configuration_of(x, run),
            *(fmt.number(means[run][name].value) if name in means[run] else fmt.NOTHING for name in metrics),
            fmt.count(words.run(x, run).responses),
        )
    rows.add_to(page)


def _matrix(page: Page, matrix: DistanceMatrix, order: list[str]) -> None:
    """The lower triangle, as many columns as the width holds."""
    behind = f"n = {fmt.count(matrix.n)} responses of {len(matrix.on)} runs"
    page.heading(matrix.measure, f"{matrix.unit}; {behind}")
    shown = [[words.distance(matrix, a, b) for b in order] for a in order]
    width = max(len(text) for row in shown for text in row) + 2
    room = max((page.width - 6) // width, 1)
    columns = order[:room]
    rows = Rows("", *(str(number) for number in range(1, len(columns) + 1)), right=range(1, len(columns) + 1))
    for number, row in enumerate(shown, start=1):
        rows.add(str(number), *(row[:number] + [""] * len(columns))[: len(columns)])
    rows.add_to(page)
    if (left := len(order) - len(columns)) > 0:
        page.say((f"and {fmt.plural(left, 'more column')}: see -o report.html", QUIET), indent=2)
    if matrix.note:
        page.say((matrix.note, QUIET), indent=2)


def _splits(page: Page, x: ManyExplanation) -> None:
    for split in x.splits:
        page.heading(f"Split at 1 - cosine {split.height:.3g}")
        for name, runs in (("left", split.left), ("right", split.right)):
            page.bullet((f"{name}: ", QUIET), words.side(runs))
        if said := words.unsplit(split):
            page.bullet((said, QUIET))
        if split.fields:
            rows = Rows("  fields", "left", "right", "share", right=(3,), whole=(0,))
            for field in split.fields[:_FIELDS]:
                rows.add(field.field, field.left, field.right, words.field_share(field))
            rows.add_to(page)
            if (left := len(split.fields) - _FIELDS) > 0:
                page.bullet((f"and {fmt.plural(left, 'more field')}: see -o report.html", QUIET))
        if split.causes:
            page.bullet("causes outside of the objective: ", ", ".join(split.causes))


def _pairs(page: Page, x: ManyExplanation) -> None:
    if not x.pairs:
        return
    page.gap()
    rows = Rows("Pairs", "", "first cause")
    for pair in x.pairs:
        rows.add(styled(pair.a, ""), styled(pair.b, ""), words.first_cause(pair))
    rows.add_to(page)


def _seeds(page: Page, x: ManyExplanation) -> None:
    if not x.comparisons:
        return
    page.gap()
    shown = [c for c in x.comparisons if c.apart] or x.comparisons[:_FIELDS]
    rows = Rows("Seeds", "", "metric", "A", "B", "B - A", "", "seeds", right=(3, 4, 7), whole=(0, 1, 6))
    for c in shown:
        word = words.moved(c)
        rows.add(
            styled(c.a, ""),
            styled(c.b, ""),
            c.metric,
            fmt.number(c.mean_a),
            fmt.number(c.mean_b),
            words.difference(c),
            styled(word, DOUBT if c.apart else QUIET),
            " / ".join(map(str, c.n)),
        )
    rows.add_to(page)
    left = len(x.comparisons) - len(shown)
    if left:
        page.bullet((f"and {fmt.plural(left, 'more comparison')}: see -o report.html", QUIET))
