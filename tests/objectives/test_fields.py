"""The fields of an objective, read off its types: all of them, with values that make objectives."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import BadObjective
from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.changes import changed, changes_between, read_changes, write_changes
from audit.objectives.fields import Field, objective_fields
from audit.objectives.objective import PARTS, Objective, from_dict
from audit.objectives.surrogates import Surrogate


def leaves(fields: tuple[Field, ...], path: str = "") -> dict[str, Field]:
    found = {}
    for field in fields:
        here = f"{path}{field.name}"
        found[here] = field
        for inner in field.inner.values():
            found |= leaves(inner, f"{here}.")
    return found


def paths(value: object, path: str = "") -> set[str]:
    if not isinstance(value, dict) or path == "shaping.weights.":
        return {path.rstrip(".")}
    return {path.rstrip(".")} | {
        leaf for key, inner in value.items() for leaf in paths(inner, f"{path}{key}.")
    }


ALL = leaves(objective_fields())


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_every_field_of_the_catalogue_is_there(name) -> None:
    held = paths({part: value for part, value in named(name).to_dict().items() if part in PARTS})
    assert held - ALL.keys() - {"", "clip.kind"} == set()


def test_every_surrogate_is_a_choice_and_begins_with_valid_values() -> None:
    clip = ALL["clip"]
    assert set(clip.choices) == {str(kind.__struct_config__.tag) for kind in Surrogate.__subclasses__()}
    for kind in clip.choices:
        made = from_dict(Objective().to_dict() | {"clip": clip.start(kind)})
        assert made.clip.kind == kind
        assert set(clip.start(kind)) == {"kind", *(field.name for field in clip.inner[kind])}


@pytest.mark.parametrize("path", ["shaping.overlong", "scale.whiten", "kl.loss", "kl.loss.aggregation"])
def test_a_group_that_was_off_begins_with_its_defaults(path) -> None:
    fields = Objective().to_dict()
    *parents, leaf = path.split(".")
    inner = fields
    for parent in parents:
        if inner[parent] is None:
            inner[parent] = ALL["kl.loss"].start()
        inner = inner[parent]
    inner[leaf] = ALL[path].start()
    assert from_dict(fields)


def test_bounds_are_those_of_the_types() -> None:
    top = ALL["filter.top_entropy"]
    assert (top.low, top.high, top.above, top.optional) == (0, 1, True, False)
    assert (ALL["kl.loss.coefficient"].low, ALL["kl.loss.coefficient"].default) == (0, None)
    assert ALL["scale.ddof"].choices == (0, 1)
    assert ALL["ratio.clamp"].optional
    assert ALL["ratio.corrections"].kind == "list"
    assert ALL["aggregation.constant"].kind == "json"


@given(st.sampled_from(list(CATALOGUE)), st.sampled_from(list(CATALOGUE)))
def test_changes_lead_from_any_objective_to_any_other(a, b) -> None:
    start, wanted = named(a).to_dict(), named(b).to_dict()
    text = write_changes(changes_between(start, wanted))
    made = from_dict(changed(start, read_changes(text)))
    assert made.replace(name=b) == named(b)
    assert changes_between(wanted, wanted) == []


@given(
    st.dictionaries(st.text(min_size=1, max_size=5), st.floats(-5, 5), min_size=1, max_size=3),
    st.dictionaries(st.text(min_size=1, max_size=5), st.floats(-5, 5), min_size=1, max_size=3),
)
def test_names_of_reward_components_survive_whatever_they_hold(a, b) -> None:
    start = Objective().to_dict()
    start["shaping"]["weights"] = a
    wanted = json.loads(json.dumps(start))
    wanted["shaping"]["weights"] = b
    text = write_changes(changes_between(start, wanted))
    assert changed(start, read_changes(text))["shaping"]["weights"] == b


def test_what_is_no_change_is_refused() -> None:
    with pytest.raises(BadObjective, match="expected FIELD=VALUE"):
        changed(Objective().to_dict(), ["scale.ddof"])
    with pytest.raises(BadObjective, match="No closing quotation"):
        read_changes("clip='{")


def test_nothing_of_the_original_is_changed() -> None:
    start = Objective().to_dict()
    before = json.dumps(start)
    changed(start, ["scale.kind=group_std", "kl.loss.coefficient=0.1"])
    assert json.dumps(start) == before
