"""The verl recorder: what a DataProto holds becomes rows of the schema, and training does not notice."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
import torch
from rows_read import read_rows
from verl_batches import CONFIG, GROUP, PROMPT_WIDTH, PROMPTS, ROWS, WIDTH, Letters, Trainer, stand_in

import audit
from audit.cli import main
from audit.errors import AuditError, BadLog
from audit.logs import hash_prompt, open_run, validate
from audit.objectives.dialects import from_framework
from audit.recorders import verl
from audit.recorders.verl import VerlRecorder, record
from audit.recorders.verl_rows import rows_of

ORDER = [5, 0, 9, 1, 12, 2, 15, 3, 4, 6, 7, 8, 10, 11, 13, 14]


@pytest.fixture(autouse=True)
def released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verl, "_version", lambda: "0.9.1")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Two steps, rows of the second re-ordered."""
    trainer = Trainer(CONFIG, [stand_in(0), stand_in(1, ORDER)])
    with record(trainer, tmp_path / "run-a") as recorder:
        trainer.fit()
    assert recorder.failure is None
    return tmp_path / "run-a"


def test_every_row_holds_its_part_of_the_batch(recorded: Path) -> None:
    rows = read_rows(recorded)
    assert len(rows) == 2 * ROWS
    for step, batch in ((1, stand_in(0)), (2, stand_in(1, ORDER))):
        tensors, beside = batch.batch, batch.non_tensor_batch
        for i, row in enumerate(row for row in rows if row["step"] == step):
            length = int(tensors["attention_mask"][i, PROMPT_WIDTH:].sum())
            read = tensors["attention_mask"][i, :PROMPT_WIDTH].bool()
            assert row["length"] == length
            for column, name in (
                ("token_ids", "responses"),
                ("logp_old", "old_log_probs"),
                ("logp_theta", "old_log_probs"),
                ("logp_ref", "ref_log_prob"),
                ("logp_sampler", "rollout_log_probs"),
            ):
                assert row[column] == tensors[name][i, :length].tolist()
            assert row["loss_mask"] == [bool(m) for m in tensors["response_mask"][i, :length]]
            assert row["reward"] == float(tensors["token_level_scores"][i].sum())
            trained = tensors["response_mask"][i].bool()
            assert row["advantage"] == float(tensors["advantages"][i][trained][0])
            assert row["group_id"] == beside["uid"][i]
            assert row["correct"] == bool(beside["acc"][i])
            assert dict(row["reward_components"]) == {"acc": float(beside["acc"][i])}
            said = {"data_source": "sums", "__num_turns__": "2", "pred": beside["pred"][i]}
            assert json.loads(row["extra"]) == said
            letters = Letters()
            prompt = letters.decode(tensors["prompts"][i][read].tolist(), skip_special_tokens=True)
            assert (row["prompt"], row["prompt_id"]) == (prompt, hash_prompt(prompt))
            assert row["prompt_length"] == int(read.sum())
            assert row["response"] == letters.decode(row["token_ids"], skip_special_tokens=True)
            ended = row["token_ids"][-1] == letters.eos_token_id
            assert row["finish_reason"] == ("stop" if ended else "length")
            assert (row["update"], row["policy_version"], row["sampler_version"]) == (
                step,
                step - 1,
                step - 1,
            )
        groups = [(row["group_id"], row["sample_index"]) for row in rows if row["step"] == step]
        assert len(set(groups)) == ROWS
        assert {place for _, place in groups} == set(range(GROUP))


