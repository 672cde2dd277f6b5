"""validate() collects every problem of a log, with counts and steps, and says nothing about a good one."""

import numpy as np
import pyarrow as pa
import pytest
from log_samples import columns, write

from audit.logs import Manifest, RolloutWriter, Run, open_run, validate
from audit.schema import TOKEN_LISTS

FLOATS = pa.list_(pa.float32())


def check(tmp_path, *tables, manifest='{"schema": "rlaudit.run.v1"}'):
    """Problems of a log of these tables (one file each), by id."""
    for number, table in enumerate(tables):
        write(tmp_path / "rollouts" / f"{number}.parquet", table)
    if manifest:
        (tmp_path / "run.json").write_text(manifest)
    return validate(open_run(tmp_path))


def only(problems, code):
    """The one problem, which must be the only one and have this id."""
    assert [problem.id for problem in problems] == [code]
    return problems[0]


def good(step=1, n=4, **others):
    lists = {"token_ids": [[1, 2, 3]] * n, "loss_mask": [[True, True, False]] * n}
    logps = {name: [[-0.5, -0.25, -1.0]] * n for name in ("logp_theta", "logp_old")}
    rewards = [float(i % 2) for i in range(n)]
    return columns(step=step, rewards=rewards, **{**lists, **logps, "length": [3] * n, **others})


def test_a_good_log_has_no_problem(tmp_path):
    manifest = '{"schema": "rlaudit.run.v1", "run_id": "r", "group_size": 4}'
    assert check(tmp_path, good(1), good(2), good(10), manifest=manifest) == []


def test_what_the_writer_wrote_has_no_problem(tmp_path):
    with RolloutWriter(tmp_path, manifest={"group_size": 2}) as writer:
        writer.write(pa.table(good(1, n=2)))
    assert validate(open_run(tmp_path)) == []


def test_nulls_in_required_columns(tmp_path):
    problem = only(check(tmp_path, good(prompt_id=["p", None, "p", None])), "required.null")
    assert (problem.severity, problem.column, problem.rows, problem.steps) == ("error", "prompt_id", 2, (1,))


def test_null_steps_are_counted_without_a_step(tmp_path):
    problem = only(check(tmp_path, good(step=1) | {"step": [1, None, 1, 1]}), "required.null")
    assert (problem.column, problem.rows, problem.steps) == ("step", 1, None)


def test_missing_required_column_in_one_file(tmp_path):
    problems = check(tmp_path, good(1), good(2, reward=None), good(3))
    assert [(p.id, p.rows) for p in problems] == [("column.missing", 4), ("reward.null", 4)]
    assert "2 of 3 files (steps 1 to 3)" in problems[0].summary
    assert "rollouts/1.parquet" in problems[0].summary


@pytest.mark.parametrize(
    ("value", "code", "severity"),
    [
        (None, "reward.null", "warning"),
        (np.nan, "reward.nan", "error"),
        (np.inf, "reward.infinite", "error"),
        (-np.inf, "reward.infinite", "error"),
    ],
)
def test_rewards_that_are_no_number(tmp_path, value, code, severity):
    problem = only(check(tmp_path, good(1), good(7, reward=[0.0, value, 1.0, value])), code)
    assert (problem.severity, problem.column, problem.rows, problem.steps) == (severity, "reward", 2, (7,))


def test_duplicate_keys(tmp_path):
    problem = only(check(tmp_path, good(1), good(2, sample_index=[0, 1, 1, 1])), "key.duplicate")
    assert (problem.rows, problem.steps) == (3, (2,))


def test_the_same_file_copied(tmp_path):
    assert only(check(tmp_path, good(1), good(1)), "key.duplicate").rows == 8


def test_inner_epochs_and_turns_are_no_duplicates(tmp_path):
    assert check(tmp_path, good(1, epoch=[0] * 4), good(1, epoch=[1] * 4)) == []
    turns = {"sample_index": [0, 0, 1, 1], "trajectory_id": list("aabb"), "turn": [0, 1, 0, 1]}
    manifest = '{"schema": "rlaudit.run.v1", "group_size": 2}'
    assert check(tmp_path / "turns", good(1, **turns), manifest=manifest) == []


def test_groups_that_mix_prompts(tmp_path):
    problem = only(check(tmp_path, good(1), good(2, prompt_id=["p", "p", "q", "p"])), "group.prompt-mix")
    assert (problem.rows, problem.steps) == (4, (2,))


def test_group_ids_that_start_again_at_every_step(tmp_path):
    same = {"group_id": ["g"] * 4}
    problem = only(
        check(tmp_path, good(1, **same), good(2, reward=[1.0, 0.0, 0.0, 0.0], **same)), "group.reused"
    )
    assert (problem.rows, problem.steps, problem.certainty) == (8, (1, 2), "likely")


def test_a_group_that_is_replayed_is_not_a_reused_id(tmp_path):
    same = {"group_id": ["g"] * 4}
    assert check(tmp_path, good(1, **same), good(2, **same)) == []


