"""``rlaudit dialect``: one config in one version, and what another version makes of it."""

from __future__ import annotations

import json
import re

import pytest

from audit.objectives.dialects import DIALECTS, versions_read
from audit.objectives.objective import from_dict


@pytest.fixture
def config(tmp_path):
    """Write a config to a file."""

    def write(settings: object) -> str:
        path = tmp_path / "cfg.json"
        path.write_text(json.dumps(settings))
        return str(path)

    return write


def test_without_a_name_every_framework_is_listed_with_the_versions_read(rlaudit) -> None:
    listed = rlaudit("dialect")
    assert listed.code == 0
    for name in DIALECTS:
        assert re.search(rf"^  {re.escape(name)} .*{re.escape(versions_read(name)[1])}$", listed.out, re.M)
    assert re.search(r"^  trl +0\.14\.0 to 1\.16\.0$", listed.out, re.M)
    assert {entry["name"] for entry in json.loads(rlaudit("dialect", "--json").out)} == DIALECTS.keys()


def test_the_objective_of_a_config_is_that_of_the_version_that_ran(rlaudit, config) -> None:
    file = config({"loss_type": "grpo", "beta": 0.02})
    old = rlaudit("dialect", "trl", "--version", "0.16.0", "--config", file)
    assert old.code == 0
    assert "kind token-mean, scope micro_batch" in old.out
    assert "loss_type is not an option of TRL 0.16.0" in old.out
    new = rlaudit("dialect", "trl", "--version", "0.17.0", "--config", file)
    assert "kind seq-mean-token-mean, scope micro_batch" in new.out
    assert "loss 0.02 k3 pathwise" in new.out


def test_a_run_json_is_a_config_with_its_trainer(rlaudit, config) -> None:
    file = config({"framework": {"name": "trl", "trainer": "RLOOTrainer"}, "config": {"beta": 0.0}})
    shown = rlaudit("dialect", "trl", "--version", "1.16.0", "--config", file)
    assert "kind leave_one_out" in shown.out
    assert "does not name its trainer" not in shown.out
    other = rlaudit("dialect", "trl", "--version", "1.16.0", "--config", file, "--trainer", "GRPOTrainer")
    assert "kind group_mean" in other.out


def test_unknown_keys_are_named(rlaudit, config) -> None:
    file = config({"actor_rollout_ref": {"actor": {"kl_los_coef": 1, "grad_clip": 1.0}}})
    shown = rlaudit("dialect", "verl", "--version", "0.9.1", "--config", file)
    assert "  · actor.kl_los_coef" in shown.out
    assert "grad_clip" not in shown.out


def test_json_holds_an_objective_that_can_be_read_back(rlaudit) -> None:
    found = json.loads(rlaudit("dialect", "verl", "--version", "0.9.1", "--json").out)
    assert found["framework"] == "verl"
    assert from_dict(found["objective"]).clip.kind == "ppo"
    assert found["unknown"] == []


def test_an_upgrade_names_what_it_changed_and_the_defaults_behind_it(rlaudit) -> None:
    shown = rlaudit("dialect", "trl", "--from", "0.15.2", "--to", "1.16.0", "--trainer", "GRPOTrainer")
    assert shown.code == 0
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert "aggregation.kind seq-mean-token-mean token-mean" in lines
    assert "aggregation.scope micro_batch generation_batch" in lines
    assert "clip.kind none ppo" in lines
    assert "kl.loss 0.04 k3 pathwise none" in lines
    assert "PPO's clip removes tokens beyond the bound" in shown.out
    assert "beta 0.04 0" in lines
    assert "Gone in 1.16.0" in lines
    assert not any(line.startswith("Notes") for line in lines)


def test_the_default_grpo_loss_of_trl_has_been_four_losses(rlaudit) -> None:
    versions = ("0.15.2", "0.16.0", "0.19.0", "1.16.0")
    found = [
        json.loads(rlaudit("dialect", "trl", "--version", version, "--json").out)["objective"]
        for version in versions
    ]
    assert len({json.dumps({**objective, "name": ""}) for objective in found}) == 4


