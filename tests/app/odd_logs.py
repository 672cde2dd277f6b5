"""Logs that hold less than a trainer's, or what no trainer should write: a page must say so and go on."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from builder import GRPO, Row, Rows, healthy, write

KEYS = ("step", "epoch", "update", "prompt_id", "group_id", "sample_index")
LOG_PROBS = ("logp_theta", "logp_old", "logp_ref", "logp_sampler", "entropy")
LISTS = ("token_ids", "loss_mask", *LOG_PROBS)
Change = Callable[[Rows], Rows]


def small(**settings: Any) -> Rows:
    """A sound run of a few rows."""
    return healthy(
        **{"steps": 4, "groups": 3, "size": 4, "prompts": 6, "shortest": 3, "longest": 10, **settings}
    )


def _only(*names: str) -> Change:
    return lambda rows: [{name: row[name] for name in names} for row in rows]


def _without(*names: str) -> Change:
    return lambda rows: [{name: row[name] for name in row if name not in names} for row in rows]


def _each(**new: Any) -> Change:
    """Set columns; a function gets its row."""
    return lambda rows: [
        row | {name: value(row) if callable(value) else value for name, value in new.items()} for row in rows
    ]


def _filled(column: str, value: Any) -> Change:
    return _each(**{column: lambda row: [value] * row["length"]})


def _won(row: Row) -> float:
    return 1.0 if row["correct"] else -1.0


CHANGES: dict[str, Change] = {
    "tier 1": _only("step", "prompt_id", "group_id", "sample_index", "reward"),
    "tier 2": _only("step", "prompt_id", "group_id", "sample_index", "reward", "length", "response"),
    "tier 3": _only(*KEYS, "reward", "length", "token_ids", "advantage"),
    "no old log-probs": _without("logp_old"),
    "no policy log-probs": _without("logp_theta"),
    "no reference": _without("logp_ref"),
    "no sampler": _without("logp_sampler"),
    "no log-probs": _without(*LOG_PROBS),
    "no texts": _without("prompt", "response", "finish_reason"),
    "no components": _without("reward_components", "correct"),
    "null texts": _each(prompt=None, response=None, finish_reason=None, correct=None),
    "null lists": _each(token_ids=None, logp_theta=None, logp_old=None, loss_mask=None),
    "one response": lambda rows: rows[:1],
    "one step": lambda rows: [row for row in rows if row["step"] == 1],
    "one prompt": _each(prompt_id="p", prompt="q"),
    "one group": _each(group_id="g"),
    "groups of one": _each(group_id=lambda row: f"{row['group_id']}/{row['sample_index']}"),
    "greedy alone": _each(is_greedy=True),
    "rewards NaN": _each(reward=math.nan, advantage=math.nan),
    "rewards null": _each(reward=None, advantage=None),
    "rewards infinite": _each(reward=math.inf),
    "rewards of 1e308": _each(reward=lambda row: 1e308 * _won(row), advantage=1e308),
    "rewards of 1e308 alone": _each(reward=lambda row: 1e308 * _won(row)),
    "rewards of 1e-308": _each(reward=lambda row: 1e-308 * _won(row)),
    "advantages of 3e38": _each(advantage=3e38),
    "all right": _each(reward=1.0, advantage=0.0, correct=True),
    "all wrong": _each(reward=0.0, advantage=0.0, correct=False),
    "steps far apart": _each(step=lambda row: 1000 * row["step"]),
    "steps beyond 2^62": _each(step=lambda row: 2**62 + row["step"]),
    "steps negative": _each(step=lambda row: -row["step"]),
    "lengths negative": _each(length=lambda row: -row["length"]),
    "lengths negative, no tokens": lambda rows: _without(*LISTS)(
        _each(length=lambda row: -row["length"])(rows)
    ),
    "responses empty": _each(length=0, **{name: [] for name in LISTS}),
    "all masked": _filled("loss_mask", False),
    "policy NaN": _filled("logp_theta", math.nan),
    "policy impossible": _filled("logp_theta", -math.inf),
    "policy beyond 1": _filled("logp_theta", 5.0),
    "old impossible": _filled("logp_old", -math.inf),
    "old far": _filled("logp_old", -1e3),
    "sampler far": _filled("logp_sampler", -1e3),
    "reference at the end of float32": _filled("logp_ref", -3e38),
    "names hostile": _each(
        reward_components={"<b>": 1.0, "": 0.0},
        finish_reason="<i>",
        group_id=lambda row: f"<b>{row['group_id']}\u202e",
    ),
}
DROPPED = ("step", "group_id", "reward", "prompt_id")
"""Columns that the schema requires, and foreign writers leave out."""
UNDECLARED, NO_ROWS, NO_FILES = "no objective", "no rows", "no files"
ODD = (*CHANGES, *(f"column {name} missing" for name in DROPPED), UNDECLARED, NO_ROWS, NO_FILES)


def write_odd(root: Path, name: str) -> None:
    """Write the log of that name below ``root``."""
    path = root / name
    if name == NO_FILES:
        path.mkdir()
        (path / "run.json").write_text('{"schema": "rlaudit.run.v1", "run_id": "no files"}', encoding="utf-8")
        return
    write(path, CHANGES.get(name, list)(small()), objective=None if name == UNDECLARED else GRPO)
    for file in (path / "rollouts").rglob("*.parquet"):
        rows = pl.read_parquet(file)
        if name == NO_ROWS:
            rows.clear().write_parquet(file)
        elif name not in CHANGES and name != UNDECLARED:
            rows.drop(name.split()[1]).write_parquet(file)