def test_group_size_against_run_json(tmp_path):
    manifest = '{"schema": "rlaudit.run.v1", "group_size": 4}'
    greedy = good(3, n=5, is_greedy=[False] * 4 + [True])
    problem = only(check(tmp_path, good(1), good(2, n=3), greedy, manifest=manifest), "group.size")
    assert (problem.severity, problem.rows, problem.steps) == ("warning", 3, (2,))


def test_prompts_and_their_ids(tmp_path):
    clash = check(tmp_path / "a", good(1, prompt=["x", "x", "y", None]))
    assert only(clash, "prompt.id-clash").rows == 4
    other = good(2, prompt=["x"] * 4, prompt_id=["q"] * 4)
    split = check(
        tmp_path / "b",
        good(1, prompt=["x"] * 4),
        other,
        good(3, prompt=["z", "z", None, "z"], prompt_id=["r"] * 4),
    )
    assert (only(split, "prompt.id-split").rows, only(split, "prompt.id-split").steps) == (8, (1, 2))


def test_token_lists_of_unequal_length(tmp_path):
    lists = [[-0.5, -0.5, -0.5], [-0.5], None, []]
    problems = check(tmp_path, good(1), good(5, logp_old=pa.array(lists, pa.list_(pa.float64()))))
    found = {problem.id: problem for problem in problems}
    assert set(found) == {"tokens.length-mismatch", "tokens.not-logged"}
    mismatch = found["tokens.length-mismatch"]
    assert (mismatch.severity, mismatch.column, mismatch.rows, mismatch.steps) == (
        "error",
        "logp_old",
        2,
        (5,),
    )
    assert found["tokens.not-logged"].rows == 1


def test_length_that_disagrees_with_the_tokens(tmp_path):
    table = good(1, length=[3, 4, None, 3])
    assert only(check(tmp_path / "a", table), "length.mismatch").rows == 1
    characters = '{"schema": "rlaudit.run.v1", "length_unit": "characters"}'
    assert check(tmp_path / "b", table, manifest=characters) == []


def test_null_and_empty_lists_are_counted_apart(tmp_path):
    lists = {name: pa.array([[-1.0], None, [], [-1.0]], FLOATS) for name in ("logp_theta", "logp_old")}
    table = {**good(1, token_ids=None, loss_mask=None, length=None), **lists}
    problems = check(tmp_path, table)
    counts = {(problem.id, problem.column): (problem.rows, problem.severity) for problem in problems}
    assert counts == {
        ("tokens.not-logged", "logp_theta"): (1, "warning"),
        ("tokens.not-logged", "logp_old"): (1, "warning"),
        ("tokens.empty", None): (1, "info"),
    }


@pytest.mark.parametrize(
    ("value", "code"),
    [(np.nan, "logp.non-finite"), (-np.inf, "logp.non-finite"), (0.5, "logp.positive")],
)
def test_impossible_log_probs_count_only_where_the_token_takes_loss(tmp_path, value, code):
    lists = [[-0.5, -0.5, value], [value, value, value], [-0.5, -0.5, -0.5], [-0.5, value, -0.5]]
    problem = only(check(tmp_path, good(1), good(2, logp_old=lists)), code)
    assert (problem.severity, problem.column, problem.rows, problem.steps) == ("error", "logp_old", 2, (2,))
    assert "3 loss tokens" in problem.summary


def test_rounding_above_zero_is_not_a_positive_log_prob(tmp_path):
    assert check(tmp_path, good(1, logp_old=[[1e-7, -0.5, -0.5]] * 4)) == []


def test_nulls_inside_a_list(tmp_path):
    problem = only(
        check(tmp_path, good(1, logp_old=[[-0.5, None, -0.5]] * 2 + [[-0.5] * 3] * 2)), "tokens.null-element"
    )
    assert (problem.column, problem.rows) == ("logp_old", 2)


def test_other_token_values_that_are_not_finite(tmp_path):
    problem = only(check(tmp_path, good(1, entropy=[[0.5, np.nan, np.nan]] * 4)), "tokens.non-finite")
    assert (problem.column, problem.rows) == ("entropy", 4)


def test_log_probs_that_are_placeholders(tmp_path):
    zeros = [[0.0, 0.0, -1.0]] * 4
    problem = only(check(tmp_path / "a", good(1, logp_ref=zeros), good(2, logp_ref=zeros)), "logp.all-zero")
    assert (problem.severity, problem.column, problem.rows, problem.certainty) == (
        "error",
        "logp_ref",
        8,
        "likely",
    )
    real = good(2, logp_ref=[[-0.5, 0.0, 0.0]] * 4)
    problem = only(check(tmp_path / "b", good(1, logp_ref=zeros), real), "logp.all-zero")
    assert (problem.severity, problem.rows, problem.steps) == ("warning", 4, (1,))


