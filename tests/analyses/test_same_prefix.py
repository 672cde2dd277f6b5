"""Pairs of tokens that follow one prefix, against every pair of texts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from audit.analyses.same_prefix import choices

TEXTS = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 2), max_size=4)), min_size=1, max_size=12
)


@given(texts=TEXTS)
def test_each_place_is_compared_once_per_other_token(texts) -> None:
    rng = np.random.default_rng(0)
    values = {
        (prompt, tuple(ids[: t + 1])): rng.normal(size=2) for prompt, ids in texts for t in range(len(ids))
    }
    of = [values[prompt, tuple(ids[: t + 1])] for prompt, ids in texts for t in range(len(ids))]
    a, b = np.array(of).reshape(-1, 2).T
    found = choices([p for p, _ in texts], [np.array(ids) for _, ids in texts], a, b)
    after: dict[tuple, list[tuple]] = {}
    for key in values:
        after.setdefault((key[0], key[1][:-1]), []).append(key)
    forks = [keys for keys in after.values() if len(keys) > 1]
    assert found.places == len(forks)
    assert found.tokens == sum(map(len, forks))
    # Which token is the first of its place is the order of the texts; squares over all pairs do not care.
    assert len(found.a) == sum(len(keys) - 1 for keys in forks)
    known = {round(float(values[x][0] - values[y][0]), 9) for keys in forks for x in keys for y in keys}
    assert {round(float(gap), 9) for gap in found.a} <= known
    assert np.isclose(
        found.b.sum(), sum(values[x][1] - values[keys[0]][1] for keys in forks for x in keys[1:])
    )
