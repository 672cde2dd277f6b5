"""The audit made of a framework's own functions, in a process of the environment that holds them.

``.venv-conformance/bin/python -m bench.framework_audit RUN verl`` prints one line of JSON: seconds of each
phase, seconds of CPU without imports and, for every objective, the sum of |w| over all tokens.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any


def main() -> None:
    """Read the log once, pad it once, and take the gradient of one loss after another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("framework", choices=["verl", "trl"])
    parser.add_argument("--by-length", action="store_true", help="sort responses by length to limit padding")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("LOGURU_LEVEL", "ERROR")
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    began = time.perf_counter()
    import torch

    torch.set_num_threads(asked.threads)
    library = importlib.import_module(f"bench.{asked.framework}_losses")
    getattr(library, asked.framework)()
    seconds, spent = {"import": time.perf_counter() - began}, time.process_time()
    found = audit(asked.run, library, seconds, by_length=asked.by_length)
    print(json.dumps({"seconds": seconds, "cpu": time.process_time() - spent, "sums": found}))


def audit(run: Path, library: Any, seconds: dict[str, float], *, by_length: bool) -> dict[str, float]:
    """Weights of every token under every objective; per response Σw, Σ|w|, Σw² and the tokens without weight.

    Returns
    -------
    dict
        Σ|w| over the whole log, by objective.
    """
    from bench.padded import updates

    totals: dict[str, float] = {}
    clock = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        seconds[name] = seconds.get(name, 0.0) + now - clock
        clock = now

    for update in updates(run, by_length=by_length):
        lap("read and pad")
        losses = library.losses(update)
        lap("advantages")
        for part in update.slices:
            for name, loss in losses.items():
                theta = part.theta.clone().requires_grad_(True)
                loss(part, theta).backward()
                weight = -theta.grad
                sums = (weight.sum(1), weight.abs().sum(1), weight.square().sum(1), (weight == 0).sum(1))
                totals[name] = totals.get(name, 0.0) + float(sums[1].sum())
                lap(name)
            library.kl_sums(part)
            lap("k1, k2, k3")
            other_sums(part)
            lap("corrected KL, mismatch")
    return totals


def other_sums(part: Any) -> None:
    """What no loss function gives: corrected KL estimates, mismatch of the sampler; sums per response."""
    d, g = part.theta - part.ref, part.old - part.sampler
    rho, back, weight = (part.theta - part.old).exp(), (-d).exp(), g.exp()
    corrected = (rho * d, rho * d.square() / 2, rho * (back - 1 + d))
    for values in (*corrected, g, g.abs(), g.square(), weight, weight.square()):
        (values * part.mask).sum(1)
    (g.abs() * part.mask).amax(1)


if __name__ == "__main__":
    main()