def test_the_run_is_clean_and_its_config_declares_the_objective(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = open_run(recorded)
    assert validate(run) == []
    assert (run.manifest.model, run.manifest.group_size) == ("Tiny-0.5B", GROUP)
    assert run.manifest.sampling == {"temperature": 0.9, "top_p": 1.0, "max_tokens": WIDTH}
    declared = from_framework("verl", "0.9.1", run.manifest.config or {})
    assert declared.objective.name == "verl-grpo-vanilla"
    with pytest.raises(SystemExit) as left:
        main(["check", str(recorded), "--json"])
    assert left.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert [problem["id"] for problem in found["problems"] if problem["severity"] != "info"] == []
    assert found["tier"] == 6


def test_the_written_weights_are_those_of_the_loss(recorded: Path, tmp_path: Path) -> None:
    # Token mean over the whole batch; ratio 1 everywhere, so nothing is clipped.
    audit.weights(recorded, tmp_path / "weights.parquet")
    written = pq.read_table(tmp_path / "weights.parquet").to_pylist()
    for step, batch in ((1, stand_in(0)), (2, stand_in(1, ORDER))):
        mask, advantages = batch.batch["response_mask"], batch.batch["advantages"]
        expected = advantages.double() * mask / mask.sum()
        for i, row in enumerate(row for row in written if row["step"] == step):
            assert row["weight"] == pytest.approx(expected[i, : len(row["weight"])].tolist(), rel=1e-6)


def test_no_secret_and_no_place_is_written(recorded: Path) -> None:
    text = (recorded / "run.json").read_text()
    assert not any(bad in text for bad in ("/data", "/checkpoints", "hf_abc"))
    assert json.loads(text)["config"]["trainer"] == {"project_name": "sums"}


def test_the_call_and_its_result_stay_as_they_are(tmp_path: Path) -> None:
    batches = [stand_in(0), stand_in(1)]
    before = copy.deepcopy(batches)
    trainer = Trainer(CONFIG, batches)
    with record(trainer, tmp_path / "run"):
        results = trainer.fit()
    assert "_update_actor" not in vars(trainer)
    assert all(given is taken for given, taken in zip(batches, trainer.updated, strict=True))
    assert [result.meta_info["metrics"]["actor/grad_norm"] for result in results] == [[0.5, 1.5]] * 2
    for batch, old in zip(batches, before, strict=True):
        assert batch.batch.keys() == old.batch.keys()
        assert all(torch.equal(batch.batch[name], old.batch[name]) for name in old.batch)


def test_metrics_are_reduced_as_verl_reduces_them(recorded: Path) -> None:
    rows = (
        duckdb.read_parquet(str(recorded / "metrics" / "*.parquet")).project("step, name, value").fetchall()
    )
    of_a_step = {("actor/grad_norm", 1.0), ("actor/loss_max", 3.0), ("actor/lr", 1e-6)}
    assert set(rows) == {(step, *one) for step in (1, 2) for one in of_a_step}


def changed(path: str, value: Any) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    *parts, last = path.split(".")
    inner = config
    for part in parts:
        inner = inner.setdefault(part, {})
    inner[last] = value
    return config


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("actor_rollout_ref.actor.ppo_mini_batch_size", 2, "2 updates a step"),
        ("actor_rollout_ref.actor.ppo_epochs", 3, "3 updates a step"),
        ("algorithm.rollout_correction", {"bypass_mode": True}, None),
    ],
)
def test_current_log_probs_are_not_made_up(path: str, value: Any, said: str | None, tmp_path: Path) -> None:
    trainer = Trainer(changed(path, value), [stand_in(0)])
    with record(trainer, tmp_path / "run"):
        trainer.fit()
    run = open_run(tmp_path / "run")
    assert "logp_old" in run.columns
    assert run.columns.isdisjoint({"logp_theta", "update"})
    assert (said or "") in (run.manifest.notes or "")
    assert (run.manifest.notes is None) == (said is None)


def test_advantages_of_tokens_stay_of_tokens() -> None:
    batch = stand_in(0)
    batch.batch["advantages"] = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    batch.batch["values"] = torch.rand(ROWS, WIDTH)
    rows = rows_of(batch, 1).to_pylist()
    assert "advantage" not in rows[0]
    for i, row in enumerate(rows):
        assert row["token_advantage"] == batch.batch["advantages"][i, : row["length"]].tolist()
        assert row["value"] == batch.batch["values"][i, : row["length"]].tolist()


