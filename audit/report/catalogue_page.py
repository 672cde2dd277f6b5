"""The catalogue as a page: docs/objectives.md.

``python -m audit.report.catalogue_page`` writes it to ``docs/``; a test fails when it is stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.objectives.catalogue import CATALOGUE, FAMILIES, Entry
from audit.objectives.objective import PARTS, Objective
from audit.report.objectives import needed, told

_HEAD = """# The objectives that rlaudit knows

{count} algorithms, each as a value: a record of a few orthogonal choices. Made by
`python -m audit.report.catalogue_page` from `audit/objectives/catalogue/`; the weights of every entry are
held against the loss of its paper in `tests/objectives/test_catalogue.py`.

- One in the terminal, with every field: `rlaudit objectives NAME`; as a file: with `--json`.
- What differs between several, field by field: `rlaudit objectives grpo dr_grpo`.
- What one does to hard and easy prompts, exactly: `rlaudit objectives grpo --factor`, `--zero-signal`,
  `--effective-batch`, `--effective-beta`.

Symbols: w the weight of a token, −∂L/∂log π; r reward, with mean and std of its group; A advantage;
rho = pi_theta / pi_old; G responses per prompt, B per step, L tokens of a response, N of all.
"""


def page_text() -> str:
    """Return the page as it stands in the file."""
    return "\n".join([_HEAD.format(count=len(CATALOGUE)), *_overview(), *_entries()]) + "\n"


def write_page(directory: Path) -> Path:
    """Write ``objectives.md`` into a directory; returns what was written."""
    path = directory / "objectives.md"
    path.write_text(page_text(), encoding="utf-8")
    return path


def _overview() -> Iterator[str]:
    yield "| name | weight per sample | stability | target | paper |"
    yield "|---|---|---|---|---|"
    for entry in CATALOGUE.values():
        cells = (entry.weight, entry.stability, entry.target, _linked(entry.source))
        yield f"| [{entry.name}](#{entry.name}) | {' | '.join(map(_cell, cells))} |"


def _entries() -> Iterator[str]:
    for family, entries in FAMILIES.items():
        yield f"\n## {family}"
        for entry in entries:
            yield from _entry(entry)


def _entry(entry: Entry) -> Iterator[str]:
    yield f"\n### {entry.name}\n"
    yield f"{entry.meaning}\n"
    yield f"    {entry.formula}\n"
    yield "| | |"
    yield "|---|---|"
    told = {"fixes": entry.fixes} | entry.rows | {"paper": _linked(entry.paper)}
    if entry.choices:
        told["choices here"] = entry.choices
    told["needs from a log"] = needed(entry.needs)
    told["fields"] = _fields(entry.objective)
    for label, text in told.items():
        yield f"| {label} | {_cell(text)} |"


def _fields(objective: Objective) -> str:
    """The fields that are set, in the order in which a token meets them."""
    plain = Objective().to_dict()
    # Surrogates of different kinds have fields of their own: all of them are told.
    unset = plain | {"clip": {"kind": "none"}}
    said = [line for part in PARTS for line in _set(part, objective.to_dict()[part], unset[part])]
    return ", ".join(said) or "all at their defaults"


def _set(path: str, value: Any, default: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _set(f"{path}.{key}", inner, default.get(key) if isinstance(default, dict) else None)
    elif value is not None and value != default:
        yield f"`{path}` {told(value)}"


def _linked(text: str) -> str:
    """Make arXiv ids into links."""
    linked = re.sub(r"arXiv:(\d{4}\.\d{5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)
    return re.sub(r"^(\d{4}\.\d{5})$", r"[\1](https://arxiv.org/abs/\1)", linked)


def _cell(text: str) -> str:
    # Signs that Markdown would take for its own.
    return re.sub(r"(?<!`)([|<>*])", r"\\\1", text)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs"
    sys.stdout.write(f"{write_page(target)}\n")
