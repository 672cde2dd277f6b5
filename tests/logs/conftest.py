"""A run of many files of several kinds, and a count of the files that Parquet opens."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from log_samples import FILES, LISTS, columns, old, write

from audit.logs import parquet_part


@pytest.fixture
def own_cache(monkeypatch, tmp_path_factory):
    """The default place for what is remembered, whatever the environment says."""
    monkeypatch.delenv("RLAUDIT_CACHE", raising=False)
    monkeypatch.setenv("RLAUDIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def opened(monkeypatch):
    """Count how often each file is opened by Parquet."""
    seen: Counter[str] = Counter()
    real = parquet_part.open_parquet

    def counted(path):
        seen[path.name] += 1
        return real(path)

    monkeypatch.setattr(parquet_part, "open_parquet", counted)
    return seen


@pytest.fixture
def many(tmp_path):
    """A run of some kinds of files: other columns, other types, nulls, empty lists, strangers."""
    for step in range(FILES):
        table = columns(step, logp_old=pa.array([[-0.5], [-1.0]], LISTS))
        if step % 4 == 1:
            table |= {"reward": [1, 0], "own": ["x", "y"]}
        if step % 4 == 2:
            table |= {"value": pa.array([None, None], LISTS), "entropy": pa.array([[], None], LISTS)}
        if step % 4 == 3:
            table |= {"finish_reason": pa.array(["stop", None]).dictionary_encode(), "correct": pa.nulls(2)}
        old(write(tmp_path / "run" / "rollouts" / f"step{step}.parquet", table))
    old(write(tmp_path / "run" / "rollouts" / "prompts.parquet", {"prompt_id": ["p"]}))
    return tmp_path / "run"
