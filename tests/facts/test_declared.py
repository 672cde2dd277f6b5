"""From run.json to an objective."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from synthetic import rollouts, write

from audit.errors import BadManifest, BadObjective, UnknownName
from audit.facts.budget import generation_budget, with_budget
from audit.facts.chosen import chosen_objective
from audit.facts.declared import (
    declared_objective,
    label,
    read_objective,
)
from audit.facts.rows import RunRows
from audit.objectives.catalogue import CATALOGUE, named


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_objective_reads_back_from_what_it_prints(name: str) -> None:
    assert read_objective(named(name).to_dict()) == named(name)


def test_a_name_with_overrides_changes_only_those_fields() -> None:
    changed = read_objective({"name": "grpo", "scale": {"ddof": 1}})
    assert changed.scale.ddof == 1
    assert changed.scale.kind == "group_std"
    assert changed.replace(scale=named("grpo").scale) == named("grpo")


def test_a_name_outside_the_catalogue_must_bring_every_part() -> None:
    made = read_objective(named("grpo").to_dict() | {"name": "ours", "baseline": {"kind": "leave_one_out"}})
    assert made == named("grpo").replace(name="ours", baseline=made.baseline)
    with pytest.raises(UnknownName, match=r"Did you mean .*'grpo'"):
        read_objective({"name": "gpro", "baseline": {"kind": "leave_one_out"}})


def test_without_a_name_missing_parts_are_the_defaults() -> None:
    made = read_objective({"baseline": {"kind": "group_mean"}})
    assert (made.name, made.clip.kind) == ("custom", "none")


def test_misspelt_fields_and_names_are_refused_with_the_closest(tmp_path) -> None:
    with pytest.raises(BadObjective, match=r"epsilon_hihg.*Did you mean 'epsilon_high'"):
        read_objective({"name": "grpo", "clip": {"epsilon_hihg": 0.3}})
    with pytest.raises(UnknownName, match="Did you mean 'dr_grpo'"):
        read_objective("drgrpo_")
    run = write(tmp_path / "run", rollouts(steps=1), "gpro")
    with pytest.raises(BadManifest, match=r"run.json: unknown objective 'gpro'. Did you mean .*'grpo'"):
        declared_objective(run)


def test_a_framework_without_version_is_not_guessed(tmp_path) -> None:
    run = write(tmp_path / "run", rollouts(steps=1), framework={"name": "trl"}, config={"beta": 0.0})
    with pytest.raises(BadManifest, match="version is missing"):
        declared_objective(run)


def test_a_config_that_no_dialect_reads_declares_nothing_unless_somebody_declared_it(tmp_path) -> None:
    run = write(tmp_path / "run", rollouts(steps=1), framework={"name": "trrl"}, config={"beta": 0.0})
    with pytest.raises(BadManifest, match=r"unknown framework 'trrl'. Did you mean .*'trl'"):
        declared_objective(run)
    beside = msgspec.structs.replace(run.manifest, declared=False)
    assert declared_objective(dataclasses.replace(run, manifest=beside)) is None


def test_framework_config_and_version_give_the_objective(tmp_path) -> None:
    framework = {"name": "trl", "version": "1.16.0", "trainer": "GRPOTrainer"}
    config = {"loss_type": "dr_grpo", "scale_rewards": "none", "max_completion_length": 99}
    run = write(tmp_path / "run", rollouts(steps=1), framework=framework, config=config)
    declared = declared_objective(run)
    assert declared is not None
    assert declared.objective.aggregation.constant == 99
    assert declared.objective.scale.kind == "none"
    assert "trl 1.16.0" in declared.source


def test_the_budget_comes_from_the_manifest_else_from_the_longest_response_with_a_note(tmp_path) -> None:
    data = rollouts(steps=1)
    given = RunRows.read(write(tmp_path / "a", data, "dr_grpo", sampling={"max_tokens": 64}))
    assert generation_budget(given.run) == 64.0
    objective, note = with_budget(named("dr_grpo"), given)
    assert (objective.aggregation.constant, note) == (64.0, None)
    absent = RunRows.read(write(tmp_path / "b", data, "dr_grpo"))
    objective, note = with_budget(named("dr_grpo"), absent)
    assert objective.aggregation.constant == max(row["length"] for row in data)
    assert note is not None
    assert "scale is not" in note


def test_nothing_declared_must_be_asked_for(tmp_path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=1)))
    assert declared_objective(rows.run) is None
    with pytest.raises(BadObjective, match="--objective"):
        chosen_objective(rows, None)


def test_a_changed_entry_does_not_go_by_the_name_of_the_entry() -> None:
    assert label(named("grpo")) == "grpo"
    assert label(read_objective({"name": "grpo", "scale": {"kind": "none"}})) == "grpo with other scale"
    filled = read_objective({"name": "dr_grpo", "aggregation": {"constant": 512}})
    assert label(filled) == "dr_grpo"
    assert label(filled.replace(name="ours")) == "ours"
