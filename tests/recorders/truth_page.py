"""Write docs/trl-gradient.md: run with ``make truth``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "sample_logs"), str(Path(__file__).parent)]

import tiny  # noqa: E402
import torch  # noqa: E402
import trl  # noqa: E402
from test_truth_trl import CASES  # noqa: E402
from trl_truth import declared_weights, errors, run_case, written_weights  # noqa: E402

HEAD = """# `rlaudit weights` against TRL's own gradient

Each case trains TRL {version} for real, several optimiser steps on a tiny model, records the run, and
compares the weight that `rlaudit weights` gives to every token with the gradient of TRL's own loss with
respect to that token's log-prob (a hook on the log-probs that enter the loss, so every factor that trainer,
transformers and accelerate apply is in it). Made by `make truth`; `tests/recorders/test_truth_trl.py` holds
the bounds.

- *scaled*: the largest error of a token over the largest weight of its response; *token*: the largest
  relative error of a single token.
- *float64*: TRL's loss computed in float64 from its own float32 log-probs, so that the formula itself is
  compared. *as it is*: TRL unmodified, whose float32 loses digits on weights near 0 (1 - exp(-d) cancels).
- *applied*: on the advantages that TRL logged. *from rewards*: recomputed from the rewards in float64.

"""
COLUMNS = ("case", "tokens with weight", "float64, applied: scaled", "token", "float64, from rewards: scaled")
COLUMNS += ("token", "as it is, applied: scaled", "token")


def main() -> None:
    """Run every case twice and write the table."""
    torch.set_num_threads(1)
    page = HEAD.format(version=trl.__version__)
    page += f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"
    with tempfile.TemporaryDirectory() as folder:
        start = tiny.save_start(Path(folder) / "start")
        for number, (name, options) in enumerate(CASES.items()):
            cells: list[str] = []
            tokens = 0
            for double in (True, False):
                place = Path(folder) / f"{number}-{double}"
                rows = run_case(start, place, double=double, **options)
                found = [errors(rows, written_weights(rows, place / "run"))]
                if double:
                    found.append(errors(rows, declared_weights(rows, place / "run")))
                    tokens = int(found[0]["moved"])
                cells += [
                    f"{each[kind]:.0e}" if each[kind] else "0"
                    for each in found
                    for kind in ("scaled", "token")
                ]
            page += f"| {name} | {tokens:,} | {' | '.join(cells)} |\n"
    (ROOT / "docs" / "trl-gradient.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
