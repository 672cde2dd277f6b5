"""verl's text dumps: those of verl's own code, and each of their traps."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.facts.declared import declared_objective
from audit.importers import open_run
from audit.importers.interface import Options, Source, Unit
from audit.importers.verl import IMPORTER, is_validation, manifest

FIXTURE = Path(__file__).parent / "fixtures" / "verl"
TRAIN = FIXTURE / "run" / "logs" / "rollout_data"
VALIDATION = FIXTURE / "run" / "logs" / "validation_data"


def line(prompt: str, score: float, step: int = 1, **more) -> dict:
    return {"input": prompt, "output": f"answer {score}", "gts": "3", "score": score, "step": step, **more}


def dump(folder: Path, *files: list[dict], first: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for step, lines in enumerate(files, first):
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in lines)
        (folder / f"{step}.jsonl").write_text(text)
    return folder


def sizes(run) -> list[int]:
    return sorted(Counter(run.responses(["group_id"])["group_id"].to_pylist()).values())


def test_verls_own_dump_opens_with_no_flags_and_every_line_is_a_row() -> None:
    run = open_run(TRAIN)
    lines = [json.loads(text) for file in TRAIN.iterdir() for text in file.read_text().splitlines()]
    summary = summarise(run)
    assert (summary.source.format, summary.tier, summary.groups) == ("verl", 2, 9)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (len(lines), 0)
    assert run.responses(["step"])["step"].to_pylist() == [1] * 12 + [2] * 12 + [10] * 12
    assert sizes(run) == [4] * 9
    assert run.manifest.group_size == 4
    assert any("no token ids" in note for note in run.notes)


def test_the_score_that_a_reward_function_replaced_gets_its_overlong_penalty_back() -> None:
    table = open_run(TRAIN).responses(["step", "response", "reward", "reward_components", "correct"])
    for row in table.to_pylist():
        # DAPO's manager: one point per token beyond the last 3 of 6; the end token is not in the text.
        words = len(row["response"].split())
        right = words == 3
        penalty = min(0.0, -(words + 1 - 3) / 3)
        assert row["reward"] == pytest.approx((1.0 if right else -1.0) + penalty, abs=1e-4)
        assert row["correct"] is right
        parts = dict(row["reward_components"])
        assert parts["score"] == (1.0 if right else -1.0)
        assert parts["overlong_reward"] == pytest.approx(penalty, abs=1e-4)


def test_a_score_that_is_not_replaced_already_holds_the_penalty(tmp_path) -> None:
    # A reward function that returns a number: only acc, and the manager's own keys.
    lines = [line("p", -0.5 + i, acc=0.0 + i, overlong_reward=-0.5, overlong=True) for i in range(2)]
    run = open_run(dump(tmp_path / "rollouts", lines))
    assert run.responses(["reward"])["reward"].to_pylist() == [-0.5, 0.5]


def test_validation_takes_the_whole_reward_and_is_said_to_be_no_training() -> None:
    run = open_run(VALIDATION)
    lines = [json.loads(text) for text in (VALIDATION / "0.jsonl").read_text().splitlines()]
    assert run.responses(["reward"])["reward"].to_pylist() == [each["reward"] for each in lines]
    assert any(each["reward"] != each["score"] for each in lines)
    assert run.manifest.group_size == 2
    assert run.manifest.sampling == {"temperature": 0.0, "max_tokens": 6}
    assert any("validation samples" in note for note in run.notes)


@pytest.mark.parametrize(
    ("folder", "config", "expected"),
    [
        ("val_dump", None, True),
        ("interval", None, False),
        ("a", {"trainer": {"validation_data_dir": "x/a"}}, True),
        ("val", {"trainer": {"rollout_data_dir": "x/val"}}, False),
        ("a", {"trainer": 3}, False),
    ],
)
def test_a_folder_is_validation_by_its_config_or_its_name(tmp_path, folder, config, expected) -> None:
    assert is_validation(dump(tmp_path / folder, [line("p", 1)]), config) is expected


def test_v1s_uid_gives_groups_sessions_and_the_outputs_of_a_session() -> None:
    run = open_run(FIXTURE / "v1" / "rollout_data")
    table = run.responses(["group_id", "sample_index", "trajectory_id", "turn"]).to_pylist()
    uid = "00000000-0000-4000-8000-000007000000"
    assert table[:4] == [
        {"group_id": uid, "sample_index": 0, "trajectory_id": f"{uid}_0", "turn": 0},
        {"group_id": uid, "sample_index": 0, "trajectory_id": f"{uid}_0", "turn": 1},
        {"group_id": uid, "sample_index": 2, "trajectory_id": None, "turn": None},
        {"group_id": uid, "sample_index": 3, "trajectory_id": None, "turn": None},
    ]
    assert len({row["group_id"] for row in table}) == 3


def test_a_uid_of_one_prompt_is_its_group_even_where_prompts_repeat(tmp_path) -> None:
    lines = [line("same", i % 2, uid=f"{'0' * 8}-0000-4000-8000-00000000000{i // 4}") for i in range(8)]
    assert sizes(open_run(dump(tmp_path / "rollouts", lines))) == [4, 4]


def test_uids_that_start_again_at_every_step_are_other_groups(tmp_path) -> None:
    step = [line(f"p{i // 2}", i % 2, uid=str(i // 2)) for i in range(4)]
    again = [{**each, "step": 2} for each in step]
    assert sizes(open_run(dump(tmp_path / "rollouts", step, again))) == [2, 2, 2, 2]


def test_balance_batch_reorders_rows_and_groups_are_found_by_prompt(tmp_path) -> None:
    lines = [line(f"p{i % 3}", i % 2) for i in range(12)]
    run = open_run(dump(tmp_path / "rollouts", lines))
    assert sizes(run) == [4, 4, 4]
    groups = run.responses(["group_id", "prompt"]).to_pylist()
    assert len({(row["group_id"], row["prompt"]) for row in groups}) == 3


def test_one_prompt_text_for_all_images_makes_no_groups(tmp_path) -> None:
    lines = [line("<image> What is this?", i % 2) for i in range(128)]
    run = open_run(dump(tmp_path / "rollouts", lines))
    assert summarise(run).groups is None
    assert any("one prompt text covers 128 rows" in note for note in run.notes)


def test_a_prompt_drawn_twice_in_mixed_order_is_left_out_not_merged(tmp_path) -> None:
    lines = [line(f"p{i % 20}", i % 2) for i in range(80)]
    lines[0:0] = [line("p3", 1.0), line("p3", 0.0)]
    lines += [line("p3", 1.0), line("p3", 0.0)]
    run = open_run(dump(tmp_path / "rollouts", lines))
    assert sizes(run) == [4] * 19
    (reason,) = run.rejected
    assert "drawn several times" in reason
    assert run.rejected[reason] == 8


def test_partial_groups_are_groups_and_are_said_to_be_partial(tmp_path) -> None:
    lines = [line(f"p{i // 4}", i % 2) for i in range(12)][:-1]
    run = open_run(dump(tmp_path / "rollouts", lines))
    assert sizes(run) == [3, 4, 4]
    assert any("1 of 3 groups hold fewer than 4 rows" in note for note in run.notes)


def test_the_last_file_may_be_half_written(tmp_path) -> None:
    folder = dump(tmp_path / "rollouts", [line("p", 1), line("p", 0)], [line("p", 1, 2), line("p", 0, 2)])
    last = folder / "2.jsonl"
    last.write_text(last.read_text()[:-20])
    run = open_run(folder)
    assert run.num_rows == 3
    assert dict(run.rejected) == {"last line is cut (still being written?)": 1}


def test_numbers_that_were_written_as_text_are_numbers(tmp_path) -> None:
    scores = ["0.5", "tensor(1.)", "np.float64(-2.5)", "tensor(3., device='cuda:0')", float("nan"), None]
    folder = dump(tmp_path / "rollouts", [line("p", each) for each in scores])
    rewards = open_run(folder).responses(["reward"])["reward"].to_pylist()
    assert rewards[:4] == [0.5, 1.0, -2.5, 3.0]
    assert rewards[4] != rewards[4]
    assert rewards[5] is None


def test_keys_of_a_reward_function_never_pass_for_columns(tmp_path) -> None:
    lines = [
        line("p", i, length=99, advantage="x", value=1.5, request_id="r", accuracy_reward=0.25)
        for i in (0, 1)
    ]
    run = open_run(dump(tmp_path / "rollouts", lines))
    assert not {"length", "advantage", "value"} & run.columns
    row = run.responses(["extra", "reward_components"]).to_pylist()[0]
    kept = {"length": 99, "advantage": "x", "value": 1.5, "request_id": "r", "gts": "3"}
    assert {**json.loads(row["extra"]), **kept} == json.loads(row["extra"])
    assert dict(row["reward_components"])["accuracy_reward"] == 0.25


def test_filtered_groups_and_the_kl_in_the_reward_are_said(tmp_path) -> None:
    folder = dump(tmp_path / "rollouts", [line("p", 0), line("p", 1)])
    algorithm = {"adv_estimator": "grpo", "filter_groups": {"enable": True}, "use_kl_in_reward": True}
    config = {"algorithm": algorithm, "actor_rollout_ref": {"rollout": {"n": 2}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    notes = " ".join(open_run(folder).notes)
    assert "filter_groups" in notes
    assert "use_kl_in_reward" in notes


def test_hydras_config_declares_the_objective_once_the_version_is_known(tmp_path) -> None:
    shutil.copytree(FIXTURE / "run", tmp_path / "run")
    logs = tmp_path / "run" / "logs" / "rollout_data"
    told = " ".join(summarise(open_run(logs)).notes)
    assert "framework.version is missing" in told
    (logs / "run.json").write_text(json.dumps({"framework": {"name": "verl", "version": "0.9.1"}}))
    declared = declared_objective(open_run(logs))
    assert declared is not None
    assert (declared.objective.scale.ddof, declared.objective.clip.epsilon_high) == (1, 0.28)


def test_of_several_hydra_runs_the_one_that_names_the_folder_is_taken(tmp_path) -> None:
    for n, name in ((8, "first"), (16, "second")):
        place = tmp_path / "outputs" / "2026-01-01" / f"00-00-{n}" / ".hydra" / "config.yaml"
        place.parent.mkdir(parents=True)
        place.write_text(
            f"actor_rollout_ref: {{rollout: {{n: {n}}}}}\ntrainer: {{rollout_data_dir: dumps/{name}}}\n"
        )
    assert manifest(dump(tmp_path / "dumps" / "second", [line("p", 1)])).group_size == 16
    assert manifest(dump(tmp_path / "dumps" / "third", [line("p", 1)])).group_size is None


def test_the_file_loggers_scalars_become_metrics() -> None:
    run = open_run(TRAIN)
    assert run.home is not None
    rows = pq.read_table(run.home / "metrics").select(["step", "name", "value"]).to_pylist()
    assert rows == [{"step": step, "name": "actor/pg_clipfrac", "value": 0.1 * step} for step in (1, 2)]


def test_what_only_looks_like_a_dump_is_left_alone(tmp_path) -> None:
    (tmp_path / "1.jsonl").mkdir()
    assert IMPORTER.detect(tmp_path) is None
    (tmp_path / "2.jsonl").write_text('{"prompt": "a", "score": 1}\n')
    assert IMPORTER.detect(tmp_path) is None
    (tmp_path / "3.jsonl").write_text("")
    assert IMPORTER.detect(tmp_path / "3.jsonl") is None


def test_a_folder_without_one_good_line_is_one_named_problem(tmp_path) -> None:
    with pytest.raises(BadLog, match="no row of this verl log can be read"):
        open_run(dump(tmp_path / "rollouts", [line("p", "not a number"), line("p", [1, 2])]))  # type: ignore[arg-type]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_KEYS = ["input", "output", "score", "step", "uid", "acc", "overlong_reward", "reward", "gts", "length"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.lists(st.dictionaries(st.sampled_from(_KEYS), _JSON), min_size=1, max_size=6))
def test_any_lines_are_rows_or_counted(tmp_path, lines) -> None:
    from audit.importers.convert import convert

    file = tmp_path / "1.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    source = Source(file, Options(), manifest(file))
    made = convert(IMPORTER, Unit("1.jsonl", (file,)), source, tmp_path / "out.parquet")
    assert made.read == len(lines) == made.rows + sum(made.rejected.values())
