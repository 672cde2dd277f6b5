"""The JSON contracts as JSON Schema, generated from the structs that are encoded.

``python -m audit.report.schemas`` writes them to ``schemas/``; a test fails when they are stale.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from audit.analyses.check import Check
from audit.analyses.clipping import Clipping
from audit.analyses.directory import DirectorySummary
from audit.analyses.explain import Explanation
from audit.analyses.explain_many import ManyExplanation
from audit.analyses.kl_estimates import KLReport
from audit.analyses.length import LengthBias
from audit.analyses.mismatch import Mismatch
from audit.analyses.prompts import PromptBreakdown
from audit.analyses.rewards import RewardBreakdown
from audit.analyses.staleness import StalenessBreakdown
from audit.analyses.summary import Summary
from audit.analyses.zero_groups import GroupBreakdown
from audit.facts.facts_report import FactsReport
from audit.facts.store.inventory import CacheReport
from audit.importers.into import Imported
from audit.logs.sql_result import QueryResult
from audit.report.as_json import as_json
from audit.report.run_report import RunReport

CONTRACTS: dict[str, Any] = {
    "explain": Explanation,
    "explain_many": ManyExplanation,
    "summary": Summary | DirectorySummary,
    "check": Check,
    "length": LengthBias,
    "groups": GroupBreakdown,
    "clipping": Clipping,
    "kl": KLReport,
    "mismatch": Mismatch,
    "prompts": PromptBreakdown,
    "rewards": RewardBreakdown,
    "staleness": StalenessBreakdown,
    "facts": FactsReport,
    "cache": CacheReport,
    "import": Imported,
    "sql": QueryResult,
    "report": RunReport,
}
"""Verb → what it prints with ``--json``."""


def schema_of(verb: str) -> dict[str, Any]:
    """Return the JSON Schema of what a verb prints.

    Every field is written; readers must accept fields that a later version adds.
    """
    contract = CONTRACTS[verb]
    types = contract.__args__ if verb == "summary" else (contract,)
    roots, definitions = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for definition in definitions.values():
        # What may be left out when a struct is read is still always written.
        if "properties" in definition:
            definition["required"] = sorted(definition["properties"])
    for struct in types:
        name = f"rlaudit.{verb}.v1"
        definitions[struct.__name__]["properties"]["schema"] = {"const": name}
    root = roots[0] if len(roots) == 1 else {"anyOf": list(roots)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"rlaudit {verb} --json",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def schema_text(verb: str) -> str:
    """Return the schema as it stands in the file."""
    return as_json(schema_of(verb))


def write_schemas(directory: Path) -> list[Path]:
    """Write ``<verb>.v1.schema.json`` for every verb; returns what was written."""
    written = []
    for verb in CONTRACTS:
        path = directory / f"{verb}.v1.schema.json"
        path.write_text(schema_text(verb), encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    from importlib.resources import files

    for path in write_schemas(Path(str(files("audit.schemas")))):
        sys.stdout.write(f"{path}\n")
