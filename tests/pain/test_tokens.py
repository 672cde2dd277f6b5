"""Masks, ends and turns: P41 to P43 of the public reports."""

from __future__ import annotations

import math
import random

import pytest
from builder import EOS, checked, first_pass, healthy, ids, named, write, write_metrics

from audit.analyses.check import check

LOG_PROBS = ("logp_old", "logp_ref", "logp_sampler", "logp_theta")


def with_tool_output(rows, tokens: int = 10, gap: float = 1.0) -> None:
    """Mask the first tokens of every response, where the policy is far from the reference."""
    for row in rows:
        n = min(tokens, row["length"] - 2)
        row["loss_mask"] = [False] * n + [True] * (row["length"] - n)
        row["logp_ref"] = [
            x - gap if t < n else y
            for t, (x, y) in enumerate(zip(row["logp_old"], row["logp_ref"], strict=True))
        ]


def k3(row) -> list[float]:
    gaps = [r - t for r, t in zip(row["logp_ref"], row["logp_theta"], strict=True)]
    return [math.exp(d) - 1 - d for d in gaps]


@pytest.mark.parametrize(("gap", "metric"), [(1.0, None), (0.5, "all"), (1.0, "loss")])
def test_kl_on_tokens_without_loss(tmp_path, gap, metric) -> None:
    rows = healthy()
    with_tool_output(rows, gap=gap)
    run = write(tmp_path / "run", rows)
    if metric:
        values = []
        for s in range(1, 13):
            here = [row for row in first_pass(rows) if row["step"] == s]
            flat = [(x, m) for row in here for x, m in zip(k3(row), row["loss_mask"], strict=True)]
            used = [x for x, m in flat if m or metric == "all"]
            values.append((s, "kl", sum(used) / len(used)))
        write_metrics(run.path, values)
    found = named(check(run), "kl.masked-tokens")
    pairs = [(x, m) for row in rows for x, m in zip(k3(row), row["loss_mask"], strict=True)]
    share = sum(x for x, m in pairs if not m) / sum(x for x, _ in pairs)
    assert f"{share:.0%} of the summed KL (k3, theta to ref) lies on mask = 0 tokens" in found.summary
    assert found.severity == {None: "info", "all": "error", "loss": "info"}[metric]


@pytest.mark.parametrize("pad", [0, EOS])
def test_padding_that_takes_loss(tmp_path, pad) -> None:
    rows = healthy(updates=1, longest=40)
    after = loss = 0
    for row in rows:
        n, more = row["length"], 48 - row["length"]
        row["token_ids"] = [*row["token_ids"], *([pad] * more)]
        for name in LOG_PROBS:
            row[name] = [*row[name], *([-0.01] * more)]
        row |= {"loss_mask": [True] * 48, "length": 48, "entropy": [1.0] * 48}
        first = row["token_ids"].index(EOS) if EOS in row["token_ids"] else 47
        after, loss = after + 47 - first, loss + 48
        assert n <= 40
    found = named(checked(tmp_path / "run", rows), "mask.after-end")
    assert found.rows == sum(EOS in row["token_ids"] for row in rows)
    assert f"{after / loss:.0%} of mask tokens follow the first end-of-sequence id" in found.summary
    assert "mask length = 48 in all rows" in found.summary


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_rows_that_run_on_after_their_end(tmp_path, share) -> None:
    rng = random.Random(0)
    rows = healthy(updates=1, shortest=10)
    on = []
    for row in rows:
        if row["finish_reason"] == "stop" and rng.random() < share:
            at = rng.randrange(3, row["length"] - 2)
            row["token_ids"] = [EOS if t == at else x % 4000 + t for t, x in enumerate(row["token_ids"])]
            row["finish_reason"] = "length"
            on.append((row, row["length"] - 1 - at))
    result = checked(tmp_path / "run", rows, sampling={"stop_token_ids": [EOS]})
    found = named(result, "mask.after-end")
    whole = sum(row["length"] for row in rows)
    assert found.rows == len(on)
    assert f"{sum(k for _, k in on) / whole:.0%} of mask tokens follow" in found.summary
    assert named(checked(tmp_path / "other", rows), "mask.after-end").rows == len(on)


def test_text_after_the_end_up_to_one_length_in_every_row(tmp_path) -> None:
    rng = random.Random(0)
    rows = healthy(updates=1, shortest=40, longest=40)
    after = 0
    for row in rows:
        at = rng.randrange(8, 30)
        row["token_ids"] = [EOS if t == at else x for t, x in enumerate(row["token_ids"])]
        after += 39 - at
    found = named(checked(tmp_path / "run", rows), "mask.after-end")
    assert found.rows == 384
    assert f"{after / (40 * 384):.0%} of mask tokens follow" in found.summary


