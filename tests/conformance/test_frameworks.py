"""Every case within its bound; needs the frameworks (``make conformance``)."""

from __future__ import annotations

import warnings

import pytest

from conformance.case import BOUNDS, Case, measure
from conformance.cases import CASES


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_ours_equals_theirs(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = measure(case)
    assert found.worst <= BOUNDS[case.precision], found
