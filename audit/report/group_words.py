"""Groups without signal in words: rows of estimates that a page shows."""

from __future__ import annotations

from audit.analyses.zero_groups import GroupBreakdown
from audit.report import format as fmt
from audit.stats import Estimate

Rows = list[tuple[str, Estimate | None]]


def headline(result: GroupBreakdown) -> str:
    """Say how many groups carry no signal, of which kinds, and whether success rates predict as many."""
    zero = result.zero_signal
    if zero.all.value is None:
        return "This log has no group whose rewards could be compared."
    kinds = (("all correct", zero.right), ("all wrong", zero.wrong), ("equal otherwise", zero.other))
    told = [f"{name} {fmt.percent_estimate(e)}" for name, e in kinds if e is not None and e.value]
    said = (
        f"{fmt.percent_estimate(zero.all)} of the groups carry no signal (n = {fmt.count(zero.all.n)})"
        + (f": {', '.join(told)}" if told else "")
        + "."
    )
    gap = None if result.expected is None else result.expected.difference
    if gap is not None and gap.value is not None:
        ends = [None if end is None else 100 * end for end in (gap.value, gap.low, gap.high)]
        than = "as many as" if not gap.excludes(0.0) else "more than" if gap.value > 0 else "fewer than"
        said += (
            f" That is {than} the success rates of their prompts predict: observed less expected "
            f"{fmt.interval(*ends, sign=True)} points, n = {fmt.count(gap.n)}."
        )
    return said


def shares(result: GroupBreakdown) -> Rows:
    """Name the shares of groups without signal, and what success rates predict of them."""
    zero, expected = result.zero_signal, result.expected
    rows: Rows = [
        ("all rewards equal", zero.all),
        ("all correct", zero.right),
        ("all wrong", zero.wrong),
        ("equal, neither of both", zero.other),
    ]
    if expected is not None:
        rows += [
            ("visited often enough: observed", expected.observed),
            ("visited often enough: expected", expected.predicted),
            ("observed less expected", expected.difference),
        ]
    return rows


def costs(result: GroupBreakdown) -> Rows:
    """Name what was spent on them, and what the objective makes of them."""
    rows: Rows = [
        ("of the samples", result.cost.samples_share),
        ("of the tokens", result.cost.tokens_share),
    ]
    if result.silenced is not None:
        rows += [
            ("groups without any weight", result.silenced.without_weight),
            ("equal rewards, weight all the same", result.silenced.alike_with_weight),
            ("of the sum of squared token weights", result.silenced.square_share),
        ]
    return rows
