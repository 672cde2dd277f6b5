"""Which objective a run declares: by name, by its fields, or by its framework's config and version."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from audit.errors import AuditError, BadManifest
from audit.logs import Run
from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.dialects import DIALECTS, from_framework
from audit.objectives.objective import PARTS, Objective, differing_parts, from_dict


class DeclaredObjective(NamedTuple):
    """The declared objective of a run, and where it came from."""

    objective: Objective
    source: str
    notes: tuple[str, ...] = ()


def declared_objective(run: Run) -> DeclaredObjective | None:
    """Return what run.json declares, or None where it declares nothing.

    Raises
    ------
    BadManifest
        The declaration cannot be read: an unknown name or field, or an option that has no equivalent.
    """
    manifest = run.manifest
    try:
        if manifest.objective is not None:
            return DeclaredObjective(read_objective(manifest.objective), "run.json: objective")
        if manifest.framework is not None and manifest.framework.name and manifest.config is not None:
            framework = manifest.framework
            known = framework.name.lower() in DIALECTS
            if not known and not manifest.declared:
                # A config that lies beside the log declares nothing where nobody reads it.
                return None
            if framework.version is None and known:
                msg = (
                    f"framework.version is missing; defaults of {framework.name} changed between versions. "
                    f'{{"framework": {{"name": "{framework.name}", "version": "…"}}}} in run.json is enough.'
                )
                raise BadManifest(msg)
            dialect = from_framework(
                framework.name,
                framework.version or "",
                manifest.config,
                trainer=framework.trainer,
            )
            unknown = [f"config option {key!r} is not known to the dialect." for key in dialect.unknown]
            config = f"config of {framework.name} {framework.version}"
            source = f"run.json: {config}" if manifest.declared else f"{config} beside the log"
            return DeclaredObjective(dialect.objective, source, (*dialect.notes, *unknown))
    except AuditError as error:
        msg = f"{run.path / 'run.json' if manifest.declared else run.path}: {error}"
        raise BadManifest(msg) from None
    return None


def undeclared(run: Run) -> str:
    """Say why a run has no declared objective."""
    manifest = run.manifest
    why = "run.json declares no objective" if manifest.declared else "there is no run.json"
    return why + (f" (keys that it does not know: {', '.join(manifest.unknown)})" if manifest.unknown else "")


def read_objective(declaration: str | dict[str, Any]) -> Objective:
    """Build an objective from a catalogue name, a name with overrides, or every field.

    ``{"name": "grpo", "scale": {"ddof": 1}}`` is GRPO with that one field changed. A name outside the
    catalogue must come with every part, so that a misspelt name cannot pass for an algorithm of its own;
    without a name, missing parts take the defaults of :class:`~audit.objectives.objective.Objective`.

    Raises
    ------
    UnknownName, BadObjective
    """
    if isinstance(declaration, str):
        return named(declaration)
    complete = "name" not in declaration or set(PARTS) <= declaration.keys()
    base = Objective() if complete else named(str(declaration["name"]))
    return from_dict(_merge(base.to_dict(), declaration))


def label(objective: Objective) -> str:
    """Name of an objective for people: a catalogue name only where it means that entry.

    ``grpo`` for the entry, ``grpo with other scale`` for one that was changed; a constant that stands for the
    run's budget is no change.
    """
    if objective.name not in CATALOGUE:
        return objective.name
    entry = named(objective.name)
    if entry.aggregation.constant is None:
        aggregation = msgspec.structs.replace(objective.aggregation, constant=None)
        objective = objective.replace(aggregation=aggregation)
    parts = differing_parts(entry, objective)
    return f"{objective.name} with other {', '.join(parts)}" if parts else objective.name


def _merge(base: Any, changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        inner = merged.get(key)
        nested = isinstance(inner, dict) and isinstance(value, dict) and not _replaces(key, inner, value)
        merged[key] = _merge(inner, value) if nested else value
    return merged


def _replaces(part: str, inner: dict[str, Any], value: dict[str, Any]) -> bool:
    """Whether a change names another surrogate: the fields of the one it replaces do not carry over."""
    return part == "clip" and value.get("kind", inner.get("kind")) != inner.get("kind")
