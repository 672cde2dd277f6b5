"""What the benchmarks call exists and does what they take it to do."""

from __future__ import annotations

from pathlib import Path

from audit.logs import open_run
from bench.gpu import DecodedPart, largest_difference
from bench.logs import make
from bench.settings import CACHE, Settings
from bench.sizes import Size


def test_cold_audit_computes_and_a_second_does_not(tmp_path: Path) -> None:
    log = make(Size(50_000, 2), tmp_path)
    Settings().cold_audit(log)
    assert (log / CACHE).is_dir()
    assert "0 computed" in Settings().audit(log).output
    assert "2 computed" in Settings().cold_audit(log).output


def test_difference_between_devices(tmp_path: Path) -> None:
    parts = [DecodedPart(part) for part in open_run(make(Size(50_000, 2), tmp_path)).parts]
    assert sum(part.log_prob_bytes for part in parts) % 16 == 0
    assert largest_difference(parts, "cpu") == 0
    assert largest_difference(parts, "torch-cpu") < 1e-9
