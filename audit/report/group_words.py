"""Groups without signal in words: rows of estimates that a page shows."""

from __future__ import annotations

from audit.analyses.zero_groups import GroupBreakdown
from audit.stats import Estimate

Rows = list[tuple[str, Estimate | None]]


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
