"""The config beside a log: found, read safely, and never guessed."""

from __future__ import annotations

import contextlib
import importlib
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import AuditError, BadLog, BadManifest
from audit.importers.configs import MOST_BYTES, lookup, read_config
from audit.importers.near import having, manifest_near
from audit.logs.manifest import Framework

HYDRA = """
algorithm: {adv_estimator: grpo, use_kl_in_reward: false}
actor_rollout_ref:
  actor: {clip_ratio_high: 0.28, optim: {lr: 1e-6}, ppo_mini_batch_size: 64}
  rollout: {n: 8, temperature: 1.0}
  ref: {log_prob_micro_batch_size: "${actor_rollout_ref.actor.ppo_mini_batch_size}"}
trainer: {default_local_dir: "checkpoints/${trainer.project_name}", seed: "???"}
"""
VERL = having("actor_rollout_ref.rollout")
OPTIONS = {
    "group_size": "actor_rollout_ref.rollout.n",
    "sampling.temperature": "actor_rollout_ref.rollout.temperature",
}


def put(place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def near(log: Path, **more):
    log.mkdir(parents=True, exist_ok=True)
    return manifest_near(log, "verl", VERL, options=OPTIONS, **more)


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_hydras_config_is_found_in_the_folder_and_up_to_two_above(tmp_path, levels) -> None:
    log = tmp_path.joinpath("run", *["inner"] * levels)
    put(tmp_path / "run" / ".hydra" / "config.yaml", HYDRA)
    manifest = near(log)
    assert not manifest.declared
    assert manifest.framework == Framework(name="verl")
    if levels > 2:
        assert (manifest.config, manifest.group_size) == (None, None)
        return
    assert manifest.group_size == 8
    assert manifest.sampling == {"temperature": 1.0}
    assert manifest.config is not None
    actor = manifest.config["actor_rollout_ref"]["actor"]
    assert actor["optim"]["lr"] == 1e-6
    assert manifest.config["actor_rollout_ref"]["ref"]["log_prob_micro_batch_size"] == 64
    assert manifest.config["trainer"]["default_local_dir"] == "checkpoints/${trainer.project_name}"


def test_hydras_nested_config_gives_the_objective(tmp_path) -> None:
    from audit.objectives.dialects import from_framework

    put(tmp_path / ".hydra" / "config.yaml", HYDRA)
    declared = from_framework("verl", "0.9.1", near(tmp_path).config or {})
    assert declared.objective.clip.epsilon_high == 0.28  # type: ignore[union-attr]
    assert declared.unknown == ()


def test_run_json_goes_before_any_config_and_is_completed_by_one(tmp_path) -> None:
    put(tmp_path / "config.yaml", HYDRA)
    put(tmp_path / "run.json", json.dumps({"run_id": "a", "framework": {"name": "verl", "version": "0.5.0"}}))
    assert near(tmp_path).config == read_config(tmp_path / "config.yaml")
    assert near(tmp_path).framework == Framework(name="verl", version="0.5.0")
    assert near(tmp_path).group_size == 8
    put(tmp_path / "run.json", json.dumps({"run_id": "a", "group_size": 4, "sampling": {"top_p": 0.5}}))
    assert (near(tmp_path).group_size, near(tmp_path).sampling) == (4, {"top_p": 0.5, "temperature": 1.0})
    put(tmp_path / "run.json", json.dumps({"run_id": "a", "config": {"own": 1}}))
    assert (near(tmp_path).config, near(tmp_path).declared) == ({"own": 1}, True)
    put(tmp_path / "run.json", json.dumps({"run_id": "a", "framework": {"name": "trl"}}))
    assert near(tmp_path).config is None


def test_a_config_of_something_else_is_left_alone(tmp_path) -> None:
    put(tmp_path / "config.json", json.dumps({"architectures": ["Qwen2"], "model_type": "qwen2"}))
    put(tmp_path / "config.yaml", "other: 1\n")
    assert near(tmp_path).config is None


def test_configs_that_differ_are_refused_and_named(tmp_path) -> None:
    for run, n in (("a", 8), ("b", 16)):
        put(tmp_path / "wandb" / f"run-{run}" / "files" / "config.yaml", HYDRA.replace("n: 8", f"n: {n}"))
    manifest = near(tmp_path)
    assert manifest.config is None
    assert "2 configs differ" in (manifest.notes or "")
    for run in "ab":
        put(tmp_path / "wandb" / f"run-{run}" / "files" / "config.yaml", HYDRA)
    assert near(tmp_path).group_size == 8


def test_several_files_of_configs_are_one_config_by_name(tmp_path) -> None:
    put(tmp_path / "configs" / "trainer.json", json.dumps({"loss": {"type": "default"}}))
    put(tmp_path / "configs" / "orchestrator.toml", "group_size = 4\n[algorithm]\ntype = 'grpo'\n")
    manifest = manifest_near(
        tmp_path,
        "prime-rl",
        having("loss", "trainer.loss"),
        options={"group_size": "orchestrator.group_size"},
    )
    assert manifest.config == {
        "orchestrator": {"group_size": 4, "algorithm": {"type": "grpo"}},
        "trainer": {"loss": {"type": "default"}},
    }
    assert manifest.group_size == 4


def test_wandbs_values_are_unwrapped(tmp_path) -> None:
    wrapped = 'wandb_version: 1\n_wandb: {value: {cli_version: "0.2"}}\nbeta: {value: 0.1, desc: null}\n'
    put(tmp_path / "config.yaml", wrapped.replace("wandb_version: 1\n", ""))
    assert read_config(tmp_path / "config.yaml") == {"beta": 0.1}


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("wandb/run-1/files/requirements.txt", "torch==2.4\nverl==0.4.1\nverl-extra==9\n", "0.4.1"),
        ("pip_freeze.txt", "-e git+https://x/verl.git#egg=verl\n", None),
        ("requirements.txt", "verl==0.4.1\n", None),
        ("README.md", "- verl: 0.6.0\n", None),
        ("README.md", "### Framework versions\n\n- verl: 0.6.0\n", "0.6.0"),
    ],
)
def test_the_version_is_taken_only_from_what_was_installed(tmp_path, name, text, version) -> None:
    put(tmp_path / name, text)
    assert near(tmp_path).framework == Framework(name="verl", version=version)


