"""docs/explain-benchmark.md, written from judgements."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from bench.explain import tables
from bench.explain.judge import Judgement
from bench.page import machine
from bench.sizes import FOLDER, ROOT

PAGE = ROOT / "docs" / "explain-benchmark.md"
HELD_OUT = ROOT / "docs" / "explain-held-out.md"
KEPT = FOLDER / "explain.json"
HELD_OUT_HEAD = """# `rlaudit explain` on causes that it was not improved on

Written by `python -m bench.explain --held-out`. The cases of [the benchmark](explain-benchmark.md) guided the
work on `explain`, so that they say how well it does what it was made for. These came afterwards: other sizes
of the causes, another language (12 prompts, 3 letters, groups of 6), DAPO and RLOO in place of GRPO, other
seeds; and edits of other sizes in the TRL runs. Declared, blind and right mean what they mean there.
"""
HEAD = """# How often `rlaudit explain` names the right cause

Written by `make bench-explain`. Every pair of runs has one injected cause, or none. A and B never share a
seed, so that a pair also differs as two runs of one configuration do.

- *Toy language*: runs of `rlaudit testbed`'s language (20 prompts, groups of 8, 12 batches, two optimiser
  steps on each), trained otherwise or with the written log edited. *TRL*: a tiny Llama trained with TRL 1.16
  on sums, 40 optimiser steps; every pair is against one of the same four base runs: not independent.
- *Declared*: run.json as the trainer's recorder wrote it. Errors are not declared: a sampler's noise or lag,
  a reward, mask or log that was changed, other weights under one name. *Blind*: run.json holds a run id only.
- Right: the first cause is the injected one. A pair without any cause named counts as not right, unless
  nothing was injected. Where a blind log does not hold the cause, the right answer is to name none and to say
  which column or metric would show it.
- Shares have their 95 % interval (Wilson) and the count of pairs.
- One cause alone: `python -m bench.explain --source toy --only data. --no-page`.
"""


def markdown(found: Sequence[Judgement], head: str = HEAD) -> str:
    """The page."""
    parts = [
        head,
        f"Measured {dt.date.today().isoformat()}, {machine()}.\n",
        tables.summary(found).markdown(),
    ]
    for source in tables.SOURCES:
        section = tables.by_cause(found, source)
        parts += [section.markdown()] if section.rows else []
    for table in (tables.nulls, tables.calibration, tables.not_tried):
        parts.append(table(found).markdown())
    return "\n".join(parts)


def keep(found: Sequence[Judgement]) -> None:
    """Keep the judgements, so that the page can be written again."""
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_bytes(msgspec.json.encode(list(found)))


def kept() -> list[Judgement]:
    """The judgements made last."""
    return msgspec.json.decode(KEPT.read_bytes(), type=list[Judgement])


def write(found: Sequence[Judgement]) -> str:
    """Write the page and return it."""
    text = markdown(found)
    PAGE.write_text(text, encoding="utf-8")
    return text


def write_held_out(found: Sequence[Judgement]) -> str:
    """Write the page of the held-out cases and return it."""
    text = markdown(found, HELD_OUT_HEAD)
    HELD_OUT.write_text(text, encoding="utf-8")
    return text
