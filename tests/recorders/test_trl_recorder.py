"""The TRL recorder: changes nothing, and every column says what it promises."""

from __future__ import annotations

import json
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import duckdb
import tiny
import torch
from trl_truth import Row, read_rows

from audit.errors import AuditError, BadLog
from audit.logs import hash_prompt, open_run, validate
from audit.objectives.dialects import from_framework
from audit.recorders.trl import record

pytestmark = pytest.mark.trl

STEPS = 4


@pytest.fixture(scope="module")
def recorded(start: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A GRPO run of 4 updates: 2 generation batches of 32 responses, 2 passes, 2 micro-batches."""
    folder = tmp_path_factory.mktemp("recorded")
    trainer = tiny.build_trainer(
        start,
        folder / "output",
        loss_type="grpo",
        beta=0.04,
        num_iterations=2,
        max_steps=STEPS,
        rewards=(tiny.exact_answer, tiny.one_mark),
        reward_weights=[1.0, 0.5],
        learning_rate=1e-3,
    )
    with record(trainer, folder / "run-a", flush_steps=3) as recorder:
        trainer.train()
    assert recorder.failure is None
    return folder / "run-a", trainer


def trained(start: Path, folder: Path, run_dir: Path | None, **options: Any) -> tuple[Any, Any]:
    trainer = tiny.build_trainer(start, folder / "output", max_steps=STEPS, learning_rate=1e-3, **options)
    if run_dir is None:
        trainer.train()
    else:
        with record(trainer, run_dir) as recorder:
            trainer.train()
        assert recorder.failure is None
    timings = ("runtime", "per_second", "step_time")
    history = [
        {key: value for key, value in entry.items() if not key.endswith(timings)}
        for entry in trainer.state.log_history
    ]
    return history, trainer.model.state_dict()


@pytest.mark.parametrize(
    "options",
    [
        {"loss_type": "grpo", "beta": 0.04, "num_iterations": 2},
        {"loss_type": "dapo"},
        {"algorithm": "rloo", "steps_per_generation": 4},
    ],
    ids=["grpo", "dapo", "rloo"],
)
def test_training_is_bitwise_the_same(options: dict[str, Any], start: Path, tmp_path: Path) -> None:
    history, weights = trained(start, tmp_path, None, **options)
    recorded_history, recorded_weights = trained(start, tmp_path, tmp_path / "run", **options)
    assert recorded_history == history
    assert weights.keys() == recorded_weights.keys()
    assert all(torch.equal(weights[name], recorded_weights[name]) for name in weights)


def test_the_log_is_valid_and_holds_every_column_that_trl_has(recorded: tuple[Path, Any]) -> None:
    run = open_run(recorded[0])
    assert validate(run) == []
    assert run.num_rows == 32 * STEPS
    assert {"logp_theta", "logp_old", "logp_ref", "entropy", "generation_batch", "created_at"} <= run.columns
    assert run.columns.isdisjoint({"logp_sampler", "token_advantage", "value", "turn", "extra"})


def test_places_in_the_run(recorded: tuple[Path, Any]) -> None:
    rows = read_rows(recorded[0])
    places = {
        (r["step"], r["update"], r["epoch"], r["generation_batch"], r["policy_version"], r["sampler_version"])
        for r in rows
    }
    assert places == {(1, 1, 0, 0, 0, 0), (2, 2, 1, 0, 1, 0), (3, 3, 0, 1, 2, 2), (4, 4, 1, 1, 3, 2)}
    per_micro_batch: dict[tuple[int, int], int] = defaultdict(int)
    for row in rows:
        per_micro_batch[row["update"], row["micro_batch"]] += 1
    assert per_micro_batch == {(update, micro): 16 for update in (1, 2, 3, 4) for micro in (0, 1)}


def test_groups_are_whole_in_every_pass(recorded: tuple[Path, Any]) -> None:
    groups: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in read_rows(recorded[0]):
        groups[row["group_id"], row["epoch"]].append(row)
    assert len({group for group, _ in groups}) == 8
    for rows in groups.values():
        assert sorted(row["sample_index"] for row in rows) == list(range(8))
        assert len({row["prompt"] for row in rows}) == 1
        assert {row["prompt_id"] for row in rows} == {hash_prompt(rows[0]["prompt"])}
    same = [(rows, groups[group, 1]) for (group, epoch), rows in groups.items() if epoch == 0]
    for first, second in same:
        for row in first:
            again = next(r for r in second if r["sample_index"] == row["sample_index"])
            for column in ("token_ids", "response", "reward", "advantage", "logp_old", "created_at"):
                assert again[column] == row[column]


def test_text_tokens_and_ends_agree(recorded: tuple[Path, Any]) -> None:
    tokenizer = tiny.build_tokenizer()
    ends = set()
    for row in read_rows(recorded[0]):
        assert row["length"] == len(row["token_ids"]) == len(row["logp_theta"]) == len(row["entropy"])
        assert row["prompt_length"] == len(tokenizer(row["prompt"])["input_ids"])
        assert tokenizer.decode(row["token_ids"], skip_special_tokens=True) == row["response"]
        stopped = row["token_ids"][-1] == tokenizer.eos_token_id
        assert row["finish_reason"] == ("stop" if stopped else "length")
        assert stopped or row["length"] == tiny.MAX_COMPLETION
        assert all(row["loss_mask"])
        ends.add(row["finish_reason"])
    assert ends == {"stop", "length"}


def test_rewards_are_weighted_as_trained(recorded: tuple[Path, Any]) -> None:
    for row in read_rows(recorded[0]):
        parts = dict(row["reward_components"])
        assert parts["exact_answer"] == tiny.exact_answer([row["prompt"]], [row["response"]])[0]
        assert row["reward"] == parts["exact_answer"] + 0.5 * parts["one_mark"]


def test_the_tokens_say_what_the_trainer_logged(recorded: tuple[Path, Any]) -> None:
    logged: dict[int, dict[str, float]] = defaultdict(dict)
    table = duckdb.read_parquet(str(recorded[0] / "metrics" / "*.parquet"))
    for step, update, micro_batch, name, value in table.fetchall():
        assert (update, micro_batch) == (step, None)
        logged[step][name] = value
    rows = read_rows(recorded[0])
    assert set(logged) == {1, 2, 3, 4}
    for step, values in logged.items():
        now = [row for row in rows if row["step"] == step]
        micro = [[row for row in now if row["micro_batch"] == m] for m in (0, 1)]
        entropy = [sum(sum(r["entropy"]) for r in part) / sum(r["length"] for r in part) for part in micro]
        assert values["entropy"] == pytest.approx(sum(entropy) / 2, rel=1e-5)
        if step % 2 == 1:  # TRL logs what it generated, when it generates
            assert values["reward"] == pytest.approx(sum(row["reward"] for row in now) / 32, rel=1e-6)
            mean_length = sum(row["length"] for row in now) / 32
            assert values["completions/mean_length"] == pytest.approx(mean_length, rel=1e-6)
            truncated = sum(row["finish_reason"] == "length" for row in now) / 32
            assert values["completions/clipped_ratio"] == pytest.approx(truncated)


def test_the_manifest_declares_the_objective_and_names_no_place(recorded: tuple[Path, Any]) -> None:
    manifest = open_run(recorded[0]).manifest
    assert manifest.run_id == "run-a"
    assert manifest.framework is not None
    assert (manifest.framework.name, manifest.framework.trainer) == ("trl", "GRPOTrainer")
    assert (manifest.model, manifest.reference, manifest.group_size) == ("tiny-sums", "tiny-sums", 8)
    assert manifest.sampling is not None
    assert manifest.sampling["max_tokens"] == tiny.MAX_COMPLETION
    assert manifest.config is not None
    declared = from_framework("trl", str(manifest.framework.version), manifest.config, trainer="GRPOTrainer")
    assert declared.objective.name == "trl-grpo"
    assert declared.unknown == declared.notes == ()
    text = (recorded[0] / "run.json").read_text()
    assert not any(place in text for place in (str(recorded[0].parent), str(Path.home()), "/"))
    assert json.loads(text)["config"]["loss_type"] == "grpo"


def test_old_is_the_policy_itself_where_trl_does_not_recompute_it(start: Path, tmp_path: Path) -> None:
    trained(start, tmp_path, tmp_path / "run", loss_type="dapo")
    assert all(row["logp_old"] == row["logp_theta"] for row in read_rows(tmp_path / "run"))


def test_rloo_logs_old_and_ref_per_token(start: Path, tmp_path: Path) -> None:
    trained(start, tmp_path, tmp_path / "run", algorithm="rloo", num_iterations=2)
    rows = read_rows(tmp_path / "run")
    assert open_run(tmp_path / "run").manifest.framework.trainer == "RLOOTrainer"  # type: ignore[union-attr]
    first = [row for row in rows if row["update"] == 1]
    for row in first:
        assert row["logp_old"] == pytest.approx(row["logp_theta"], abs=1e-5)
        assert row["logp_ref"] == pytest.approx(row["logp_theta"], abs=1e-5)
    later = [row for row in rows if row["update"] == STEPS]
    assert any(
        abs(o - r) > 1e-2 for row in later for o, r in zip(row["logp_old"], row["logp_ref"], strict=True)
    )


def test_truncated_responses_keep_their_tokens_but_have_no_scores(start: Path, tmp_path: Path) -> None:
    options = {
        "mask_truncated_completions": True,
        "max_completion_length": 8,
        "num_iterations": 2,
        "beta": 0.1,
    }
    trained(start, tmp_path, tmp_path / "run", **options)
    rows = read_rows(tmp_path / "run")
    masked = [row for row in rows if row["finish_reason"] == "length"]
    assert 0 < len(masked) < len(rows)
    for row in rows:
        scored = row["finish_reason"] == "stop"
        assert len(row["token_ids"]) == len(row["loss_mask"]) == row["length"]
        assert set(row["loss_mask"]) == {scored}
        for column in ("logp_theta", "logp_old", "logp_ref", "entropy"):
            assert (row[column] is not None) == scored
        assert row["advantage"] is not None


def unscorable_or_length(completions: list[str], **_: Any) -> list[float | None]:
    return [None if "3" in completion else float(len(completion)) for completion in completions]


def test_unscorable_rewards_are_null(start: Path, tmp_path: Path) -> None:
    trained(start, tmp_path, tmp_path / "run", rewards=(unscorable_or_length,))
    rows = read_rows(tmp_path / "run")
    unscorable = [row for row in rows if "3" in row["response"]]
    assert unscorable
    for row in rows:
        assert (row["reward"] is None) == ("3" in row["response"])
        assert dict(row["reward_components"]) == {"unscorable_or_length": row["reward"]}
    assert {row["advantage"] for row in unscorable} == {0.0}


def sampled_elsewhere(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Stand-in for an inference engine with a tool: its own log-probs, and tokens that no model wrote."""
    generator = torch.Generator().manual_seed(trainer.state.global_step)
    tokenizer, end = trainer.processing_class, trainer.processing_class.eos_token_id
    lengths = torch.randint(3, 9, (len(prompts),), generator=generator).tolist()
    ids = [[*torch.randint(3, 13, (n,), generator=generator).tolist(), end] for n in lengths]
    return {
        "prompt_ids": [tokenizer(prompt)["input_ids"] for prompt in prompts],
        "completion_ids": ids,
        "logprobs": [[-0.5 * (i + 1) for i in range(len(row))] for row in ids],
        "env_mask": [[int(i != 1) for i in range(len(row))] for row in ids],
    }


def test_tool_tokens_and_sampler_log_probs(start: Path, tmp_path: Path) -> None:
    trainer = tiny.build_trainer(start, tmp_path / "output", max_steps=2, num_iterations=2)
    trainer.rollout_func = sampled_elsewhere
    with record(trainer, tmp_path / "run"):
        trainer.train()
    rows = read_rows(tmp_path / "run")
    assert len(rows) == 64
    for row in rows:
        assert row["loss_mask"] == [i != 1 for i in range(row["length"])]
        assert row["logp_sampler"] == [-0.5 * (i + 1) for i in range(row["length"])]
        assert row["finish_reason"] == "stop"


def test_evaluation_is_not_recorded(start: Path, tmp_path: Path) -> None:
    from datasets import Dataset

    trainer = tiny.build_trainer(
        start,
        tmp_path / "output",
        max_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
        eval_dataset=Dataset.from_dict({"prompt": ["3+4=", "5+6="]}),
    )
    with record(trainer, tmp_path / "run"):
        trainer.train()
    rows = read_rows(tmp_path / "run")
    assert len(rows) == 64
    assert {row["generation_batch"] for row in rows} == {0, 1}
    names = duckdb.read_parquet(str(tmp_path / "run" / "metrics" / "*.parquet")).project("name").fetchall()
    assert ("eval_reward",) in names


@pytest.mark.parametrize("calls", [6, 7], ids=["between updates", "inside an update"])
def test_a_crash_leaves_the_updates_that_were_taken(calls: int, start: Path, tmp_path: Path) -> None:
    answered = 0

    def exact_answer(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        nonlocal answered
        if answered == calls:
            msg = "the reward service is down"
            raise RuntimeError(msg)
        answered += 1
        return tiny.exact_answer(prompts, completions)

    # One generation per micro-batch, two micro-batches per update.
    trainer = tiny.build_trainer(
        start, tmp_path / "output", max_steps=8, steps_per_generation=1, rewards=(exact_answer,)
    )
    with pytest.raises(RuntimeError, match="reward service"), record(trainer, tmp_path / "run"):
        trainer.train()
    places = Counter((row["update"], row["micro_batch"]) for row in read_rows(tmp_path / "run"))
    assert places == {(update, micro): 16 for update in (1, 2, 3) for micro in (0, 1)}


def test_a_failing_recorder_does_not_stop_training(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = tiny.build_trainer(start, tmp_path / "output", max_steps=4)
    with (
        warnings.catch_warnings(record=True) as caught,
        record(trainer, tmp_path / "run", flush_steps=1) as recorder,
    ):
        warnings.simplefilter("always")
        write = recorder._writer.write

        def write_until_full(rows: Any) -> None:
            if trainer.state.global_step == 3:
                msg = "no space left on device"
                raise OSError(msg)
            write(rows)

        monkeypatch.setattr(recorder._writer, "write", write_until_full)
        trainer.train()
    messages = [str(warning.message) for warning in caught if warning.category is RuntimeWarning]
    assert messages == ["rlaudit stopped recording, training goes on: OSError: no space left on device"]
    assert trainer.state.global_step == 4
    assert isinstance(recorder.failure, OSError)
    assert {row["update"] for row in read_rows(tmp_path / "run")} == {1, 2}


def test_close_leaves_the_trainer_as_it_was(start: Path, tmp_path: Path) -> None:
    trainer = tiny.build_trainer(start, tmp_path / "output")
    before = dict(vars(trainer))
    recorder = record(trainer, tmp_path / "run")
    assert vars(trainer).keys() > before.keys()
    recorder.close()
    recorder.close()
    assert vars(trainer).keys() == before.keys()
    assert type(trainer.callback_handler.callbacks[-1]).__name__ != "RecorderCallback"


def test_what_cannot_be_recorded_is_refused(recorded: tuple[Path, Any]) -> None:
    run_dir, trainer = recorded
    with pytest.raises(BadLog, match="already holds rollouts"):
        record(trainer, run_dir)
    with pytest.raises(AuditError, match=r"GRPOTrainer and\s+trl\.RLOOTrainer"):
        record(object(), run_dir / "other")


def test_a_generation_batch_is_never_split_over_files(start: Path, tmp_path: Path) -> None:
    trainer = tiny.build_trainer(
        start, tmp_path / "output", max_steps=12, steps_per_generation=4, num_iterations=2
    )
    with record(trainer, tmp_path / "run", flush_steps=3):
        trainer.train()
    files = sorted((tmp_path / "run" / "rollouts").glob("*.parquet"))
    held = [
        {row[0] for row in duckdb.read_parquet(str(file)).project("generation_batch").fetchall()}
        for file in files
    ]
    assert held == [{0}, {1}, {2}]


def test_chat_prompts_are_logged_as_the_model_read_them(start: Path, tmp_path: Path) -> None:
    from datasets import Dataset

    def right_length(completions: list[Any], **_: Any) -> list[float]:
        return [float(len(completion[0]["content"]) % 2) for completion in completions]

    trainer = tiny.build_trainer(start, tmp_path / "output", max_steps=1, rewards=(right_length,))
    chats = [[{"role": "user", "content": f"{a}+{b}="}] for a, b in tiny.sums(8)]
    trainer.train_dataset = Dataset.from_dict({"prompt": chats})
    trainer.processing_class.chat_template = (
        "{% for message in messages %}#{{ message['content'] }}{% endfor %}"
    )
    with record(trainer, tmp_path / "run"):
        trainer.train()
    rows = read_rows(tmp_path / "run")
    assert {row["prompt"] for row in rows} <= {f"#{a}+{b}=" for a, b in tiny.sums(8)}
    assert all(row["prompt_id"] == hash_prompt(row["prompt"]) for row in rows)
