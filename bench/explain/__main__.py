"""``python -m bench.explain``: inject causes, ask for verdicts, write docs/explain-benchmark.md."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from bench.explain import held_out, page, toy_cases, trl_cases
from bench.explain.case import Case
from bench.explain.judge import Judgement, judge


@dataclass(frozen=True)
class Plan:
    """What one run of the benchmark asks."""

    seeds: int = 4
    """Pairs of the toy language per cause."""
    null_seeds: int = 10
    """And per objective that differs in nothing."""
    sources: tuple[str, ...] = ("toy", "trl")
    only: str = ""
    """Part of a cause id, or ``null``."""
    held_out: bool = False
    """The cases of :mod:`bench.explain.held_out` in place of the usual ones."""

    def cases(self) -> Iterator[tuple[Case, int]]:
        """Cases, and how many pairs of each."""
        if self.held_out:
            for case in (*held_out.held_out_cases(), *held_out.held_out_nulls()):
                if case.source in self.sources:
                    yield case, self.seeds if case.cause else self.null_seeds
            return
        if "toy" in self.sources:
            for case in (*toy_cases.objective_cases(), *toy_cases.other_cases()):
                yield case, self.seeds
            for case in toy_cases.null_cases():
                yield case, self.null_seeds
        if "trl" in self.sources:
            for case in (*trl_cases.trained_cases(), *trl_cases.edited_cases()):
                yield case, trl_cases.PAIRS
            for case in trl_cases.null_cases():
                yield case, len(trl_cases.NULL_PAIRS)


def judgements(plan: Plan) -> Iterator[Judgement]:
    """Make every pair, declared and blind, and judge its verdict."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for case, count in plan.cases():
            if plan.only in (case.cause or "null"):
                first = held_out.FIRST_SEED if plan.held_out and case.source == "toy" else 0
                for blind in (False, True):
                    yield from judge(case, range(first, first + count), Path(folder), blind=blind)


def main() -> None:
    """Print every pair that is not told rightly as it comes, and the tables at the end."""
    parser = argparse.ArgumentParser(prog="python -m bench.explain", description=__doc__)
    parser.add_argument("--seeds", type=int, default=Plan.seeds, help="pairs of the toy language per cause")
    parser.add_argument("--null-seeds", type=int, default=Plan.null_seeds, help="null pairs per objective")
    parser.add_argument("--source", choices=["toy", "trl"], help="only this kind of runs")
    parser.add_argument("--only", default="", help="part of a cause id, or null")
    parser.add_argument("--no-page", action="store_true", help="print only")
    parser.add_argument("--held-out", action="store_true", help="cases that explain was not improved on")
    parser.add_argument("--again", action="store_true", help="write the page from the pairs judged last")
    asked = parser.parse_args()
    if asked.again:
        print(page.write(page.kept()))
        return
    sources = (asked.source,) if asked.source else Plan.sources
    plan = Plan(asked.seeds, asked.null_seeds, sources, asked.only, asked.held_out)
    began, found = time.perf_counter(), []
    whole = not (asked.no_page or asked.only or asked.source)
    for judgement in judgements(plan):
        found.append(judgement)
        if whole and not plan.held_out:
            page.keep(found)
        if judgement.outcome != "right":
            print(_line(judgement), flush=True)
    print(page.markdown(found))
    print(f"{len(found)} pairs in {time.perf_counter() - began:.0f} s")
    if whole:
        (page.write_held_out if plan.held_out else page.write)(found)


def _line(judgement: Judgement) -> str:
    mode = "blind" if judgement.blind else "declared"
    told = judgement.error or ", ".join(judgement.named) or "nothing"
    return f"{judgement.source} {judgement.cause} ({judgement.variant}) {mode} {judgement.seed}: {told}"


if __name__ == "__main__":
    main()