@pytest.mark.parametrize("other_ids", [(32007,), (31000, 31001)])
def test_truncated_rows_that_stopped_by_another_end_id(tmp_path, other_ids) -> None:
    rng = random.Random(0)
    rows = healthy(updates=1)
    for row in rows:
        if rng.random() < 0.5:
            row["token_ids"] = [*(min(x, 4999) for x in row["token_ids"][:-1]), rng.choice(other_ids)]
            row["finish_reason"] = "length"
    found = named(checked(tmp_path / "run", rows), "finish.truncated-but-ended")
    cut = [row for row in rows if row["finish_reason"] == "length"]
    ended = [row for row in cut if row["token_ids"][-1] in other_ids]
    assert found.rows == len(ended)
    assert f"{len(ended) / len(cut):.0%} of the {len(cut)} 'truncated' rows end with an id" in found.summary
    for one in other_ids:
        assert str(one) in found.summary


def turned(rows, *, text: bool) -> list:
    """Three turns of each trajectory, each going on from the one before."""
    made = []
    for row in first_pass(rows):
        prompt, context = row["prompt"], row["prompt_length"]
        for turn in range(3):
            own = {"trajectory_id": f"{row['group_id']}:{row['sample_index']}", "turn": turn}
            own |= {"prompt": prompt, "prompt_length": context}
            made.append(row | own | {"prompt_id": row["prompt_id"]})
            prompt, context = f"{prompt}<assistant>{row['response']}<tool>ok", context + row["length"] + 3
    for row in made:
        if not text:
            del row["prompt"], row["response"]
        else:
            row["prompt_id"] = f"{row['prompt_id']}/{row['turn']}"
    return made


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("share", [0.12, 0.5])
def test_a_turn_that_does_not_go_on_from_the_last(tmp_path, text, share) -> None:
    rng = random.Random(1)
    rows = turned(healthy(), text=text)
    assert "turn.not-extension" not in ids(checked(tmp_path / "sound", rows))
    broken = set()
    for row in rows:
        if row["turn"] == 2 and rng.random() < share:
            broken.add(row["trajectory_id"])
            row["prompt_length"] -= 5 + row["length"]
            if text:
                row["prompt"] = row["prompt"][:20] + row["prompt"][25:]
    found = named(checked(tmp_path / "run", rows), "turn.not-extension")
    assert found.rows == len(broken)
    assert f"in {len(broken) / 384:.0%} of 384 trajectories, most often turn 2" in found.summary
    assert ("at character 20" in found.summary) == text


@pytest.mark.parametrize(("every", "share"), [(9, 1.0), (4, 0.4)])
def test_tool_output_that_takes_loss(tmp_path, every, share) -> None:
    rows = healthy(updates=1, shortest=20)
    loose = hit = 0
    for k, row in enumerate(rows):
        row["token_ids"] = [6000, *row["token_ids"][1:8], 6001, *row["token_ids"][9:]]
        row["loss_mask"] = [False] * 9 + [True] * (row["length"] - 9)
        if k % every == 0:
            kept = round(share * 9)
            row["loss_mask"] = [True] * kept + row["loss_mask"][kept:]
            loose, hit = loose + kept, hit + 1
    found = named(checked(tmp_path / "run", rows), "mask.tool-output")
    assert found.rows == hit
    assert f"{loose} tokens of {hit} responses take loss inside spans" in found.summary


def test_a_tool_mark_that_the_policy_writes_itself_is_no_tool_output(tmp_path) -> None:
    rows = healthy(updates=1, shortest=20)
    for k, row in enumerate(rows):
        row["token_ids"] = [6000, *row["token_ids"][1:8], 6001, *row["token_ids"][9:]]
        row["loss_mask"] = [k % 3 > 0] * 9 + [True] * (row["length"] - 9)
    assert "mask.tool-output" not in ids(checked(tmp_path / "run", rows))


@pytest.mark.parametrize("share", [0.12, 0.4])
def test_ids_of_a_turn_that_do_not_begin_with_those_of_the_last(tmp_path, share) -> None:
    rng = random.Random(2)
    rows = []
    broken = 0
    for row in healthy(updates=1, steps=6):
        whole = row["token_ids"]
        for turn, n in enumerate((row["length"] // 2, row["length"])):
            own = {name: row[name][:n] for name in (*LOG_PROBS, "loss_mask", "entropy")}
            taken = whole[:n]
            if turn and rng.random() < share:
                taken = [*whole[:3], 9999, *whole[4:n]]
                broken += 1
            name = f"{row['group_id']}:{row['sample_index']}"
            rows.append(row | own | {"token_ids": taken, "length": n, "trajectory_id": name, "turn": turn})
    found = named(checked(tmp_path / "run", rows), "turn.not-extension")
    assert found.rows == broken
    assert f"in {broken / 192:.0%} of 192 trajectories, most often turn 1" in found.summary
    assert "first difference at token 3" in found.summary


@pytest.mark.parametrize("clash", [False, True])
def test_the_context_of_a_later_turn_is_no_other_prompt(tmp_path, clash) -> None:
    rows = []
    for row in healthy(updates=1, size=4):
        own = {"trajectory_id": f"{row['group_id']}:{row['sample_index']}"}
        other = " (other)" if clash and row["step"] == 3 else ""
        rows.append(row | own | {"turn": 0, "prompt": row["prompt"] + other})
        rows.append(row | own | {"turn": 1, "prompt": row["prompt"] + other + row["response"]})
    assert ("prompt.id-clash" in ids(checked(tmp_path / "run", rows))) is clash