def test_responses_without_a_loss_token(tmp_path):
    mask = [[False] * 3, [True] * 3, [False] * 3, [True] * 3]
    problem = only(check(tmp_path, good(1, loss_mask=mask)), "mask.no-loss-token")
    assert (problem.severity, problem.rows) == ("info", 2)


def test_negative_counts_and_advantages_that_are_no_number(tmp_path):
    problems = check(tmp_path, good(1, sample_index=[0, 1, 2, -1], advantage=[0.5, np.nan, np.inf, None]))
    assert {(p.id, p.column, p.rows) for p in problems} == {
        ("value.negative", "sample_index", 1),
        ("advantage.non-finite", "advantage", 2),
    }


def test_columns_of_some_files(tmp_path):
    problem = only(
        check(tmp_path, good(1), good(2, correct=[True] * 4), good(3, correct=[False] * 4)),
        "column.in-some-files",
    )
    assert (problem.severity, problem.column, problem.rows, problem.steps) == ("warning", "correct", 4, (2,))
    assert "2 of 3 files (steps 2 to 3)" in problem.summary


def test_types_that_differ_between_files(tmp_path):
    problem = only(check(tmp_path, good(1, reward=[0, 1, 0, 1]), good(2)), "column.type-conflict")
    assert (problem.severity, problem.column) == ("info", "reward")
    assert "int64 in 1" in problem.summary
    assert "double in 1" in problem.summary


def test_kinds_of_lists_and_strings_are_no_conflict(tmp_path):
    large = pa.array([[-0.5, -0.25, -1.0]] * 4, pa.large_list(pa.float64()))
    ids = pa.array(["p"] * 4).dictionary_encode()
    assert check(tmp_path, good(1), good(2, logp_old=large, prompt_id=ids)) == []


def test_half_precision_log_probs(tmp_path):
    half = pa.array([[-0.5, -0.25, -1.0]] * 4, pa.list_(pa.float16()))
    assert only(check(tmp_path, good(1, logp_old=half)), "logp.half-precision").column == "logp_old"


def test_columns_outside_the_schema(tmp_path):
    problems = check(tmp_path, {**good(1), "Reward": [9.0] * 4, "advantages": [1.0] * 4, "own": [1] * 4})
    found = {p.column: (p.id, p.severity) for p in problems}
    assert found == {
        "Reward": ("column.case-clash", "warning"),
        "advantages": ("column.unknown", "info"),
        "own": ("column.unknown", "info"),
    }
    assert "Did you mean 'advantage'" in next(p.summary for p in problems if p.column == "advantages")


def test_skipped_files_and_manifest(tmp_path):
    whole = write(tmp_path / "rollouts" / "9.parquet", good(9)).read_bytes()
    (tmp_path / "rollouts" / "9.parquet").write_bytes(whole[:-5])
    (tmp_path / "rollouts" / "8.parquet").write_bytes(b"")
    problems = check(tmp_path, good(1), manifest='{"grop_size": 3}')
    assert [(p.id, p.severity) for p in problems] == [
        ("manifest.schema-absent", "warning"),
        ("manifest.unknown-key", "warning"),
        ("file.skipped", "warning"),
        ("file.skipped", "warning"),
    ]
    assert "Did you mean 'group_size'" in problems[1].summary
    assert "being written" in problems[2].summary + problems[3].summary
    assert only(check(tmp_path / "b", good(1), manifest=""), "manifest.absent").severity == "info"


def test_a_damaged_file_does_not_hide_the_problems_of_the_others(tmp_path):
    path = write(tmp_path / "rollouts" / "9.parquet", good(9), compression="none")
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * 200 + whole[204:])
    problems = check(tmp_path, good(1, reward=[0.0, np.nan, 0.0, 1.0]))
    assert {(p.id, p.rows) for p in problems} == {("file.damaged", 4), ("reward.nan", 1)}


def test_errors_come_first(tmp_path):
    problems = check(tmp_path, good(1, reward=[np.nan, None, 0.0, 1.0], own=[1] * 4), manifest="")
    assert [p.severity for p in problems] == ["error", "warning", "info", "info"]


def test_imported_rows(tmp_path):
    table = pa.table(columns(rewards=(0.0, np.nan)))
    manifest = Manifest(run_id="r", length_unit="characters")
    run = Run.from_table(tmp_path, "r", manifest, table, format="made", rejected={"cut line": 3})
    assert [(p.id, p.rows) for p in validate(run)] == [("reward.nan", 1), ("row.rejected", 3)]


def test_every_list_column_is_checked(tmp_path):
    short = {}
    for name in TOKEN_LISTS:
        value = {"token_ids": 1, "loss_mask": True}.get(name, -0.5)
        short[name] = [[value] * 3, [value] * 3, [value] * 3, [value] * (3 if name == "token_ids" else 2)]
    problems = check(tmp_path, good(1, **short))
    assert {p.column for p in problems if p.id == "tokens.length-mismatch"} == set(TOKEN_LISTS) - {
        "token_ids"
    }
