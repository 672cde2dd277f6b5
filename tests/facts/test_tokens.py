"""Arrow batches as token tensors."""

from __future__ import annotations

import pytest
from synthetic import rollouts, write

from audit.errors import BadLog, MissingColumn
from audit.facts.tokens import to_tokens, token_batches
from audit.logs import open_run


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
