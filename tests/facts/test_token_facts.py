"""Sums per response against a plain loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.errors import BadLog, MissingColumn
from audit.facts.token_facts import token_facts
from audit.facts.tokens import to_tokens, token_batches
from audit.logs import open_run


def loop(row: dict) -> dict[str, float]:
    theta, old, ref = ([np.float32(x).item() for x in row[f"logp_{k}"]] for k in ("theta", "old", "ref"))
    used = [i for i, m in enumerate(row["loss_mask"]) if m]
    d_old = [old[i] - ref[i] for i in used]
    d = [theta[i] - ref[i] for i in used]
    ratio = [theta[i] - old[i] for i in used]
    return {
        "tokens": len(theta),
        "loss_tokens": len(used),
        "log_ratio": math.fsum(ratio),
        "log_ratio_max": max((abs(x) for x in ratio), default=0.0),
        "kl_old_ref_k1": math.fsum(d_old),
        "kl_old_ref_k2": math.fsum(x * x / 2 for x in d_old),
        "kl_old_ref_k3": math.fsum(math.exp(-x) - 1 + x for x in d_old),
        "kl_old_ref_abs": math.fsum(abs(x) for x in d_old),
        "kl_theta_ref_k1": math.fsum(d),
        "kl_theta_ref_k2": math.fsum(x * x / 2 for x in d),
        "kl_theta_ref_k3": math.fsum(math.exp(-x) - 1 + x for x in d),
    }


@pytest.mark.parametrize("max_tokens", [7, 100, 10**6])
def test_sums_match_a_loop_whatever_the_batch_size(tmp_path, max_tokens: int) -> None:
    data = rollouts(steps=3)
    for k, row in enumerate(data):
        row["loss_mask"] = [(k + i) % 3 > 0 for i in range(row["length"])]
        # What a trainer leaves at masked tokens must not matter.
        row["logp_theta"] = [
            x if m else math.nan for x, m in zip(row["logp_theta"], row["loss_mask"], strict=True)
        ]
    facts = token_facts(write(tmp_path / "run", data), max_tokens=max_tokens)
    for i, row in enumerate(data):
        for name, value in loop(row).items():
            assert getattr(facts, name)[i].item() == pytest.approx(value, rel=1e-9, abs=1e-12), name
    assert facts.mismatch.isnan().all()
    assert facts.kl_sampler_ref_k1.isnan().all()


def test_a_log_with_lengths_only_has_tokens_without_values(tmp_path) -> None:
    data = rollouts(steps=1, epochs=1)
    keep = ("step", "prompt_id", "group_id", "sample_index", "reward", "length")
    run = write(tmp_path / "run", [{k: row[k] for k in keep} for row in data])
    facts = token_facts(run)
    assert facts.tokens.tolist() == [row["length"] for row in data] == facts.loss_tokens.tolist()


def test_lengths_in_characters_are_no_tokens(tmp_path) -> None:
    keep = ("step", "prompt_id", "group_id", "sample_index", "reward", "length")
    data = [{k: row[k] for k in keep} for row in rollouts(steps=1, epochs=1)]
    run = write(tmp_path / "run", data, length_unit="characters")
    with pytest.raises(MissingColumn, match="token_ids"):
        token_facts(run)


def test_a_null_list_is_not_logged_and_an_empty_one_is_an_empty_response(tmp_path) -> None:
    data = rollouts(steps=1, epochs=1)
    data[2]["logp_ref"] = None
    for name in ("token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref"):
        data[4][name] = []
    data[4]["length"] = 0
    facts = token_facts(write(tmp_path / "run", data))
    assert facts.tokens[4] == 0
    assert facts.kl_theta_ref_k3[4] == 0.0
    assert facts.kl_theta_ref_k3[2].isnan()
    assert facts.log_ratio[2].isfinite()


def test_token_lists_of_unequal_length_are_refused_by_row(tmp_path) -> None:
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({"logp_theta": [[-1.0], [-1.0, -2.0]], "logp_old": [[-1.0], [-1.0]]})
    with pytest.raises(BadLog, match=r"row 11: logp_old has 1 tokens, another token list 2"):
        to_tokens(batch, ["logp_theta", "logp_old"], first_row=10)


def test_an_empty_log_has_no_facts(tmp_path) -> None:
    import pyarrow.parquet as pq

    write(tmp_path / "run", rollouts(steps=1, epochs=1))
    file = next((tmp_path / "run").rglob("*.parquet"))
    table = pq.read_table(file)
    pq.write_table(table.slice(0, 0), file)
    run = open_run(tmp_path / "run")
    assert run.num_rows == 0
    with pytest.raises(MissingColumn):
        list(token_batches(run))