def test_a_response_without_loss_has_tokens_and_no_advantage() -> None:
    batch = stand_in(0)
    batch.batch["response_mask"][3] = 0  # rejected by the sampler's correction
    row = rows_of(batch, 1).to_pylist()[3]
    assert row["advantage"] is None
    assert row["loss_mask"] == [False] * row["length"]
    assert len(row["token_ids"]) == int(batch.batch["attention_mask"][3, PROMPT_WIDTH:].sum()) > 0


def test_greedy_baselines_of_remax_are_rows_that_train_nothing(tmp_path: Path) -> None:
    batch = stand_in(0)
    batch.batch["reward_baselines"] = torch.arange(ROWS // GROUP).repeat_interleave(GROUP).float()
    recorder = VerlRecorder(tmp_path / "run", config=CONFIG, tokenizer=Letters())
    recorder.record_batch(batch, 1)
    recorder.close()
    rows = read_rows(tmp_path / "run")
    greedy = [row for row in rows if row["is_greedy"]]
    assert [row["reward"] for row in greedy] == [0.0, 1.0, 2.0, 3.0]
    assert {row["sample_index"] for row in greedy} == {GROUP}
    assert {row["group_id"] for row in greedy} == {row["group_id"] for row in rows if not row["is_greedy"]}
    # Their tokens are not in the batch, and that is all that there is to say.
    problems = validate(open_run(tmp_path / "run"))
    assert {(problem.id, problem.severity, problem.rows) for problem in problems} == {
        ("tokens.not-logged", "warning", PROMPTS)
    }
    audit.weights(tmp_path / "run", tmp_path / "weights.parquet", objective="remax")
    for row in pq.read_table(tmp_path / "weights.parquet").to_pylist():
        assert any(row["weight"] or []) == (row["sample_index"] < GROUP and row["advantage"] != 0)


def test_a_failure_stops_the_recording_and_not_the_training(tmp_path: Path) -> None:
    broken = stand_in(1)
    del broken.batch["responses"]
    trainer = Trainer(CONFIG, [stand_in(0), broken, stand_in(2)])
    recorder = record(trainer, tmp_path / "run")
    with pytest.warns(RuntimeWarning, match="training goes on: BadLog: verl batch: no tensor 'responses'"):
        trainer.fit()
    recorder.close()
    assert len(trainer.updated) == 3
    assert isinstance(recorder.failure, BadLog)
    assert {row["step"] for row in read_rows(tmp_path / "run")} == {1}


def test_processes_write_files_of_their_own(tmp_path: Path) -> None:
    whole = stand_in(0)
    for rank in (1, 0):
        rows = slice(rank * 8, rank * 8 + 8)
        part = SimpleNamespace(
            batch={name: tensor[rows] for name, tensor in whole.batch.items()},
            non_tensor_batch={name: values[rows] for name, values in whole.non_tensor_batch.items()},
            meta_info=whole.meta_info,
        )
        with VerlRecorder(tmp_path / "run", config=CONFIG, tokenizer=Letters(), rank=rank) as recorder:
            recorder.record_batch(part, 1, {"loss": 0.5})
        assert recorder.failure is None
    files = sorted(file.name for file in (tmp_path / "run" / "rollouts").iterdir())
    assert files == ["rank000-000000.parquet", "rank001-000000.parquet"]
    assert [file.name for file in (tmp_path / "run" / "metrics").iterdir()] == ["part-00000.parquet"]
    rows = read_rows(tmp_path / "run")
    one = rows_of(whole, 1, tokenizer=Letters(), one_update=True).to_pylist()
    key = "group_id", "sample_index"
    assert [tuple(row[k] for k in key) for row in rows] == [tuple(row[k] for k in key) for row in one]


def nested(tensor: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    return torch.nested.as_nested_tensor(
        [row[kept] for row, kept in zip(tensor, valid, strict=True)], layout=torch.jagged
    )


def test_the_v1_trainer_keeps_its_batches_in_a_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = stand_in(0)
    tensors = batch.batch
    read, inside = (part.bool() for part in tensors["attention_mask"].split([PROMPT_WIDTH, WIDTH], dim=1))
    held = {
        name: nested(tensors[name], inside) for name in tensors if name not in ("prompts", "attention_mask")
    }
    held["rm_scores"] = held.pop("token_level_scores")
    held["prompts"] = nested(tensors["prompts"], read)
    keys = [f"{uid}_{i % GROUP}_0" for i, uid in enumerate(batch.non_tensor_batch["uid"])]

    def kv_batch_get(keys: list[str], partition_id: str, select_fields: list[str]) -> dict[str, Any]:
        assert (partition_id, len(keys)) == ("train", ROWS)
        return {name: tensor for name, tensor in held.items() if name in select_fields}

    monkeypatch.setitem(sys.modules, "transfer_queue", SimpleNamespace(kv_batch_get=kv_batch_get))
    tags = [{"min_global_steps": 6} for _ in keys]
    meta = SimpleNamespace(keys=[*keys, "padding"], tags=[*tags, {"is_padding": True}], partition_id="train")
    trainer = SimpleNamespace(config=CONFIG, tokenizer=Letters(), global_steps=8)

    def update(batch: Any, metrics: dict[str, Any]) -> Any:
        metrics["actor/grad_norm"] = 0.25
        return batch

    trainer._update_actor = update
    with record(trainer, tmp_path / "run") as recorder:
        assert trainer._update_actor(meta, metrics={"training/step": 8}) is meta
    assert recorder.failure is None
    assert trainer._update_actor is update
    legacy = rows_of(batch, 8, tokenizer=Letters(), one_update=True).to_pylist()
    rows = read_rows(tmp_path / "run")
    assert len(rows) == ROWS
    names = ("token_ids", "loss_mask", "logp_old", "logp_ref", "logp_sampler", "advantage", "reward")
    for row, other in zip(rows, legacy, strict=True):
        for name in (*names, "prompt_id", "response", "group_id", "sample_index", "prompt_length"):
            assert row[name] == other[name], name
        assert (row["policy_version"], row["sampler_version"]) == (7, 6)


def test_outputs_of_one_session_are_turns_of_a_trajectory() -> None:
    batch = stand_in(0)
    uid = batch.non_tensor_batch["uid"]
    uid[:] = [f"{one}_{i % GROUP // 2}_{i % 2}" for i, one in enumerate(uid)]
    rows = rows_of(batch, 1).to_pylist()
    for i, row in enumerate(rows):
        group, session, turn = uid[i].rsplit("_", 2)
        assert (row["group_id"], row["sample_index"], row["turn"]) == (group, int(session), int(turn))
        assert row["trajectory_id"] == f"{group}_{session}"


def test_without_a_tokenizer_prompts_are_told_apart_by_their_tokens() -> None:
    rows = rows_of(stand_in(0), 1).to_pylist()
    assert len({row["prompt_id"] for row in rows}) == ROWS // GROUP
    assert "response" not in rows[0]


@pytest.mark.parametrize("missing", ["uid", "token_level_scores"])
def test_what_a_row_needs_is_named(missing: str) -> None:
    batch = stand_in(0)
    for name in (missing, "token_level_rewards") if missing != "uid" else (missing,):
        (batch.non_tensor_batch if name == "uid" else batch.batch).pop(name)
    with pytest.raises(BadLog, match="uid" if missing == "uid" else "no rewards"):
        rows_of(batch, 1)


def test_what_cannot_be_recorded_is_refused(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(BadLog, match="already holds rollouts"):
        record(Trainer(CONFIG, []), recorded)
    with pytest.raises(AuditError, match="object has no _update_actor"):
        record(object(), tmp_path / "other")
    assert not (tmp_path / "other").exists()
