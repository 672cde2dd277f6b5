"""How often ``rlaudit length`` is right about runs whose objective is known.

``python -m bench.length_calibration [OBJECTIVE …]``: every run is trained on the testbed, written as a log,
opened, and judged by ``length_bias``. Objectives with a mean per response are biased, those whose divisor the
responses of a group share are not. Two kinds of log: as recorded, and without the column ``epoch``, so that
responses of later inner passes, whose ratios are not 1, are taken for fresh ones and the slope is not exact.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import torch

from audit.analyses.length import LengthBias, length_bias
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.logs import open_run
from audit.objectives.catalogue import named
from audit.testbed.language import Language
from audit.testbed.recording import write_runs
from audit.testbed.training import Setup
from bench.page import Section
from bench.settings import Settings

BIASED = ("grpo", "gspo", "gmpo", "sapo", "grpo_two_sided", "pass_at_k")
UNBIASED = ("dr_grpo", "dr_grpo_sum", "rloo", "reinforce", "dapo", "cispo", "luspo", "maxrl")


@dataclass
class Count:
    """Verdicts on the runs of one objective."""

    biased: int = 0
    not_biased: int = 0
    cannot_tell: int = 0
    pushed: int = 0
    """Runs whose pressure excludes 0 in the direction of a mean per response, on both sides."""
    runs: int = 0

    def add(self, found: LengthBias) -> None:
        """Count one run."""
        self.runs += 1
        self.biased += found.biased is True
        self.not_biased += found.biased is False
        self.cannot_tell += found.biased is None
        correct, wrong = found.pressure.correct, found.pressure.wrong
        self.pushed += (correct.high or 0.0) < 0.0 < (wrong.low or 0.0)


def judged(
    objective: str, seeds: Sequence[int], folder: Path, *, steps: int = 20, epoch: bool = True
) -> Iterator[LengthBias]:
    """Train, write, open and judge one run per seed."""
    torch.set_num_threads(1)
    setup = Setup(objective=named(objective))
    for path in write_runs(folder, Language(), setup, seeds, steps):
        if not epoch:
            for file in (path / "rollouts").glob("*.parquet"):
                pq.write_table(pq.read_table(file).drop_columns(["epoch"]), file)
        rows = RunRows.read(open_run(path))
        yield length_bias(rows, *chosen_objective(rows, None), others=())


def count(objective: str, seeds: Sequence[int], *, steps: int = 20, epoch: bool = True) -> Count:
    """Count the verdicts on one objective."""
    made = Count()
    with tempfile.TemporaryDirectory() as folder:
        for found in judged(objective, seeds, Path(folder), steps=steps, epoch=epoch):
            made.add(found)
    return made


def table(objectives: Sequence[str], seeds: int, steps: int = 20) -> Section:
    """Counts of every objective, on both kinds of log."""
    columns = (
        "objective",
        "truth",
        "log",
        "biased",
        "not biased",
        "cannot tell",
        "pushed both sides",
        "runs",
    )
    section = Section("Verdicts of rlaudit length on runs of known truth", columns=columns)
    for name in objectives:
        truth = "biased" if name in BIASED else "not biased"
        for epoch, log in ((True, "as recorded"), (False, "without epoch")):
            c = count(name, range(seeds), steps=steps, epoch=epoch)
            told = [c.biased, c.not_biased, c.cannot_tell, c.pushed, c.runs]
            section.rows.append([name, truth, log, *map(str, told)])
            print(" | ".join(section.rows[-1]), flush=True)
    return section


def measure(settings: Settings) -> Section:
    """The section of ``python -m bench``."""
    return table((*BIASED, *UNBIASED), seeds=5 if settings.quick else 100)


def main() -> None:
    """Print a line per count as it is made, and the table at the end."""
    parser = argparse.ArgumentParser(prog="python -m bench.length_calibration", description=__doc__)
    parser.add_argument("objective", nargs="*", help="default: all that are known to be biased or not")
    parser.add_argument("--seeds", type=int, default=100, help="runs per objective")
    parser.add_argument("--steps", type=int, default=20, help="batches per run")
    asked = parser.parse_args()
    unknown = set(asked.objective) - {*BIASED, *UNBIASED}
    if unknown:
        parser.error(f"no truth is known of {min(unknown)}; known: {', '.join((*BIASED, *UNBIASED))}")
    print(table(asked.objective or (*BIASED, *UNBIASED), asked.seeds, asked.steps).markdown())


if __name__ == "__main__":
    main()
