"""A run that is killed: ``killed_worker.py START DIRECTORY PLACE``, PLACE is ``step`` or ``write``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import tiny
import torch

from audit.logs import writer
from audit.recorders.trl import record


def kill() -> None:
    """End this process as the kernel does when memory runs out: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(start: Path, directory: Path, place: str) -> None:
    """Train and record; die in update 7, or while the second file is being finished."""
    torch.set_num_threads(1)
    trainer = tiny.build_trainer(start, directory / "output", max_steps=9)
    with record(trainer, directory / "run", flush_steps=4):
        if place == "step":
            compute, calls = trainer._compute_loss, 0

            def dying(*args: Any, **kwargs: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == 14:  # the second micro-batch of update 7
                    kill()
                return compute(*args, **kwargs)

            trainer._compute_loss = dying
        else:
            sync = writer.sync

            def dying_sync(path: Path) -> None:
                if path.suffix == ".tmp" and trainer.state.global_step > 4:
                    kill()
                sync(path)

            writer.sync = dying_sync
        trainer.train()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
