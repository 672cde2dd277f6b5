"""Makes run-offline.wandb with W&B itself (0.31), without a network: ``pip install wandb``, then run this."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Log four times, of which the last skips steps."""
    import wandb

    folder = tempfile.mkdtemp()
    settings = wandb.Settings(x_disable_stats=True, x_disable_meta=True, console="off", mode="offline")
    run = wandb.init(project="p", dir=folder, config={"num_generations": 4, "beta": 0.25}, settings=settings)
    for step in range(3):
        entry = {"train/global_step": step * 10 + 10, "train/loss": 0.5 + step, "nested": {"a": step}}
        run.log({**entry, "name": "text"})
    run.log({"train/global_step": 40, "nan": float("nan"), "big": 1e300}, step=7)
    run.finish()
    (made,) = Path(folder).glob("wandb/offline-run-*/run-*.wandb")
    shutil.copy(made, HERE / "run-offline.wandb")


if __name__ == "__main__":
    main()
