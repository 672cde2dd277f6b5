"""What cannot be told apart, in words."""

from __future__ import annotations

import pytest

from audit.analyses.infer_candidate import Candidate
from audit.analyses.infer_words import in_words, not_identifiable


def candidate(**fields: object) -> Candidate:
    plain = {
        "baseline": "group_mean",
        "scale": "group_std",
        "ddof": 1,
        "epsilon": 0.0,
        "reward_kl": None,
        "residual": 0.0,
    }
    return Candidate(**{**plain, **fields})


def test_one_candidate_leaves_nothing_open() -> None:
    assert not_identifiable([candidate()]) == []
    assert in_words([candidate()]) == ""


def test_epsilons_are_a_range() -> None:
    alike = [candidate(epsilon=epsilon) for epsilon in (1e-6, 0.0, 1e-8)]
    assert not_identifiable(alike) == ["epsilon between 0 and 1e-06"]
    assert in_words(alike) == "not identifiable from this log: epsilon between 0 and 1e-06"


def test_choices_are_listed() -> None:
    alike = [
        candidate(),
        candidate(baseline="none", scale="none", ddof=None, epsilon=None),
        candidate(baseline="none", singleton="raw"),
    ]
    assert not_identifiable(alike) == [
        "baseline group_mean or none",
        "scale group_std or none",
        "ddof 1 or none",
        "singleton zero or raw",
        "epsilon 0 or none",
    ]


def test_weights_of_components_are_counted() -> None:
    alike = [candidate(weights={"a": 0.7, "b": 0.3}), candidate(weights={"a": 1.0, "b": 0.429})]
    assert not_identifiable(alike) == ["weights of the components, 2 of which fit alike"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "group_mean / (group_std, ddof 1, + 0)"),
        ({"reward_kl": 0.05}, "KL in reward x 0.05"),
        ({"reward_kl": 0.05, "enters": "after_scale"}, "KL x 0.05, after the scale"),
        ({"weights": {"a": 0.7, "b": 0.3}}, "of 0.7 a + 0.3 b"),
        ({"length": -0.003, "length_unit": "character"}, "reward + -0.003 per character"),
        ({"missing": "0"}, "a null reward counts as 0"),
        ({"grouping": "prompt_id in a batch"}, "over prompt_id in a batch"),
    ],
)
def test_a_candidate_is_one_phrase(fields, words) -> None:
    assert candidate(**fields).describe().endswith(words)
