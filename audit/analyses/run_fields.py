"""What a run says of itself as flat fields, and which runs are seeds of one configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from audit.analyses.explain import Known
from audit.analyses.run_parts import Unknown
from audit.logs import Run
from audit.objectives.objective import Objective

_SEEDS = frozenset({"seed", "data_seed", "random_seed", "rollout_seed", "seed_for_gpu"})
_PLACES = ("_dir", "_path", "_name", "_id", "_url", "_token", "_file")
_REPORTING = frozenset(
    {"report_to", "run", "name", "notes", "tags", "project", "logging_steps", "log_level", "disable_tqdm"}
)
UNSAID = "(not given)"
"""Value of a field that only other runs give."""
NOT_IDENTIFIABLE = "(not identifiable)"
"""Value of a field of the objective that a run neither declares nor shows."""
_LONGEST = 60


class Configuration(msgspec.Struct, frozen=True):
    """Runs that declare the same in everything but the seed."""

    name: str
    runs: list[str]
    seeds: list[int | None]


def objective_fields(objective: Objective | None) -> dict[str, Any]:
    """Every field of an objective by its dotted name, as ``objective.scale.kind``; its own name left out."""
    if objective is None:
        return {}
    parts = {key: value for key, value in objective.to_dict().items() if isinstance(value, Mapping)}
    return {
        f"objective.{part}.{leaf}": value for part, leaves in parts.items() for leaf, value in leaves.items()
    }


def declared_fields(run: Run) -> dict[str, Any]:
    """What run.json gives beside the objective; nulls, seeds, places and settings of reporting left out."""
    manifest = run.manifest
    given: dict[str, Any] = {
        "model": manifest.model,
        "reference": manifest.reference,
        "group_size": manifest.group_size,
        "sampling": manifest.sampling,
        "data": manifest.data,
        "config": manifest.config,
    }
    if manifest.framework is not None:
        given["framework"] = msgspec.to_builtins(manifest.framework)
    flat = _flat({key: value for key, value in given.items() if value is not None}, "")
    return {field: value for field, value in flat.items() if value is not None and not _incidental(field)}


def fields_of_runs(
    runs: Sequence[Run], objectives: Sequence[Objective | None], unknown: Sequence[Unknown]
) -> list[dict[str, Any]]:
    """Fields of each run, dotted: what it declares, and its objective as far as it is known.

    A field of a part that is unknown of a run is :data:`NOT_IDENTIFIABLE` there, whichever run has it.
    """
    of_objectives = [objective_fields(objective) for objective in objectives]
    names = {name for fields in of_objectives for name in fields}
    return [
        declared_fields(run) | fields | {name: NOT_IDENTIFIABLE for name in names if _among(name, parts)}
        for run, fields, parts in zip(runs, of_objectives, unknown, strict=True)
    ]


def _among(field: str, parts: Unknown) -> bool:
    _, part, leaf = field.split(".")
    # A KL in the reward shows in the advantages.
    return part in parts and (part, leaf) != ("kl", "reward")


def configurations(
    labels: Sequence[str], known: Sequence[Known], fields: Sequence[Mapping[str, Any]]
) -> list[Configuration]:
    """Group runs that declare the same and whose logs show the same objective, in the order of their names.

    A run that declares nothing is a configuration of its own: nothing says what it is a seed of.
    """
    groups: dict[str, list[int]] = {}
    for at, (one, given) in enumerate(zip(known, fields, strict=True)):
        silent = one.declared is None and not one.rows.run.manifest.config
        key = f"alone {at}" if silent else msgspec.json.encode(given, order="deterministic").decode()
        groups.setdefault(key, []).append(at)
    grouped = [sorted(group, key=lambda at: labels[at]) for group in groups.values()]
    grouped.sort(key=lambda group: labels[group[0]])
    names = [_name(known[group[0]], labels[group[0]]) for group in grouped]
    return [
        Configuration(
            name=name if names.count(name) == 1 else f"{name} #{names[: number + 1].count(name)}",
            runs=[labels[at] for at in group],
            seeds=[known[at].rows.run.manifest.seed for at in group],
        )
        for number, (name, group) in enumerate(zip(names, grouped, strict=True))
    ]


def _name(known: Known, label: str) -> str:
    """The declared objective's name; of a run that declares none, the run's own."""
    return known.declared.objective.name if known.declared is not None else label


def shown(value: Any) -> str:
    """A value of a field, short enough for a table."""
    text = _text(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items() if inner is not None)
    if isinstance(value, str):
        return value
    return "none" if value is None else msgspec.json.encode(value).decode()


def _incidental(field: str) -> bool:
    leaf = field.rpartition(".")[2].lower()
    if field in {"model", "reference", "data"}:
        return False
    return leaf in _SEEDS or leaf in _REPORTING or leaf.endswith(_PLACES)


def _flat(given: Mapping[str, Any], before: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, Mapping) and value:
            made |= _flat(value, f"{before}{key}.")
        else:
            made[f"{before}{key}"] = value
    return made
