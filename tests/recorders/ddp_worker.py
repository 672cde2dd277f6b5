"""One process of a two-process run: ``ddp_worker.py START DIRECTORY OPTIONS`` (OPTIONS is JSON)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import tiny
import torch
from trl_truth import GradientTap

from audit.recorders.trl import record


def main(start: Path, directory: Path, options: str) -> None:
    """Train and record; leave this process's gradients beside the run."""
    torch.set_num_threads(1)
    trainer = tiny.build_trainer(start, directory / "output", ddp_backend="gloo", **json.loads(options))
    tap = GradientTap(trainer, double=True)
    with record(trainer, directory / "run") as recorder:
        trainer.train()
    if recorder.failure is not None:
        raise recorder.failure
    torch.save(tap.weights, directory / f"truth-{trainer.accelerator.process_index}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
