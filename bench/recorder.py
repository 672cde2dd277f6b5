"""What the TRL recorder costs a training step: the same training with and without it, in turns."""

from __future__ import annotations

import gc
import json
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from bench.page import Section
from bench.process import python, run
from bench.settings import Settings
from bench.sizes import ROOT
from bench.timing import Spread, over

STEPS, QUICK_STEPS = 40, 8
COLUMNS = (
    "training",
    "CPU a step, without",
    "CPU a step, with",
    "CPU: with / without",
    "wall: with / without",
    "time in the recorder's own code",
)
RUNS: dict[str, dict[str, Any]] = {
    "GRPO, beta 0.04, two passes (`sample_logs/make.py`)": {"loss_type": "grpo", "beta": 0.04},
    "RLOO, beta 0.05, two passes": {"algorithm": "rloo", "beta": 0.05},
}


def measure(settings: Settings) -> Section:
    """Train in one process, with and without the recorder in turns."""
    section = Section(
        "What recording costs",
        COLUMNS,
        intro=(
            "TRL 1.16 on the model of the sample runs (80,000 parameters, 64 responses a step, one "
            "torch thread): hardly a step is shorter, so hardly one on which recording weighs more. Runs of "
            "{steps} optimiser steps in one process, with and without the recorder in turns; closing it, "
            "which writes its last file, is part of it. Ratios are of neighbours. The last column is CPU "
            "time inside the recorder's hooks over that of the run without it: it has less noise, and leaves "
            "out what hooks cost around them."
        ),
    )
    steps = QUICK_STEPS if settings.quick else STEPS
    section.intro = section.intro.format(steps=steps)
    pairs = max(5, settings.repeats)
    for number, title in enumerate(RUNS):
        told = run(python("-m", "bench.recorder", str(number), str(steps), str(pairs)))
        found = json.loads(told.output.splitlines()[-1])
        cpu = [[pair[0] / steps * 1e3 for pair in found[which]] for which in ("without", "with")]
        wall = [[pair[1] for pair in found[which]] for which in ("without", "with")]
        own = Spread.of(o / w[0] * 100 for o, w in zip(found["own"], found["without"], strict=True))
        section.rows.append(
            [
                title,
                Spread.of(cpu[0]).text("ms"),
                Spread.of(cpu[1]).text("ms"),
                over(cpu[1], cpu[0]).text(""),
                over(wall[1], wall[0]).text(""),
                own.text("%", 2),
            ]
        )
    section.notes += [
        f"n = {pairs} pairs each; medians (smallest–largest).",
        "The last column is a lower bound. The ratios hold everything, and equal runs on a busy machine "
        "differ by as much as the second column says.",
    ]
    return section


def train(number: int, steps: int, pairs: int) -> dict[str, Any]:
    """Return CPU and wall seconds of every run, and CPU seconds in the recorder's own code."""
    import tiny
    import torch
    from transformers import PrinterCallback

    from audit.recorders import trl

    torch.set_num_threads(1)
    options = {"num_iterations": 2, "per_device_train_batch_size": 32, "reward_weights": [1.0, 0.0]}
    spent = _timed(trl.Recorder)

    def once(folder: Path, name: str, *, recorded: bool, count: int) -> tuple[float, float]:
        trainer = tiny.build_trainer(
            start,
            folder / name,
            max_steps=count,
            rewards=(tiny.exact_answer, tiny.one_mark),
            **options,
            **list(RUNS.values())[number],
        )
        trainer.remove_callback(PrinterCallback)
        recorder = trl.record(trainer, folder / f"{name}-run") if recorded else None
        gc.collect()
        spent[0] = 0.0
        begun = time.process_time(), time.perf_counter()
        trainer.train()
        if recorder is not None:
            recorder.close()
            assert recorder.failure is None
        return time.process_time() - begun[0], time.perf_counter() - begun[1]

    found: dict[str, Any] = {"without": [], "with": [], "own": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        start = tiny.save_start(folder)
        for recorded in (False, True):
            once(folder, f"warm-{recorded}", recorded=recorded, count=4)
        for pair in range(pairs):
            for recorded in (False, True) if pair % 2 else (True, False):
                took = once(folder, f"{pair}-{recorded}", recorded=recorded, count=steps)
                found["with" if recorded else "without"].append(took)
                if recorded:
                    found["own"].append(spent[0])
    return found


def _timed(recorder: Any) -> list[float]:
    """Count the CPU time of everything that a recorder does, in a list of one number."""
    spent = [0.0]

    def timed(method: Any) -> Any:
        def measured(*args: Any, **kwargs: Any) -> Any:
            begun = time.thread_time()
            try:
                return method(*args, **kwargs)
            finally:
                spent[0] += time.thread_time() - begun

        return measured

    recorder._guard = timed(recorder._guard)
    return spent


def main() -> None:
    """Measure one training, for the section; prints JSON."""
    warnings.filterwarnings("ignore")
    sys.path.insert(0, str(ROOT / "sample_logs"))
    number, steps, pairs = map(int, sys.argv[1:4])
    found = train(number, steps, pairs)
    share = statistics.median(o / w[0] for o, w in zip(found["own"], found["without"], strict=True))
    print(f"own share {share:.4f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
