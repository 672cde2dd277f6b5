"""The OpenRLHF recorder: experiences become rows of the schema, and training does not notice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
import torch
from openrlhf_experiences import GROUP, PROMPTS, ROWS, Maker, Trainer, group_norm, options, samples
from rows_read import read_rows
from verl_batches import Letters

import audit
from audit.cli import main
from audit.errors import AuditError, BadLog
from audit.logs import hash_prompt, open_run, validate
from audit.recorders import openrlhf
from audit.recorders.openrlhf import record
from audit.recorders.openrlhf_rows import rows_of


@pytest.fixture(autouse=True)
def released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openrlhf, "_version", lambda: "0.11.2")


def recorded(run_dir: Path, batches: list[Any], maker: Any = None, **changes: Any) -> Trainer:
    trainer = Trainer(options(**changes), maker)
    trainer.tokenizer = Letters()
    with record(trainer, run_dir) as recorder:
        trainer.fit(batches)
    assert recorder.failure is None
    return trainer


def test_every_row_holds_its_part_of_the_experiences(tmp_path: Path) -> None:
    recorded(tmp_path / "run", [samples(0), samples(1)])
    rows = read_rows(tmp_path / "run")
    assert len(rows) == 2 * ROWS
    place = 0
    for step, seed in ((1, 0), (2, 1)):
        given, made = samples(seed), group_norm(samples(seed))
        for before, after in zip(given, made, strict=True):
            for i in range(len(before.sequences)):
                row, place = rows[place], place + 1
                tokens = before.sequences[i].tolist()
                actions = before.action_mask[i].tolist()  # place t is of token t + 1
                first = actions.index(1)
                last = len(actions) - 1 - actions[::-1].index(1)
                span = range(first, last + 1)
                assert row["step"] == row["update"] == step
                assert row["token_ids"] == [tokens[t + 1] for t in span]
                assert row["loss_mask"] == [bool(actions[t]) for t in span]
                assert row["length"] == len(span) == int(before.response_length[i])
                assert row["prompt_length"] == first + 1
                for column in ("logp_theta", "logp_old"):
                    assert row[column] == [before.action_log_probs[i, t].item() for t in span]
                assert row["logp_sampler"] == [before.rollout_log_probs[i, t].item() for t in span]
                reference = before.action_log_probs[i] - before.kl[i]
                assert row["logp_ref"] == [reference[t].item() for t in span]
                assert row["advantage"] == after.advantages[i, first].item()
                assert row["reward"] == before.rewards[i].item()
                assert dict(row["reward_components"]) == {"score": before.scores[i].item()}
                index = before.index[i]
                assert row["group_id"] == f"{step:06d}-{index // GROUP:04d}"
                assert row["sample_index"] == index % GROUP
                assert row["prompt"] == f"prompt {index // GROUP}"
                assert row["prompt_id"] == hash_prompt(row["prompt"])
                assert json.loads(row["extra"]) == {"label": f"label {index // GROUP}"}
                assert row["response"] == Letters().decode(row["token_ids"], skip_special_tokens=True)
                assert row["finish_reason"] == ("length" if row["length"] == 7 else "stop")
                assert row["policy_version"] == row["sampler_version"] == step - 1
    assert any(not all(row["loss_mask"]) for row in rows)


def test_the_run_is_clean_and_its_options_declare_the_objective(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "run-a", [samples(0), samples(1)])
    run = open_run(tmp_path / "run-a")
    assert validate(run) == []
    assert (run.manifest.model, run.manifest.group_size, run.manifest.seed) == ("Tiny-0.5B", GROUP, 7)
    text = (tmp_path / "run-a" / "run.json").read_text()
    assert not any(bad in text for bad in ("/data", "/checkpoints", "wandb-secret"))
    with pytest.raises(SystemExit) as left:
        main(["check", str(tmp_path / "run-a"), "--json"])
    assert left.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert [problem["id"] for problem in found["problems"] if problem["severity"] != "info"] == []
    assert found["tier"] == 6
    audit.weights(tmp_path / "run-a", tmp_path / "weights.parquet")
    written = pq.read_table(tmp_path / "weights.parquet").to_pylist()
    rows = read_rows(tmp_path / "run-a")
    for step in (1, 2):
        tokens = sum(sum(row["loss_mask"]) for row in rows if row["step"] == step)
        for row, weight in zip(rows, written, strict=True):
            if row["step"] == step:
                expected = [row["advantage"] / tokens * trained for trained in row["loss_mask"]]
                assert weight["weight"] == pytest.approx(expected, rel=1e-6)


def test_rewards_are_those_before_length_penalties(tmp_path: Path) -> None:
    def penalised(experiences: Any) -> Any:
        for e in experiences:
            e.rewards -= 0.5  # in place, as OpenRLHF's penalties
        return group_norm(experiences)

    before = torch.cat([e.rewards for e in samples(0)]).tolist()
    recorded(tmp_path / "run", [samples(0)], Maker(penalised))
    assert [row["reward"] for row in read_rows(tmp_path / "run")] == before


@pytest.mark.parametrize("case", ["no reference", "k3", "in the loss", "clamped"])
def test_reference_log_probs_are_there_where_they_can_be_known(case: str, tmp_path: Path) -> None:
    maker, changes, batch = Maker(), {}, samples(0)
    if case == "no reference":
        maker.initial_model_group = None
    elif case == "k3":
        changes["algo__kl__estimator"] = "k3"
    elif case == "in the loss":
        changes["algo__kl__use_loss"] = True
        for e in batch:
            e.base_action_log_probs = e.action_log_probs - 0.25
    else:
        batch[0].kl[2, 5] = 10.0
    recorded(tmp_path / "run", [batch], maker, **changes)
    found = [row["logp_ref"] for row in read_rows(tmp_path / "run")]
    if case == "clamped":
        assert [i for i, row in enumerate(found) if row is None] == [2]
    elif case == "in the loss":
        for row in read_rows(tmp_path / "run"):
            assert row["logp_ref"] == pytest.approx([logp - 0.25 for logp in row["logp_old"]], abs=1e-6)
    else:
        assert found == [None] * ROWS


@pytest.mark.parametrize("changes", [{"train__batch_size": ROWS // 2}, {"train__max_epochs": 2}])
def test_current_log_probs_are_not_made_up(changes: dict[str, Any], tmp_path: Path) -> None:
    recorded(tmp_path / "run", [samples(0)], **changes)
    columns = open_run(tmp_path / "run").columns
    assert "logp_old" in columns
    assert columns.isdisjoint({"logp_theta", "update"})


def test_an_asynchronous_sampler_has_no_known_version(tmp_path: Path) -> None:
    recorded(tmp_path / "run", [samples(0)], train__async_enable=True)
    assert "sampler_version" not in open_run(tmp_path / "run").columns


def test_steps_that_train_the_critic_only_are_left_out(tmp_path: Path) -> None:
    recorded(tmp_path / "run", [samples(0), samples(1), samples(2)], critic__freezing_steps=1)
    assert {row["step"] for row in read_rows(tmp_path / "run")} == {3}


def test_advantages_of_tokens_stay_of_tokens(tmp_path: Path) -> None:
    def of_tokens(experiences: Any) -> Any:
        for e in experiences:
            e.advantages = torch.arange(e.action_mask.numel()).reshape(e.action_mask.shape).float()
        return experiences

    recorded(tmp_path / "run", [samples(0)], Maker(of_tokens))
    for row in read_rows(tmp_path / "run"):
        first = row["token_advantage"][0]
        assert row["token_advantage"] == [first + t for t in range(row["length"])]
        assert row["advantage"] is None


def test_the_trainer_is_as_it_was(tmp_path: Path) -> None:
    trainer = Trainer(options())
    plain = Trainer(options()).fit([samples(0)])
    recorder = record(trainer, tmp_path / "run")
    assert trainer.fit([samples(0)]) == plain
    recorder.close()
    assert "train_step" not in vars(trainer)
    assert "compute_advantages_and_returns" not in vars(trainer.experience_maker)
    table = duckdb.read_parquet(str(tmp_path / "run" / "metrics" / "*.parquet"))
    assert table.project("step, name, value").fetchall() == [(1, "policy_loss", 0.25)]


def test_a_failure_stops_the_recording_and_not_the_training(tmp_path: Path) -> None:
    broken = samples(1)
    broken[0].sequences = None
    trainer = Trainer(options())
    recorder = record(trainer, tmp_path / "run")
    with pytest.warns(RuntimeWarning, match="rlaudit stopped recording, training goes on"):
        assert len(trainer.fit([samples(0), broken, samples(2)])) == 3
    recorder.close()
    assert recorder.failure is not None
    assert {row["step"] for row in read_rows(tmp_path / "run")} == {1}


def test_a_step_that_the_actors_did_not_finish_is_not_written(tmp_path: Path) -> None:
    class Dying(Trainer):
        def train_step(self, rollout_samples: Any, global_step: int) -> Any:
            result = super().train_step(rollout_samples, global_step)
            if global_step == 1:
                msg = "an actor is gone"
                raise RuntimeError(msg)
            return result

    with pytest.raises(RuntimeError, match="an actor"):  # noqa: SIM117
        with record(trainer := Dying(options()), tmp_path / "run"):
            trainer.fit([samples(0), samples(1)])
    assert {row["step"] for row in read_rows(tmp_path / "run")} == {1}


def test_what_a_row_needs_is_named() -> None:
    batch = group_norm(samples(0))
    batch[1].index = None
    with pytest.raises(BadLog, match="'index' is not there"):
        rows_of(batch, 1, group_size=GROUP)


def test_what_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path / "run", [samples(0)])
    with pytest.raises(BadLog, match="already holds rollouts"):
        record(Trainer(options()), tmp_path / "run")
    with pytest.raises(AuditError, match="object has no experience_maker"):
        record(object(), tmp_path / "other")


def test_without_prompts_and_tokenizer_prompts_are_told_apart_by_their_tokens() -> None:
    batch = group_norm(samples(0))
    for e in batch:
        e.prompts = []
    rows = rows_of(batch, 1, group_size=GROUP).to_pylist()
    by_group = {(row["group_id"], row["prompt_id"]) for row in rows}
    assert len(by_group) == len({prompt for _, prompt in by_group}) == PROMPTS
