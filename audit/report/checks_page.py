"""The checks as a page: docs/checks.md.

``python -m audit.report.checks_page`` writes it to ``docs/``; a test fails when it is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from audit.analyses.checks.registry import CHECKS

_HEAD = """# What `rlaudit check` may say

Made by `python -m audit.report.checks_page`. An id is stable: scripts may rely on it. With `--json` every
problem has `id`, `severity` (error, warning, info), `column`, `rows`, the first `steps`, a `summary` with its
numbers, `certainty` (certain, likely) and a `hint`. A check whose columns are missing is listed under
`skipped` with what it needs. Thresholds are heuristics; they stand beside their names in the source.

## What happened in the run
"""
LOG_IDS: dict[str, str] = {
    "file.damaged": "a file, or the rest of it, cannot be read",
    "file.skipped": "files that look like part of the run and were left out",
    "row.rejected": "rows of a foreign log that are no rows of the schema",
    "manifest.absent": "there is no run.json",
    "manifest.schema-absent": "run.json does not say its schema",
    "manifest.unknown-key": "run.json has a key that is not read",
    "objective.undeclared": "run.json declares no objective",
    "objective.unreadable": "the declared objective cannot be read",
    "advantage.contradicts-declaration": "the logged advantages are not those of the declared objective",
    "column.missing": "files without a required column",
    "column.in-some-files": "a column that other files have",
    "column.case-clash": "a name that differs from the schema's by case",
    "column.unknown": "a column that is not in the schema",
    "column.type-conflict": "a column of several types",
    "logp.half-precision": "log-probs in float16",
    "required.null": "nulls in a required column",
    "value.negative": "a count below 0",
    "reward.null": "rows without a reward",
    "reward.nan": "rewards that are NaN",
    "reward.infinite": "infinite rewards",
    "advantage.non-finite": "advantages that are NaN or infinite",
    "key.duplicate": "rows that share their key",
    "group.prompt-mix": "groups of several prompts",
    "group.reused": "a group_id that returns at another step",
    "group.size": "groups without the samples that run.json declares",
    "prompt.id-clash": "a prompt_id of several texts",
    "prompt.id-split": "a text with several prompt_ids",
    "tokens.not-logged": "rows whose list is null while others have it",
    "tokens.length-mismatch": "lists of unequal length in a row",
    "tokens.null-element": "nulls inside a list",
    "tokens.non-finite": "values that are NaN or infinite on loss tokens",
    "tokens.empty": "rows without tokens",
    "length.mismatch": "length is not the number of tokens",
    "mask.no-loss-token": "rows whose mask is false throughout",
    "logp.non-finite": "log-probs that are NaN or infinite on loss tokens",
    "logp.positive": "log-probs above 0",
    "logp.all-zero": "a list of log-probs that is 0 throughout",
}
"""Ids of the log itself: files, columns, keys, lists."""


def page_text() -> str:
    """Return the page as it stands in the file."""
    return "\n".join([_HEAD, *_checks(), "\n## What is wrong with the log itself\n", *_log()]) + "\n"


def write_page(directory: Path) -> Path:
    """Write ``checks.md`` into a directory; returns what was written."""
    path = directory / "checks.md"
    path.write_text(page_text(), encoding="utf-8")
    return path


def _checks() -> Iterator[str]:
    yield "| check | needs | id | meaning |"
    yield "|---|---|---|---|"
    for entry in CHECKS:
        needs = ", ".join(" or ".join(f"`{c}`" for c in need.split("|")) for need in entry.needs) or "—"
        for code, meaning in entry.ids.items():
            yield f"| {entry.question} | {needs} | `{code}` | {meaning} |"


def _log() -> Iterator[str]:
    yield "| id | meaning |"
    yield "|---|---|"
    yield from (f"| `{code}` | {meaning} |" for code, meaning in LOG_IDS.items())


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs"
    sys.stdout.write(f"{write_page(target)}\n")
