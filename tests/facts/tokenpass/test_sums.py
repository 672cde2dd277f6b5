"""Sums per response against a plain loop, whatever the chunk, the row group and the device's code."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.errors import BadLog, UnknownName
from audit.facts.columns import PLAIN
from audit.facts.engines.local import compute
from audit.facts.rows import RunRows
from audit.facts.tokenpass import part as token_pass
from audit.logs import Run


def facts_of(run: Run, names: tuple[str, ...] = PLAIN, device: str = "cpu") -> dict[str, np.ndarray]:
    tables = [table for _, table in compute(run.parts, names, device=device)]
    return {name: np.concatenate([table[name].to_numpy() for table in tables]) for name in names}


def masked_rollouts(steps: int = 3) -> list[dict]:
    rng = random.Random(7)
    data = rollouts(steps=steps)
    for k, row in enumerate(data):
        row["loss_mask"] = [(k + i) % 3 > 0 for i in range(row["length"])]
        row["logp_sampler"] = [x - abs(rng.gauss(0.0, 0.1)) for x in row["logp_old"]]
        row["entropy"] = [abs(x) for x in row["logp_old"]]
        row["token_advantage"] = [0.1 * i - 1.0 for i in range(row["length"])]
        # What a trainer leaves at masked tokens must not matter.
        row["logp_theta"] = [
            x if m else math.nan for x, m in zip(row["logp_theta"], row["loss_mask"], strict=True)
        ]
    return data


def loop(row: dict) -> dict[str, float]:
    used = [i for i, m in enumerate(row["loss_mask"]) if m]
    policies = ("theta", "old", "ref", "sampler")
    log = {p: [np.float32(row[f"logp_{p}"][i]).item() for i in used] for p in policies}
    rho = [math.exp(a - b) for a, b in zip(log["theta"], log["old"], strict=True)]
    gap = [a - b for a, b in zip(log["old"], log["sampler"], strict=True)]
    advantage = [np.float32(row["token_advantage"][i]).item() for i in used]
    found: dict[str, float] = {
        "tokens": len(row["loss_mask"]),
        "loss_tokens": len(used),
        "logged": 1,
        "last_token": row["token_ids"][-1] if row["token_ids"] else -1,
        "log_ratio": math.fsum(math.log(x) for x in rho),
        "log_ratio_square": math.fsum(math.log(x) ** 2 for x in rho),
        "log_ratio_max": max((abs(math.log(x)) for x in rho), default=0.0),
        "ratio": math.fsum(rho),
        "ratio_square": math.fsum(x * x for x in rho),
        "mismatch": math.fsum(abs(x) for x in gap),
        "sampler_gap": math.fsum(gap),
        "sampler_gap_square": math.fsum(x * x for x in gap),
        "sampler_gap_max": max((abs(x) for x in gap), default=0.0),
        "sampler_ratio": math.fsum(math.exp(x) for x in gap),
        "sampler_ratio_square": math.fsum(math.exp(2 * x) for x in gap),
        "old_square": math.fsum(x * x for x in log["old"]),
        "sampler_square": math.fsum(x * x for x in log["sampler"]),
        "old_times_sampler": math.fsum(a * b for a, b in zip(log["old"], log["sampler"], strict=True)),
        "entropy": math.fsum(np.float32(row["entropy"][i]).item() for i in used),
        "token_advantage": math.fsum(advantage) / len(used) if used else 0.0,
    }
    for policy in policies:
        found[f"logp_{policy}"] = math.fsum(log[policy])
        if policy == "ref":
            continue
        d = [a - b for a, b in zip(log[policy], log["ref"], strict=True)]
        forms = {
            "k1": d,
            "k2": [x * x / 2 for x in d],
            "k3": [math.exp(-x) - 1 + x for x in d],
            "abs": [abs(x) for x in d],
        }
        for form, values in forms.items():
            found[f"kl_{policy}_ref_{form}"] = math.fsum(values)
            if policy == "theta" and form != "abs":
                corrected = math.fsum(r * k for r, k in zip(rho, values, strict=True))
                found[f"kl_theta_ref_{form}_corrected"] = corrected
    return found


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
@pytest.mark.parametrize("chunk", [1, 7, 100, 10**6])
def test_every_fact_is_what_a_loop_gives(tmp_path, monkeypatch, chunk: int, device: str) -> None:
    monkeypatch.setattr(token_pass, "CHUNK_TOKENS", chunk)
    data = masked_rollouts()
    facts = facts_of(write(tmp_path / "run", data), device=device)
    for i, row in enumerate(data):
        expected = loop(row)
        assert expected.keys() == facts.keys() - {"text_key"}
        for name, value in expected.items():
            assert facts[name][i] == pytest.approx(value, rel=1e-9, abs=1e-12), name


def test_equal_bytes_whatever_is_read_and_summed_at_a_time(tmp_path, monkeypatch) -> None:
    from audit.logs import RolloutWriter, open_run

    data = masked_rollouts(steps=4)
    with RolloutWriter(tmp_path / "run", max_tokens_per_group=97) as writer:
        writer.write(data)
    run = open_run(tmp_path / "run")
    whole = facts_of(run)
    monkeypatch.setattr(token_pass, "READ_TOKENS", 50)
    monkeypatch.setattr(token_pass, "CHUNK_TOKENS", 64)
    monkeypatch.setattr("audit.facts.engines.local.UNIT_TOKENS", 1)
    pieces = facts_of(run)
    for name in PLAIN:
        assert whole[name].tobytes() == pieces[name].tobytes(), name


def test_what_was_not_logged_is_nan(tmp_path) -> None:
    data = masked_rollouts(steps=1)
    for row in data:
        del row["logp_sampler"], row["entropy"]
    facts = facts_of(write(tmp_path / "run", data))
    for name in ("mismatch", "kl_sampler_ref_k1", "logp_sampler", "entropy"):
        assert np.isnan(facts[name]).all(), name
    assert np.isfinite(facts["kl_theta_ref_k3_corrected"]).all()


def test_a_log_with_lengths_only_has_tokens_without_values(tmp_path) -> None:
    data = rollouts(steps=1, epochs=1)
    keep = ("step", "prompt_id", "group_id", "sample_index", "reward", "length")
    facts = facts_of(write(tmp_path / "run", [{k: row[k] for k in keep} for row in data]))
    assert facts["tokens"].tolist() == [row["length"] for row in data] == facts["loss_tokens"].tolist()
    assert np.isnan(facts["log_ratio"]).all()


def test_lengths_in_characters_are_no_tokens(tmp_path) -> None:
    keep = ("step", "prompt_id", "group_id", "sample_index", "reward", "length")
    data = [{k: row[k] for k in keep} for row in rollouts(steps=1, epochs=1)]
    run = write(tmp_path / "run", data, length_unit="characters")
    assert RunRows.read(run).facts is None
    [(_, table)] = compute(run.parts, ["logged", "tokens"], in_tokens=False)
    assert table["logged"].to_pylist() == [0] * len(data) == table["tokens"].to_pylist()


def test_a_null_list_is_not_logged_and_an_empty_one_is_an_empty_response(tmp_path) -> None:
    data = rollouts(steps=1, epochs=1)
    data[2]["logp_ref"] = None
    for name in ("token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref"):
        data[4][name] = []
    data[4]["length"] = 0
    for device in ("cpu", "torch-cpu"):
        facts = facts_of(write(tmp_path / device, data), device=device)
        assert facts["tokens"][4] == 0 == facts["kl_theta_ref_k3"][4] == facts["log_ratio_max"][4]
        assert np.isnan(facts["kl_theta_ref_k3"][2])
        assert np.isfinite(facts["log_ratio"][2])
        assert facts["logged"].all()


def test_token_lists_of_unequal_length_are_refused_by_file_and_row(tmp_path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from audit.logs import open_run

    run = write(tmp_path / "run", rollouts(steps=1, epochs=1))
    path = run.files[0].path
    table = pq.read_table(path)
    lists = table["logp_old"].to_pylist()
    lists[5] = [*lists[5], -1.0]
    table = table.set_column(table.column_names.index("logp_old"), "logp_old", pa.array(lists))
    pq.write_table(table, path)
    with pytest.raises(BadLog, match=rf"{path.name}, row 5: logp_old has \d+ tokens"):
        facts_of(open_run(tmp_path / "run"))


def test_equal_texts_have_equal_keys_and_others_do_not(tmp_path) -> None:
    data = rollouts(steps=6, longest=4)
    for row in data[:3]:
        row["token_ids"] = None
    facts = facts_of(write(tmp_path / "run", data), ("text_key",))
    by_text: dict[tuple[int, ...], int] = {}
    for row, key in zip(data[3:], facts["text_key"][3:], strict=True):
        assert by_text.setdefault(tuple(row["token_ids"]), key) == key != 0
    assert len(set(by_text.values())) == len(by_text) > 50
    assert facts["text_key"][:3].tolist() == [0, 0, 0]


def test_an_unknown_fact_is_refused_with_the_closest_name(tmp_path) -> None:
    run = write(tmp_path / "run", rollouts(steps=1, epochs=1))
    with pytest.raises(UnknownName, match="kl_theta_ref_k3"):
        list(compute(run.parts, ["kl_theta_ref_k33"]))
