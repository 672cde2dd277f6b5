"""TRL's completions files: real ones, and each of their traps made by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit.analyses.infer import infer
from audit.analyses.summary import summarise
from audit.errors import AuditError, BadLog
from audit.facts.rows import RunRows
from audit.importers import find_runs, open_run

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "trl_completions"


def completions(
    groups: list[list[float]], *, step: int = 1, prompts: list[str] | None = None, **columns
) -> pa.Table:
    """One file: a list of rewards per group; advantages as TRL 1.16 makes them (ddof 1, + 1e-4)."""
    size = len(groups[0])
    names = prompts or [f"prompt {i}" for i in range(len(groups))]
    advantage: list[float] = []
    for rewards in groups:
        r = np.array(rewards, dtype=float)
        made = (r - np.nanmean(r)) / (np.nanstd(r, ddof=1) + 1e-4)
        advantage += np.nan_to_num(made).tolist()
    rows = len(advantage)
    return pa.table(
        {
            "step": [step] * rows,
            "prompt": [name for name in names for _ in range(size)],
            "completion": [f"answer {step} {i}" for i in range(rows)],
            "accuracy": [float(r) for rewards in groups for r in rewards],
            **columns,
            "advantage": advantage,
        }
    )


def save(folder: Path, *tables: pa.Table) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        pq.write_table(table, folder / f"completions_{table['step'][0].as_py():05d}.parquet")
    return folder


ALIVE = [[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]


def test_the_sample_folder_opens_with_no_flags_from_either_level() -> None:
    for path in (SAMPLE, SAMPLE / "completions"):
        run = open_run(path)
        summary = summarise(run)
        assert (summary.source.format, summary.tier) == ("trl", 3)
        assert summary.responses == 768 == summary.source.rows_read
        assert summary.groups == 96
        needed = {skip.needs for skip in summary.skipped}
        assert {"logp_theta", "logp_old", "logp_ref", "finish_reason", "length or token_ids"} <= needed


def test_the_sample_folder_is_found_as_one_run_beside_others() -> None:
    found = {entry.path.name: entry for entry in find_runs(SAMPLE.parent)}
    assert found["trl_completions"].error is None
    assert found["grpo-seed1"].run is not None


def test_the_advantages_of_real_files_name_trls_std_and_epsilon() -> None:
    found = infer(RunRows.read(open_run(SAMPLE)), None)
    assert found.status == "fits"
    assert found.best is not None
    assert (found.best.scale, found.best.ddof, found.best.epsilon) == ("group_std", 1, 1e-4)


def test_groups_are_blocks_of_equal_prompts(tmp_path) -> None:
    run = open_run(save(tmp_path / "completions", completions(ALIVE, step=1), completions(ALIVE, step=5)))
    table = run.responses(["group_id", "sample_index", "step", "prompt_id"])
    groups = table["group_id"].to_pylist()
    assert [groups.count(g) for g in dict.fromkeys(groups)] == [4] * 6
    assert table["sample_index"].to_pylist() == [0, 1, 2, 3] * 6
    assert table["step"].to_pylist() == [1] * 12 + [5] * 12
    assert len(set(table["prompt_id"].to_pylist())) == 3


def test_a_prompt_drawn_twice_in_a_row_makes_two_groups_and_says_so(tmp_path) -> None:
    prompts = ["a", "a", "b"]
    run = open_run(save(tmp_path / "completions", completions(ALIVE, prompts=prompts)))
    assert len(set(run.responses(["group_id"])["group_id"].to_pylist())) == 3
    assert any("several blocks in a row" in note for note in run.notes)


def test_partial_groups_are_refused_not_averaged(tmp_path) -> None:
    table = completions(ALIVE)
    run = open_run(save(tmp_path / "completions", table.slice(0, 11)))
    summary = summarise(run)
    assert summary.groups is None
    assert summary.zero_signal_share is None
    assert any(skip.needs == "group_id" for skip in summary.skipped)
    assert any("runs of 3, 4" in note for note in summary.notes)
    assert summary.responses == 11


def test_a_batch_that_several_logs_repeat_counts_once(tmp_path) -> None:
    first = completions(ALIVE, step=1)
    again = first.set_column(0, "step", pa.array([2] * 12))
    run = open_run(save(tmp_path / "completions", first, again, completions(ALIVE, step=3)))
    assert run.num_rows == 24
    assert dict(run.rejected) == {"repeated batch": 12}
    assert any("repeats the batch" in skip.reason for skip in run.skipped)


def test_the_columns_that_make_the_advantages_are_the_rewards(tmp_path) -> None:
    table = completions(ALIVE, difficulty=[float(i % 5) for i in range(12)], note=["x"] * 12)
    run = open_run(save(tmp_path / "completions", table))
    assert run.responses(["reward"])["reward"].to_pylist() == [r for g in ALIVE for r in g]
    assert any("not rewards: difficulty" in note for note in run.notes)
    parts = run.responses(["reward_components"])["reward_components"].to_pylist()
    assert parts[0] == [("accuracy", 1.0)]


def test_declared_reward_weights_are_used(tmp_path) -> None:
    total = [[0.7 * a + 0.3 * b for a, b in zip(g, [0.0, 1.0, 1.0, 0.0], strict=True)] for g in ALIVE]
    table = completions(total)
    table = table.set_column(3, "accuracy", pa.array([r for g in ALIVE for r in g]))
    table = table.add_column(4, "style", pa.array([0.0, 1.0, 1.0, 0.0] * 3))
    folder = save(tmp_path / "completions", table)
    manifest = {"run_id": "x", "framework": {"name": "trl", "version": "1.16.0"}}
    (tmp_path / "run.json").write_text(json.dumps(manifest | {"config": {"reward_weights": [0.7, 0.3]}}))
    run = open_run(folder)
    assert run.responses(["reward"])["reward"].to_pylist() == pytest.approx([r for g in total for r in g])
    assert any("confirmed by the advantages" in note for note in run.notes)


def test_a_row_that_no_reward_function_scored_is_unscorable(tmp_path) -> None:
    groups = [[1.0, math.nan, 0.0, 1.0], *ALIVE[1:]]
    run = open_run(save(tmp_path / "completions", completions(groups)))
    reward = run.responses(["reward"])["reward"].to_pylist()
    assert reward[1] is None
    assert reward[0] == 1.0


def test_conversations_and_hostile_text_are_kept_as_text(tmp_path) -> None:
    table = completions(ALIVE)
    talk = [[{"role": "user", "content": f"<img src=x onerror=alert(1)> {i // 4}"}] for i in range(12)]
    table = table.set_column(1, "prompt", pa.array(talk))
    run = open_run(save(tmp_path / "completions", table))
    assert run.responses(["prompt"])["prompt"][0].as_py() == "user: <img src=x onerror=alert(1)> 0"
    assert summarise(run).groups == 3


def test_unreadable_files_are_skipped_with_a_reason_and_all_unreadable_is_an_error(tmp_path) -> None:
    folder = save(tmp_path / "completions", completions(ALIVE, step=1))
    whole = (folder / "completions_00001.parquet").read_bytes()
    (folder / "completions_00002.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "completions_00003.parquet").write_bytes(b"")
    run = open_run(folder)
    assert run.num_rows == 12
    assert {skip.path.name for skip in run.skipped} == {
        "completions_00002.parquet",
        "completions_00003.parquet",
    }
    (folder / "completions_00001.parquet").unlink()
    with pytest.raises(AuditError) as caught:
        open_run(folder)
    assert "\n" not in str(caught.value)


def test_files_of_another_trainer_are_not_claimed(tmp_path) -> None:
    save(tmp_path / "completions", pa.table({"step": [1], "prompt": ["a"], "completion": ["b"]}))
    with pytest.raises(BadLog, match="has no column advantage"):
        open_run(tmp_path / "completions")


def test_the_log_is_never_changed(tmp_path) -> None:
    folder = save(tmp_path / "completions", completions(ALIVE))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    summarise(open_run(folder))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_run_json_beside_the_completions_gives_the_objective(tmp_path) -> None:
    save(tmp_path / "out" / "completions", completions(ALIVE))
    manifest = {
        "schema": "rlaudit.run.v1",
        "run_id": "ours",
        "framework": {"name": "trl", "version": "1.16.0"},
    }
    (tmp_path / "out" / "run.json").write_text(json.dumps(manifest | {"config": {"loss_type": "grpo"}}))
    run = open_run(tmp_path / "out")
    assert (run.run_id, run.format) == ("ours", "trl")
    assert summarise(run).objective["aggregation"]["kind"] == "seq-mean-token-mean"
    assert [entry.run_id for entry in find_runs(tmp_path)] == ["ours"]


def test_a_boolean_reward_column_is_a_reward(tmp_path) -> None:
    table = completions(ALIVE, difficulty=[float(i % 5) for i in range(12)])
    as_bool = pa.array([bool(r) for g in ALIVE for r in g])
    run = open_run(save(tmp_path / "completions", table.set_column(3, "accuracy", as_bool)))
    assert run.responses(["reward"])["reward"].to_pylist() == [r for g in ALIVE for r in g]


def test_a_reward_that_does_not_follow_from_the_advantages_is_unknown_not_guessed(tmp_path) -> None:
    table = completions(ALIVE, difficulty=[float(i % 5) for i in range(12)])
    nothing = pa.array([math.nan] * 12)
    at = table.column_names.index("advantage")
    run = open_run(save(tmp_path / "completions", table.set_column(at, "advantage", nothing)))
    assert run.responses(["reward"])["reward"].null_count == 12
    assert any("the reward is unknown" in note for note in run.notes)
    assert summarise(run).reward.value is None


def test_columns_without_numbers_are_named(tmp_path) -> None:
    table = completions(ALIVE, verdict=["right"] * 12)
    assert any("verdict (string)" in note for note in open_run(save(tmp_path / "completions", table)).notes)


@pytest.mark.parametrize("size", [1, -8, True, "8"])
def test_a_declared_group_size_that_is_none_is_said_and_not_used(tmp_path, size) -> None:
    folder = save(tmp_path / "completions", completions(ALIVE))
    manifest = {"run_id": "x", "framework": {"name": "trl", "version": "1.16.0"}}
    (tmp_path / "run.json").write_text(json.dumps(manifest | {"config": {"num_generations": size}}))
    run = open_run(folder)
    assert summarise(run).groups == 3
    assert any("not used" in note for note in run.notes)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("advantage", ["abc"] * 12, "column advantage holds string"),
        ("advantage", [[1.0]] * 12, "column advantage holds list"),
        ("step", ["abc"] * 12, "column step holds string"),
        ("step", [1.5] * 12, "no step numbers"),
        ("step", [2**60] * 12, "no step numbers"),
        ("step", [math.inf] * 12, "no step numbers"),
    ],
)
def test_columns_of_the_wrong_kind_are_one_line(tmp_path, column: str, values: list, said: str) -> None:
    table = completions(ALIVE)
    table = table.set_column(table.column_names.index(column), column, pa.array(values))
    folder = tmp_path / "completions"
    folder.mkdir()
    pq.write_table(table, folder / "completions_00001.parquet")
    with pytest.raises(BadLog, match=said):
        open_run(folder)


def test_a_link_to_another_file_of_the_folder_counts_once(tmp_path) -> None:
    folder = save(tmp_path / "completions", completions(ALIVE, step=1))
    (folder / "completions_00007.parquet").symlink_to(folder / "completions_00001.parquet")
    run = open_run(folder)
    assert run.num_rows == 12
    assert any("same file as" in skip.reason for skip in run.skipped)


def test_steps_that_follow_on_miss_nothing(tmp_path) -> None:
    first = completions(ALIVE, step=1)
    close = open_run(save(tmp_path / "a" / "completions", first, completions(ALIVE, step=2)))
    apart = open_run(save(tmp_path / "b" / "completions", first, completions(ALIVE, step=9)))
    assert not any("missing" in note for note in close.notes)
    assert any("8 steps apart" in note for note in apart.notes)


def test_training_arguments_as_json_give_the_config_the_objective_and_the_group_size(tmp_path) -> None:
    save(tmp_path / "completions", completions(ALIVE))
    arguments = {"num_generations": 4, "beta": 0.0, "loss_type": "dr_grpo", "scale_rewards": "none"}
    (tmp_path / "training_args.json").write_text(json.dumps(arguments))
    card = "# Model\n\n### Framework versions\n\n- TRL: 1.16.0\n- Transformers: 5.0.0\n"
    (tmp_path / "README.md").write_text(card)
    run = open_run(tmp_path)
    assert run.manifest.config == arguments
    assert run.manifest.group_size == 4
    objective = summarise(run).objective
    assert objective is not None
    assert objective["scale"]["kind"] == "none"


def test_logged_scalars_of_the_newest_trainer_state_become_metrics(tmp_path) -> None:
    save(tmp_path / "completions", completions(ALIVE))
    for step in (9, 10):
        history = [{"step": 1, "reward": 0.5, "kl": float("nan")}, {"step": step, "reward": 1.0, "note": "x"}]
        (tmp_path / f"checkpoint-{step}").mkdir()
        state = json.dumps({"log_history": history})
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    run = open_run(tmp_path)
    assert run.home is not None
    table = pq.read_table(run.home / "metrics").select(["step", "name", "value"])
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (1, "reward", 0.5),
        (1, "kl", pytest.approx(math.nan, nan_ok=True)),  # logged, and no number
        (10, "reward", 1.0),
    ]


def test_a_config_above_the_output_directory_has_to_name_it(tmp_path) -> None:
    save(tmp_path / "mine" / "completions", completions(ALIVE))
    arguments = {"num_generations": 4, "output_dir": "out/other"}
    (tmp_path / "args.json").write_text(json.dumps(arguments))
    assert open_run(tmp_path / "mine").manifest.config is None
    (tmp_path / "args.json").write_text(json.dumps({**arguments, "output_dir": "out/mine/"}))
    assert open_run(tmp_path / "mine").manifest.group_size == 4
    (tmp_path / "mine" / "args.json").write_text(json.dumps(arguments))
    assert open_run(tmp_path / "mine").manifest.config == arguments
