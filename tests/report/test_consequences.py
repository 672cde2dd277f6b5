"""Every field and every cause has a line of its own."""

from __future__ import annotations

import types
import typing

import msgspec
import pytest

from audit.analyses.explain import DeclaredPair, FieldDifference
from audit.analyses.findings import CAUSES, Cause
from audit.objectives.catalogue import CATALOGUE
from audit.objectives.objective import PARTS, Objective, differing_fields
from audit.report import consequences
from audit.report.consequences import cause_in_words, consequence
from audit.report.told import told_differences

SWITCHED = {"shaping.overlong", "scale.whiten", "kl.reward", "kl.loss"}
"""Parts that may be absent as a whole, which is a difference of its own."""


def leaves(struct: type, prefix: str = "") -> set[str]:
    """Dotted names of every field below a struct."""
    found = set()
    for name, hint in typing.get_type_hints(struct).items():
        if name not in struct.__struct_fields__:
            continue
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        inner = [t for t in options if isinstance(t, type) and issubclass(t, msgspec.Struct)]
        if len(inner) > 1:
            found.add(f"{prefix}{name}.kind")
        # A KL with an aggregation of its own is one difference, not another tree of them.
        if not inner or f"{prefix}{name}" == "kl.loss.aggregation":
            found.add(f"{prefix}{name}")
            continue
        for each in inner:
            found |= leaves(each, f"{prefix}{name}.")
    return found


def test_every_field_has_a_consequence_and_no_consequence_lacks_a_field() -> None:
    assert set(consequences.FIELDS) == (leaves(Objective) - {"name"}) | SWITCHED


def test_every_part_and_every_cause_is_explained() -> None:
    assert set(consequences.PARTS) == set(PARTS)
    assert set(consequences.CAUSES) == {cause for cause in CAUSES if not cause.startswith("objective.")}


@pytest.mark.parametrize("said", [*consequences.FIELDS.values(), *consequences.CAUSES.values()])
def test_a_consequence_is_one_line(said) -> None:
    assert len(said) <= 94
    assert said[0].islower() or not said[0].isalpha() or said.startswith(("PPO", "KL"))


def test_kinds_are_told_for_both_sides_by_name() -> None:
    said = consequence("aggregation.kind", "token-mean", "token-sum", ("a", "b"))
    assert said == "a: tokens count alike, over their number; b: tokens count alike, undivided"
    assert consequence("aggregation.kind") == consequences.FIELDS["aggregation.kind"]


def test_a_part_that_nobody_foresaw_is_still_told() -> None:
    assert consequence("scale.new") == consequences.PARTS["scale"]


def test_settings_of_a_kind_are_told_with_it() -> None:
    a, b = CATALOGUE["grpo"].objective, CATALOGUE["cispo"].objective
    differs = [FieldDifference(*fields) for fields in differing_fields(a, b)]
    told = {each.field: each for each in told_differences(DeclaredPair(a.to_dict(), b.to_dict(), differs))}
    assert (told["clip.kind"].a, told["clip.kind"].b) == (
        "ppo, epsilon_low 0.2, epsilon_high 0.2",
        "cispo, epsilon_high 4",
    )
    assert "clip.epsilon_low" not in told
    assert told["kl.loss"].a == "0.04 k3 pathwise"


def test_a_factor_alone_is_another_learning_rate_and_no_share_is_no_number() -> None:
    common = Cause("objective.scale", 0.0, None, None, 0.9, "", {"scale_factor": 0.5})
    unknown = Cause("objective.scale", None, None, None, 0.5, "", {})
    assert "another learning rate" in cause_in_words(common)
    assert "do not say" in cause_in_words(unknown)
    assert cause_in_words(Cause("new.cause", None, None, None, 0.5, "as found", {})) == "as found"
