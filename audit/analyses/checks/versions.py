"""How far the policy that sampled lay behind the one that was updated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.analyses.version_lag import lags_of
from audit.schema import Problem


def _find(look: Look) -> Iterator[Problem]:
    lag = lags_of(look.rows)
    ahead = ~look.rows.greedy & (lag < 0)
    if ahead.any():
        yield problem(
            look,
            "staleness.negative",
            ahead,
            f"{int(ahead.sum())} responses were sampled by a later version than the policy's, by up to "
            f"{-np.nanmin(lag):.0f}: the two columns do not count the same thing.",
            column="sampler_version",
        )


CHECK = Entry(
    "version lag (staleness)",
    {"staleness.negative": "sampler versions ahead of the policy's"},
    _find,
    ("policy_version", "sampler_version"),
)
