"""Lower floors never import upper ones, and no import leads in a circle, deferred ones and types included."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import audit

ROOT = Path(audit.__file__).parent
FLOORS = (
    ("errors", "counted", "schema", "ragged", "stats", "interval_tails"),
    ("objectives",),
    ("logs",),
    ("importers", "recorders"),
    ("facts",),
    ("analyses",),
    ("report",),
    ("testbed", "api"),
    ("cli",),
)
HEIGHT = {name: height for height, names in enumerate(FLOORS) for name in names}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in ROOT.rglob("*.py")}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                found.add(inner if inner in MODULES else str(node.module))
    return found & MODULES.keys()


def floor(module: str) -> int | None:
    return HEIGHT.get(module.split(".")[1]) if "." in module else None


def test_no_floor_imports_one_above_it() -> None:
    up = [
        f"{module} -> {other}"
        for module, path in MODULES.items()
        for other in imported(path)
        if None not in (floor(module), floor(other)) and floor(module) < floor(other)
    ]
    assert up == []
    assert {module.split(".")[1] for module in MODULES if "." in module} <= {
        *HEIGHT,
        "__main__",
        "app",
        "schemas",
    }


def test_no_import_leads_in_a_circle() -> None:
    order = list(
        TopologicalSorter({module: imported(path) for module, path in MODULES.items()}).static_order()
    )
    assert len(order) == len(MODULES)