def test_lists_of_two_versions_give_none(tmp_path) -> None:
    for run, version in (("a", "0.4.1"), ("b", "0.5.0")):
        put(tmp_path / "wandb" / f"run-{run}" / "files" / "requirements.txt", f"verl=={version}\n")
    assert near(tmp_path).framework == Framework(name="verl")


def test_pickled_arguments_are_never_opened_and_the_note_says_what_to_run(tmp_path) -> None:
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "opened",))

    (tmp_path / "training_args.bin").write_bytes(pickle.dumps(Trap()))
    manifest = manifest_near(tmp_path, "trl", having("num_generations"))
    assert not (tmp_path / "opened").exists()
    assert "python -c" in (manifest.notes or "")


def test_the_recipe_for_pickled_arguments_works(tmp_path, monkeypatch) -> None:
    import torch

    # Of transformers' TrainingArguments it needs one method; importing them takes ten seconds.
    method = "def to_json_string(self):\n        return json.dumps(vars(self))\n"
    put(tmp_path / "arguments_of_a_run.py", f"import json\n\n\nclass Arguments:\n    {method}")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = importlib.import_module("arguments_of_a_run").Arguments()
    made.num_generations = 11
    torch.save(made, tmp_path / "training_args.bin")
    notes = manifest_near(tmp_path, "trl", having("num_generations")).notes or ""
    run = notes.partition('python -c "')[2].rstrip('"')
    subprocess.run([sys.executable, "-W", "ignore", "-c", run], cwd=tmp_path, check=True)
    assert manifest_near(tmp_path, "trl", having("num_generations")).config == {"num_generations": 11}


def test_values_of_another_kind_than_the_field_stay_out(tmp_path) -> None:
    put(tmp_path / "config.yaml", HYDRA.replace("n: 8", "n: many"))
    assert near(tmp_path).group_size is None


def test_common_folder_names_come_with_the_folder_above(tmp_path) -> None:
    assert near(tmp_path / "exp1" / "rollouts").run_id == "exp1-rollouts"
    assert near(tmp_path / "mine" / "logs" / "exp_001").run_id == "mine-logs-exp_001"
    assert near(tmp_path / "exp1").run_id == "exp1"


BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
HOSTILE = {
    "a.yaml": "[" * 100_000,
    "b.yaml": "- " * 100_000 + "a",
    "c.yaml": BOMB,
    "d.yaml": "a: &a [*a]",
    "e.yaml": "? [a]\n: b",
    "f.yaml": "a: 0x" + "f" * 10_000,
    "g.yaml": "a: " + "9" * 100_000,
    "h.yaml": "just text",
    "i.yaml": "a: [1, 2",
    "j.json": "[" * 100_000,
    "k.json": '{"a": ' + "9" * 5000 + "}",
    "l.toml": "a = [" + "[" * 5000,
    "m.toml": "\x00",
    "n.yaml": "a: 1\n" + "# comment\n" * (MOST_BYTES // 10),
    "o.yaml": "",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_one_named_problem(tmp_path, name) -> None:
    file = put(tmp_path / name, HOSTILE[name])
    with pytest.raises(BadLog, match=name) as caught:
        read_config(file)
    assert len(str(caught.value)) < 400
    put(tmp_path / "config.yaml", HOSTILE[name])
    assert near(tmp_path).config is None


def test_tags_of_python_objects_build_nothing(tmp_path) -> None:
    text = f"a: !!python/object/apply:os.mkdir ['{tmp_path / 'made'}']\n"
    text += "b: !!python/tuple [1, 2]\nc: !x {y: 1}\n"
    assert read_config(put(tmp_path / "c.yaml", text)) == {
        "a": [str(tmp_path / "made")],
        "b": [1, 2],
        "c": {"y": 1},
    }
    assert not (tmp_path / "made").exists()


@given(st.text() | st.binary())
@pytest.mark.parametrize("suffix", ["yaml", "json", "toml"])
def test_any_file_is_a_config_or_a_named_problem(tmp_path_factory, suffix, content) -> None:
    file = tmp_path_factory.getbasetemp() / f"any.{suffix}"
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(AuditError):
        assert isinstance(read_config(file), dict)


@given(st.dictionaries(st.sampled_from("abc"), st.dictionaries(st.sampled_from("abc"), st.integers())))
def test_a_dotted_key_finds_what_a_walk_finds(config) -> None:
    dotted = {f"{outer}.{key}": value for outer, inner in config.items() for key, value in inner.items()}
    for key, value in dotted.items():
        assert lookup(config, key) == value == lookup(dotted, key)
    assert lookup(config, "a.b.c") is None


def test_pickled_arguments_of_a_checkpoint_are_named_too(tmp_path) -> None:
    put(tmp_path / "checkpoint-10" / "training_args.bin", "a pickle")
    found = manifest_near(tmp_path, "trl", having("num_generations"))
    assert "checkpoint-10" in (found.notes or "")
    put(tmp_path / "checkpoint-10" / "training_args.json", '{"num_generations": 4}')
    found = manifest_near(tmp_path, "trl", having("num_generations"))
    assert (found.config, found.notes) == ({"num_generations": 4}, None)


def test_a_config_that_changes_is_read_again_and_cannot_be_changed_through_another(tmp_path) -> None:
    file = put(tmp_path / "config.yaml", "a: {b: 1}")
    read_config(file)["a"]["b"] = 5
    assert read_config(file) == {"a": {"b": 1}}
    put(file, "a: {b: 22}")
    assert read_config(file) == {"a": {"b": 22}}


def test_a_run_json_above_the_log_has_to_be_one_of_this_framework(tmp_path) -> None:
    log = tmp_path / "logs"
    put(tmp_path / "config.yaml", HYDRA)
    put(tmp_path / "run.json", json.dumps({"run_id": "other", "framework": {"name": "trl"}, "config": {}}))
    assert (near(log).run_id, near(log).group_size) == (f"{tmp_path.name}-logs", 8)
    put(tmp_path / "run.json", "not JSON")
    assert near(log).group_size == 8
    assert "run.json: is not JSON" in (near(log).notes or "")
    put(log / "run.json", "not JSON")
    with pytest.raises(BadManifest, match="is not JSON"):
        near(log)
    put(log / "run.json", json.dumps({"run_id": "own"}))
    assert near(log).run_id == "own"
