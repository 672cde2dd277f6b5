"""Two processes, one run: groups and micro-batches span both, and the weights are still TRL's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import torch
from trl_truth import Row, errors, read_rows, written_weights

pytestmark = pytest.mark.trl

OPTIONS: dict[str, Any] = {
    "loss_type": "dapo",
    "beta": 0.04,
    "num_iterations": 2,
    "steps_per_generation": 4,
    "per_device_train_batch_size": 4,
    "num_generations": 16,
    "max_steps": 4,
    "learning_rate": 1e-3,
}
PROCESSES = ACCUMULATION = 2


def test_rows_of_two_processes_reproduce_the_gradient(start: Path, tmp_path: Path) -> None:
    worker = Path(__file__).with_name("ddp_worker.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={PROCESSES}"]
    command += [str(worker), str(start), str(tmp_path), json.dumps(OPTIONS)]
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parents[1] / "sample_logs")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]

    rows = read_rows(tmp_path / "run")
    micro_batches: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        micro_batches[row["update"], row["micro_batch"]].append(row)
    assert {place: len(block) for place, block in micro_batches.items()} == {
        (update, place): 4 for update in (1, 2, 3, 4) for place in range(PROCESSES * ACCUMULATION)
    }
    groups = Counter((row["group_id"], row["epoch"]) for row in rows)
    assert set(groups.values()) == {16}
    assert len({row["group_id"] for row in rows}) == 2

    for process in range(PROCESSES):
        own = [block for place, block in sorted(micro_batches.items()) if place[1] // ACCUMULATION == process]
        gradients = torch.load(tmp_path / f"truth-{process}.pt", weights_only=True)
        for block, weights in zip(own, gradients, strict=True):
            for row, weight in zip(block, weights, strict=True):
                # Data parallelism averages the gradients of the processes.
                row["truth"] = (weight[: row["length"]] / PROCESSES).tolist()
    found = errors(rows, written_weights(rows, tmp_path / "run"))
    assert found["moved"] > 200
    assert found["zeros"] == 0.0
    assert found["token"] < 1e-8
