"""Length bias that is kept: the same as measured anew, and without a look at tokens."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

import audit
from audit.analyses import length_catalogue
from audit.analyses.fitted import own_objective
from audit.analyses.length import length_bias
from audit.facts import token_walk
from audit.facts.rows import RunRows

SAMPLES = Path(__file__).parents[2] / "sample_logs"


@pytest.mark.parametrize("log", ["team/grpo-seed1", "trl_completions"])
def test_it_is_what_is_measured_and_the_second_time_reads_no_token(log, tmp_path, monkeypatch) -> None:
    place = tmp_path / "log"
    shutil.copytree(SAMPLES / log, place, ignore=shutil.ignore_patterns(".rlaudit"))
    monkeypatch.setenv("RLAUDIT_CACHE_DIR", str(tmp_path / "cache"))
    for file in place.rglob("*"):
        os.utime(file, (time.time() - 60,) * 2)
    first = audit.length_bias(place)
    rows = RunRows.read(audit.open_run(place))
    assert first == length_bias(rows, *own_objective(rows))

    def read(*_: object, **__: object) -> None:
        pytest.fail("tokens were read")

    monkeypatch.setattr(token_walk, "walk_tokens", read)
    monkeypatch.setattr(length_catalogue, "token_sums", read)
    monkeypatch.setattr(length_catalogue, "step_sample", read)
    assert audit.length_bias(place) == first
    if log == "trl_completions":  # it has no tokens
        return
    with pytest.raises(pytest.fail.Exception, match="tokens were read"):
        audit.length_bias(place, "grpo")
