"""prime-rl's traces and token exports: those of its own writers, and each of their traps."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.check import check
from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_run
from audit.importers.convert import convert
from audit.importers.interface import Book, Options, Source, Unit
from audit.importers.prime_rl import IMPORTER, detect, units
from audit.importers.traces import branches_of, paths_of, reward_of
from audit.importers.values import OddValue

FIXTURE = Path(__file__).parent / "fixtures" / "prime_rl"
RUN = FIXTURE / "run"


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def lines_of(step: int, subset: str = "effective") -> list[dict]:
    file = RUN / f"rollouts/step_{step}/train/{subset}/traces.jsonl"
    return [json.loads(text) for text in file.read_text().splitlines()]


def slow_samples(nodes: list[dict]) -> list[dict]:
    """Paths by following every leaf, token by token."""
    children = {node.get("parent") for node in nodes}
    found = []
    for leaf in [i for i in range(len(nodes)) if i not in children]:
        path, at = [], leaf
        while at is not None:
            path.append(nodes[at])
            at = nodes[at].get("parent")
        made: dict[str, list] = {"ids": [], "mask": [], "logprobs": [], "advantages": []}
        for node in reversed(path):
            sampled = 0
            for token, told in zip(node["token_ids"], node["mask"], strict=True):
                made["ids"].append(token)
                made["mask"].append(told)
                for name in ("logprobs", "advantages"):
                    made[name].append(node[name][sampled] if told else 0.0)
                sampled += told
        found.append(made)
    return found


def exported(step: int) -> dict[tuple, dict]:
    made = {}
    for file in (RUN / f"token_exports/step_{step}").glob("rank_*.jsonl"):
        for text in file.read_text().splitlines():
            record = json.loads(text)
            made[tuple(record["token_ids"])] = record
    return made


def trace(**more) -> dict:
    own = {
        "task": {"type": "T", "data": {}},
        "nodes": [
            {"message": {"role": "user", "content": "q"}, "token_ids": [1, 2], "mask": [False, False]},
            {
                "parent": 0,
                "sampled": True,
                "message": {"role": "assistant", "content": "a"},
                "token_ids": [3, 4, 5],
                "mask": [False, True, True],
                "logprobs": [-0.5, -0.25],
                "advantages": [0.5, 0.5],
            },
        ],
        "calls": [{"node": 1, "finish_reason": "stop"}],
        "rewards": {"correct": {"score": 1.0, "weight": 0.5}},
        "ok": True,
    }
    return {**own, **more}


def node(at: int = 1, **more) -> dict:
    made = trace()
    made["nodes"][at] = {key: v for key, v in {**made["nodes"][at], **more}.items() if v is not ...}
    return made


def episode(*traces: dict, group: str = "g0", **more) -> dict:
    work = {"type": "train", "step": 1, "policy": {"start": 0, "end": 0}}
    run = {"type": "train", "id": "r", "work": work}
    return {"id": "e", "group": {"id": group}, "run": run, "ok": True, "traces": list(traces), **more}


def save(folder: Path, *lines: dict, subset: str = "effective", kind: str = "train", step: int = 1) -> Path:
    file = folder / "rollouts" / f"step_{step}" / kind / subset / "traces.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def one(made: dict) -> tuple[list, Book]:
    book = Book()
    return list(branches_of(made, book)), book


def test_its_own_run_opens_with_no_flags_and_every_branch_is_a_row() -> None:
    run = open_run(RUN)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("prime-rl", 6, 2)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (15, 1)
    assert run.rejected == {"trace of an agent that is not trained": 1}
    assert run.responses(["step"])["step"].to_pylist() == [1] * 5 + [2] * 5 + [10] * 5
    assert (run.manifest.framework.name, run.manifest.group_size) == ("prime-rl", 2)
    assert run.manifest.model == "tiny/policy"
    assert not [p for p in check(run).problems if p.severity == "error"]


def test_lists_of_every_branch_are_those_of_its_path() -> None:
    made = held(
        open_run(RUN),
        "step",
        "prompt_length",
        "token_ids",
        "loss_mask",
        "logp_sampler",
        "advantage",
        "length",
    )
    for step in (1, 2, 10):
        rows = [row for row in made if row["step"] == step]
        traces = [t for line in lines_of(step) for t in line["traces"] if t["agent"]["trainable"]]
        slow = [sample for each in traces for sample in slow_samples(each["nodes"])]
        for row, sample in zip(rows, slow, strict=True):
            start = sample["mask"].index(True)
            assert row["prompt_length"] == start
            assert row["token_ids"] == sample["ids"][start:]
            assert row["loss_mask"] == sample["mask"][start:]
            assert row["logp_sampler"] == pytest.approx(sample["logprobs"][start:])
            assert row["advantage"] == pytest.approx(sample["advantages"][start])
            assert row["length"] == len(row["token_ids"])


def test_the_trainers_lists_are_joined_by_exact_ids_from_every_rank() -> None:
    run = open_run(RUN)
    made = held(run, "step", "token_ids", "logp_theta", "entropy", "logp_sampler", "extra")
    seen = Counter()
    for step in (1, 2):
        by_response = {
            ids[record["loss_mask"].index(True) :]: record for ids, record in exported(step).items()
        }
        for row in (row for row in made if row["step"] == step):
            record = by_response.get(tuple(row["token_ids"]))
            assert (record is None) == (row["logp_theta"] is None)
            if record is not None:
                start = record["loss_mask"].index(True)
                assert row["logp_theta"] == pytest.approx(record["trainer_logprobs"][start:])
                assert row["logp_sampler"] == pytest.approx(record["inference_logprobs"][start:])
                assert row["entropy"] == pytest.approx(record["entropy"][start:])
                assert json.loads(row["extra"])["is_masked"] == record["is_masked"].count(True)
                seen[record["rank"]] += 1
    assert seen == {0: 5, 1: 4}
    assert "9 of 10 exported sequences were joined to rows by their exact token ids" in run.notes
    assert "9 of 10 rows got the trainer's log-probs from token exports" in run.notes


def test_trap_an_export_without_its_marker_is_not_joined_until_it_comes(tmp_path) -> None:
    run = open_run(RUN)
    assert all(row["logp_theta"] is None for row in held(run, "step", "logp_theta") if row["step"] == 10)
    assert sum("no STABLE beside it" in file.reason for file in run.skipped) == 2
    copy = Path(shutil.copytree(RUN, tmp_path / "run"))
    open_run(copy)
    (copy / "token_exports/step_10/STABLE").touch()
    again = held(open_run(copy), "step", "logp_theta")
    assert all(row["logp_theta"] is not None for row in again if row["step"] == 10)


@pytest.mark.parametrize("place", ["", "step_2", "step_2/rank_0.jsonl"])
def test_exports_open_alone_with_what_the_trainer_saw(place) -> None:
    run = open_run(RUN / "token_exports" / place)
    assert run.format == "prime-rl-tokens"
    made = held(run, "step", "prompt_length", "token_ids", "loss_mask", "logp_theta", "advantage", "length")
    records = {}
    for step in (1, 2, 10) if not place else (2,):
        records |= {
            (step, *ids): r for ids, r in exported(step).items() if "rank_0" not in place or r["rank"] == 0
        }
    assert len(made) == len(records)
    for row in made:
        (record,) = [
            r
            for (step, *ids), r in records.items()
            if step == row["step"] and ids[-row["length"] :] == row["token_ids"]
        ]
        start = record["loss_mask"].index(True)
        assert row["prompt_length"] == start
        assert row["loss_mask"] == record["loss_mask"][start:]
        assert row["logp_theta"] == pytest.approx(record["trainer_logprobs"][start:])
        assert row["advantage"] == pytest.approx(record["advantages"][start])
    assert any("were not finished" in note for note in run.notes) == (not place)


def test_exports_that_contradict_themselves_are_counted(tmp_path) -> None:
    (record, *_) = exported(1).values()
    bad = [
        record | {"loss_mask": [1] * len(record["token_ids"])},
        record | {"entropy": [0.5]},
        record | {"trainer_logprobs": "x"},
        record | {"loss_mask": [False] * len(record["token_ids"])},
        record,
    ]
    file = tmp_path / "step_1" / "rank_0.jsonl"
    file.parent.mkdir()
    file.write_text("".join(json.dumps(each) + "\n" for each in bad))
    assert sorted(open_run(file).rejected.values()) == [1, 3]


def test_trap_all_and_effective_are_never_added() -> None:
    assert len(units(RUN)) == 3
    assert all("/train/effective/" in unit.name for unit in units(RUN))
    arrivals = open_run(RUN / "rollouts/step_1/train/all/traces.jsonl")
    assert arrivals.rejected["episode without a trace (it failed before one was made)"] == 1
    assert any("never trained on" in note for note in arrivals.notes)
    # What the trainer exported says of an arrival that it was trained on, and with which advantage.
    assert [row["advantage"] for row in held(arrivals, "advantage")] == [0.75, -0.75, 0.5, -0.5, -0.5]


def test_a_run_with_arrivals_alone_is_read_and_said_so(tmp_path) -> None:
    run = open_run(save(tmp_path, episode(trace()), episode(trace()), subset="all"))
    assert any("every arrival" in note for note in run.notes)


@pytest.mark.parametrize(
    "place",
    [
        "rollouts",
        "rollouts/step_2",
        "rollouts/step_2/train",
        "rollouts/step_2/train/effective",
        "rollouts/step_10/eval",
        "rollouts/step_10/eval/all/traces.jsonl",
    ],
)
def test_every_folder_of_it_opens(place) -> None:
    path = RUN / place
    assert detect(path) is not None
    run = open_run(path)
    assert run.manifest.model == "tiny/policy"
    assert any("no update was made" in note for note in run.notes) == ("eval" in place)


def test_versions_say_how_stale_a_rollout_is() -> None:
    for row in held(open_run(RUN), "step", "policy_version", "sampler_version"):
        assert row["policy_version"] == row["step"] - 1
        assert row["sampler_version"] == max(0, row["step"] - 2)


@pytest.mark.parametrize("version", ["v0.7", "v0.8"])
def test_older_runs_have_a_trace_a_line_and_no_advantages(version) -> None:
    run = open_run(FIXTURE / version)
    made = held(run, "step", "group_id", "reward", "finish_reason", "sampler_version", "logp_sampler")
    assert [row["group_id"] for row in made] == ["group-0"] * 2 + ["group-1"] * 3
    assert {row["step"] for row in made} == {3}
    assert {row["sampler_version"] for row in made} == {1}
    assert [row["finish_reason"] for row in made] == ["stop", "length", "stop", "length", "stop"]
    file = FIXTURE / version / "rollouts/step_3/train/effective/traces.jsonl"
    for row, line in zip(made, map(json.loads, file.read_text().splitlines()), strict=False):
        parts = line["rewards"].values()
        assert row["reward"] == sum(p if version == "v0.7" else p["score"] * p["weight"] for p in parts)
    assert "advantage" not in run.columns


def test_rollouts_of_0_6_keep_their_advantage_and_say_what_was_filtered() -> None:
    run = open_run(FIXTURE / "v0.6")
    made = held(
        run, "step", "group_id", "advantage", "policy_version", "sampler_version", "finish_reason", "length"
    )
    assert run.format == "prime-rl-rollouts"
    assert [row["advantage"] for row in made] == [0.5, -0.5] * 3
    assert [row["step"] for row in made] == [0] * 4 + [1] * 2
    assert [row["policy_version"] - row["sampler_version"] for row in made] == [0] * 4 + [1] * 2
    assert [row["finish_reason"] for row in made] == ["stop", "length"] * 3
    assert [row["length"] for row in made] == [3, 4] * 3
    assert list(run.rejected.values()) == [2]
    assert any(
        "no update" in note
        for note in open_run(FIXTURE / "v0.6/rollouts/step_1/eval_rollouts_adding.jsonl").notes
    )


def test_trap_values_of_generated_tokens_alone_are_spread_over_all() -> None:
    made = node(mask=[True, False, True])
    (branch,), _ = one(made)
    assert branch.start == 2
    assert branch.row["logp_sampler"] == [-0.5, 0.0, -0.25]
    assert branch.row["loss_mask"] == [True, False, True]


def test_log_probs_of_the_trainer_and_the_reference_go_to_their_own_columns() -> None:
    ((found,), _) = one(
        node(trainer_logprobs=[-1.0, -2.0], reference_logprobs=[-3.0, -4.0], entropies=[0.5, 0.75])
    )
    assert found.row["logp_theta"] == [0.0, -1.0, -2.0][1:]
    assert (found.row["logp_ref"], found.row["entropy"]) == ([-3.0, -4.0], [0.5, 0.75])


def test_an_advantage_by_token_stays_by_token_and_what_was_not_assigned_is_said() -> None:
    ((found,), book) = one(node(advantages=[0.5, None]))
    assert found.row["token_advantage"] == [0.5, 0.0]
    assert any("without an advantage" in note for note in book.notes)
    ((found,), _) = one(node(advantages=...))
    assert not {"advantage", "token_advantage"} & found.row.keys()


def test_tokens_of_no_weight_in_the_loss_are_masked() -> None:
    ((found,), _) = one(node(loss_weights={"rl": [0.0, 1.0, 0.0]}))
    assert found.row["loss_mask"] == [True, False]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"logprobs": [-0.5]}, "logprobs of a message are not one for each generated token"),
        ({"mask": [True]}, "mask and token_ids of a message differ in length"),
        ({"logprobs": [None, -0.5]}, "logprobs hold a null"),
        ({"advantages": [1.0] * 5}, "advantages of a message are not one for each generated token"),
        ({"sampled": False}, "branch without a generated message"),
        ({"parent": 1}, "a message of the trace has no parent before it"),
        ({"message": "a"}, "a message of the trace has no role"),
    ],
)
def test_a_branch_that_contradicts_itself_is_counted_with_its_reason(change, why) -> None:
    found, book = one(node(**change))
    assert not found
    ((reason, count),) = book.rejected.items()
    assert reason.startswith(why)
    assert count == 1


def test_paths_are_in_the_order_of_their_leaves_and_loops_are_refused() -> None:
    assert paths_of([{}, {"parent": 0}, {"parent": 0}, {"parent": 1}]) == [[0, 2], [0, 1, 3]]
    for bad in ([{"parent": 0}], [{"parent": 1}, {"parent": 0}], [{"parent": -1}], [3], [{"parent": "0"}]):
        with pytest.raises(OddValue):
            paths_of(bad)


def test_a_compaction_that_was_not_gone_on_with_trains_nothing() -> None:
    made = trace()
    link = [{"node": 0, "type": "compaction_attempt"}]
    made["nodes"].append({**made["nodes"][1], "semantic_parents": link})
    found, book = one(made)
    assert (len(found), sum(book.rejected.values())) == (1, 1)
    made["nodes"].append({**made["nodes"][0], "semantic_parents": [{"node": 2, "type": "compaction"}]})
    made["nodes"].append({**made["nodes"][1], "parent": 3})
    found, book = one(made)
    assert (len(found), sum(book.rejected.values())) == (3, 0)
    assert {branch.row["extra"]["branch"] for branch in found} == {0, 1, 2}


def test_rewards_are_weighted_and_what_was_not_scored_is_null() -> None:
    parts = {"a": {"score": 1.0, "weight": 0.5}, "b": {"score": 2.0}, "c": None}
    assert reward_of({"rewards": parts}) == (2.5, {"a": 0.5, "b": 2.0})
    assert reward_of({"rewards": {"a": None}, "ok": True}) == (None, {})
    assert reward_of({"rewards": {}, "ok": False}) == (None, {})
    assert reward_of({"rewards": {}, "ok": True}) == (0.0, {})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stop_condition": "max_turns"}, "length"),
        ({"ok": False, "errors": [{"type": "Boom"}]}, "abort"),
        ({"calls": [{"node": 1, "finish_reason": "tool_calls"}]}, "tool"),
        ({"calls": [{"node": 1, "finish_reason": "stop"}, {"node": 1, "error": {"type": "x"}}]}, "stop"),
        ({"calls": []}, None),
    ],
)
def test_why_a_branch_ended(change, reason) -> None:
    ((found,), _) = one(trace(**change))
    assert found.row["finish_reason"] == reason


def test_without_token_ids_the_lengths_are_the_providers() -> None:
    made = node(token_ids=..., mask=..., logprobs=..., advantages=...)
    usage = {"prompt_tokens": 5, "cached_input_tokens": 3, "completion_tokens": 7}
    made["calls"] = [{"node": 1, "usage": usage}]
    ((found,), _) = one(made)
    assert (found.row["length"], found.row["prompt_length"], found.ids) == (7, 8, None)


def test_hostile_runs_are_one_named_problem(tmp_path) -> None:
    save(tmp_path, episode(trace(nodes=[[[]]])), episode(trace(nodes="x")), episode(3))
    with pytest.raises(BadLog, match="no row of this prime-rl log can be read"):
        open_run(tmp_path)


@pytest.mark.parametrize("value", [{"0": 1}, ["max_turns"], 3, None])
def test_a_stop_condition_that_is_no_text_is_no_limit(tmp_path, value) -> None:
    save(tmp_path, episode(trace(stop_condition=value)))
    assert [row["finish_reason"] for row in held(open_run(tmp_path), "finish_reason")] != ["length"]


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_NODE = st.dictionaries(
    st.sampled_from(["parent", "sampled", "message", "token_ids", "mask", "logprobs", "advantages"]), _VALUE
)
_TRACE = st.dictionaries(st.sampled_from([*trace(), "agent", "info", "timing", "errors"]), _VALUE)
_LINE = st.dictionaries(st.sampled_from(["group", "run", "env", "traces", "id"]), _VALUE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.lists(st.tuples(_LINE, _TRACE, _NODE), min_size=1, max_size=3), st.booleans())
def test_any_lines_are_rows_or_counted(tmp_path, changes, alone) -> None:
    lines = []
    for line, inner, each in changes:
        made = {**node(**each), **inner}
        lines.append({**made, **line} if alone else episode(made, **line))
    file = save(tmp_path, *lines) / "rollouts/step_1/train/effective/traces.jsonl"
    (ranks := tmp_path / "token_exports" / "step_1").mkdir(parents=True, exist_ok=True)
    (ranks / "STABLE").touch()
    (ranks / "rank_0.jsonl").write_text("".join(json.dumps(each) + "\n" for _, each, _ in changes))
    source = Source(file, Options(), IMPORTER.manifest(file))
    unit = Unit(file.name, (file, ranks / "rank_0.jsonl", ranks / "STABLE"))
    made = convert(IMPORTER, unit, source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values())