def test_an_upgrade_that_changes_nothing_says_so(rlaudit) -> None:
    shown = rlaudit("dialect", "trl", "--from", "1.15.0", "--to", "1.16.0", "--trainer", "grpo")
    assert "the same in every field" in shown.out


def test_an_upgrade_as_json_has_both_sides(rlaudit, config) -> None:
    file = config({"beta": 0.1, "gradient_accumulation_steps": 8, "steps_per_generation": 2})
    arguments = ("--from", "1.9.0", "--to", "1.10.0", "--config", file, "--trainer", "grpo", "--json")
    found = json.loads(rlaudit("dialect", "trl", *arguments).out)
    assert [change["field"] for change in found["differs"]] == ["aggregation.factor", "kl.loss.gradient"]
    assert all(change["consequence"] for change in found["differs"])
    assert {default["key"]: default["status"] for default in found["defaults"]} == {
        "max_completion_length": "changed",
        "use_bias_correction_kl": "changed",
    }
    assert "8/2" in " ".join(found["before"]["notes"])
    assert "8/2" not in " ".join(found["after"]["notes"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("trll", "--version", "1.16.0"), "Did you mean 'trl'"),
        (("trl",), "give --version V, or --from V1 and --to V2. Read: 0.14.0 to 1.16.0."),
        (("trl", "--from", "0.15.2"), "give --version V"),
        (("trl", "--version", "1.0", "--from", "0.15.2", "--to", "1.16.0"), "give --version V"),
        (("verl", "--version", "main"), "verl version 'main' is not a version number"),
        (("trl", "--version", "1.16.0", "--config", "nowhere.json"), "nowhere.json: not a readable config"),
        (("trl", "--version", "1.16.0", "--trainer", "DPOTrainer"), "unknown TRL trainer"),
    ],
)
def test_what_cannot_be_read_is_one_line(rlaudit, arguments: tuple[str, ...], said: str) -> None:
    done = rlaudit("dialect", *arguments)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_a_config_is_an_object(rlaudit, config) -> None:
    done = rlaudit("dialect", "trl", "--version", "1.16.0", "--config", config([1]))
    assert (done.code, "a config is an object of options" in done.err) == (2, True)


def test_the_run_of_another_framework_is_refused_by_its_name(rlaudit, config) -> None:
    file = config({"framework": {"name": "TRL", "version": "1.16.0"}, "config": {"beta": 0.1}})
    wrong = rlaudit("dialect", "verl", "--version", "0.9.1", "--config", file)
    assert wrong.code == 2
    assert "'TRL', not of verl: rlaudit dialect trl reads it" in " ".join(wrong.err.split())
    assert rlaudit("dialect", "trl", "--version", "1.16.0", "--config", file).code == 0
    file = config({"framework": {"name": "tinker-cookbook"}, "config": {}})
    assert rlaudit("dialect", "tinker", "--version", "0.6.1", "--config", file).code == 0
    file = config({"framework": {"name": "own"}, "config": {}})
    assert "it has no dialect" in " ".join(
        rlaudit("dialect", "trl", "--version", "1.16.0", "--config", file).err.split()
    )


def test_an_upgrade_leaves_out_a_default_that_no_objective_expresses_and_says_so(rlaudit, config) -> None:
    shown = rlaudit("dialect", "verl", "--from", "0.1", "--to", "0.9")
    assert shown.code == 0
    assert re.search(r"actor\.entropy_coeff +0\.001 +0$", shown.out, re.M)
    said = " ".join(shown.out.split())
    assert "actor.entropy_coeff is 0.001 by default in verl 0.1. An objective cannot express it" in said
    assert "ratio.clamp" in said
    given = rlaudit(
        "dialect",
        "verl",
        "--from",
        "0.1",
        "--to",
        "0.9",
        "--config",
        config({"actor": {"entropy_coeff": 0.01}}),
    )
    assert given.code == 2
    assert "actor.entropy_coeff=0.01" in given.err
