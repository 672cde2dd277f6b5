"""The JSON contracts as JSON Schema, generated from the structs that are encoded.

``python -m audit.report.schemas`` writes them to ``schemas/``; a test fails when they are stale.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import msgspec

from audit.analyses.check import Check
from audit.analyses.clip_curve import ClipCurve
from audit.analyses.clipping import Clipping
from audit.analyses.directory import DirectorySummary
from audit.analyses.effective_batch import EffectiveBatch
from audit.analyses.effective_beta import EffectiveBeta
from audit.analyses.explain import Explanation
from audit.analyses.explain_many import ManyExplanation
from audit.analyses.group_view import GroupView
from audit.analyses.kl_estimates import KLReport
from audit.analyses.length import LengthBias
from audit.analyses.length_course import LengthCourses
from audit.analyses.length_ecdf import LengthDistributions
from audit.analyses.metric_curves import MetricCurves
from audit.analyses.mismatch import Mismatch
from audit.analyses.one_step import OneStep
from audit.analyses.prompt_course import PromptCourse
from audit.analyses.prompt_factor import Factor
from audit.analyses.prompt_responses import Visit
from audit.analyses.prompts import PromptBreakdown
from audit.analyses.rewards import RewardBreakdown
from audit.analyses.run_overview import RunOverview
from audit.analyses.staleness import StalenessBreakdown
from audit.analyses.summary import Summary
from audit.analyses.weight_shifts import WeightShifts
from audit.analyses.zero_groups import GroupBreakdown
from audit.analyses.zero_signal import Silence
from audit.facts.facts_report import FactsReport
from audit.facts.store.inventory import CacheReport
from audit.importers.into import Imported
from audit.logs.sql_result import QueryResult
from audit.objectives.objective import Objective
from audit.report.as_json import as_json
from audit.report.dialect import Declaration, Framework, Upgrade
from audit.report.formats import Format
from audit.report.run_report import RunReport


def _table(kind: str, rows: Any) -> Any:
    """A :class:`audit.analyses.prompt_tables.Table` of one kind: msgspec knows no union of lists."""
    name = kind.title().replace("-", "")
    column = msgspec.defstruct(f"{name}Column", [("objective", str), ("group_size", int), ("rows", rows)])
    return msgspec.defstruct(
        f"{name}Table",
        [
            ("kind", Literal[kind]),
            ("columns", list[column]),  # type: ignore[valid-type]
            ("objectives", int),
            ("rewards", list[tuple[float, float]]),
        ],
    )


CONTRACTS: dict[str, tuple[Any, ...]] = {
    "explain": (Explanation,),
    "explain_many": (ManyExplanation,),
    "summary": (Summary, DirectorySummary),
    "check": (Check,),
    "length": (LengthBias,),
    "groups": (GroupBreakdown,),
    "clipping": (Clipping,),
    "kl": (KLReport,),
    "mismatch": (Mismatch,),
    "prompts": (PromptBreakdown,),
    "rewards": (RewardBreakdown,),
    "staleness": (StalenessBreakdown,),
    "facts": (FactsReport,),
    "cache": (CacheReport,),
    "import": (Imported,),
    "formats": (list[Format],),
    "sql": (QueryResult,),
    "report": (RunReport,),
    "objectives": (Objective, list[Objective]),
    "objective_tables": (
        _table("factor", list[Factor]),
        _table("zero-signal", list[Silence]),
        _table("effective-beta", list[EffectiveBeta]),
        _table("effective-batch", EffectiveBatch),
    ),
    "dialect": (list[Framework], Declaration, Upgrade),
}
"""Verb → what it prints with ``--json``, one of these types."""
SHOWN: dict[str, tuple[Any, ...]] = {
    "clip_curve": (ClipCurve,),
    "group_view": (GroupView,),
    "length_courses": (LengthCourses,),
    "length_distributions": (LengthDistributions,),
    "metric_curves": (MetricCurves,),
    "one_step": (OneStep,),
    "prompt_course": (PromptCourse,),
    "prompt_responses": (Visit,),
    "run_overview": (RunOverview,),
    "weight_shifts": (WeightShifts,),
}
"""Analysis → its result, which the dashboard draws and no verb prints yet."""
_PRINTED = {
    "explain_many": "explain A B C ... --json",
    "formats": "import --formats --json",
    "objective_tables": "objectives --factor (or --zero-signal, --effective-batch, --effective-beta) --json",
    "report": "report -o FILE.json",
}
"""What is not printed by the verb of its name."""


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of what a verb prints, or of the result of an analysis.

    Every field is written; readers must accept fields that a later version adds. What is NaN or infinite
    is written as null.
    """
    types = (CONTRACTS | SHOWN)[name]
    roots, definitions = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for definition in definitions.values():
        # What may be left out when a struct is read is still always written.
        if "properties" in definition:
            definition["required"] = sorted(definition["properties"])
            definition["properties"] = _or_null(definition["properties"])
    for definition in (definitions.get(getattr(each, "__name__", "")) for each in types):
        if definition is not None and "schema" in definition["properties"]:
            definition["properties"]["schema"] = {"const": f"rlaudit.{name}.v1"}
    root = roots[0] if len(roots) == 1 else {"anyOf": list(roots)}
    printed = f"rlaudit {_PRINTED.get(name, f'{name} --json')}"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": printed if name in CONTRACTS else f"rlaudit.{name}.v1",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _or_null(shape: Any) -> Any:
    """The same schema, in which a number may be null wherever it stands: NaN and infinity are written so."""
    if isinstance(shape, list):
        return [_or_null(each) for each in shape]
    if not isinstance(shape, dict):
        return shape
    if {"type": "null"} in shape.get("anyOf", ()):
        return shape
    made = {key: _or_null(value) for key, value in shape.items()}
    return made | {"type": ["number", "null"]} if shape.get("type") == "number" else made


def schema_text(name: str) -> str:
    """Return the schema as it stands in the file."""
    return as_json(schema_of(name))


def write_schemas(directory: Path) -> list[Path]:
    """Write ``<name>.v1.schema.json`` of every contract; returns what was written."""
    written = []
    for name in CONTRACTS | SHOWN:
        path = directory / f"{name}.v1.schema.json"
        path.write_text(schema_text(name), encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    from importlib.resources import files

    for path in write_schemas(Path(str(files("audit.schemas")))):
        sys.stdout.write(f"{path}\n")
