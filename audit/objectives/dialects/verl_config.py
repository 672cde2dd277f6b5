"""verl's config as data: defaults by version, and which keys are options of the objective."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from audit.errors import BadObjective, closest
from audit.objectives.dialects.kinds import check_kinds
from audit.objectives.dialects.tables import defaults_at, table, version_number

Version = tuple[int, int, int]

_TABLE = "verl_defaults"

_TELLING = re.compile(
    r"(?:^|[._])(?:adv|advantages?|agg|aggregation|baseline|beta|bonus|clip|cliprange|coef|coeff|cov|delta|"
    r"divergence|entropy|epsilon|estimator|filter|gamma|importance|kl|lam|loss|mask|masking|norm|"
    r"normali[sz]e|normali[sz]ation|overlong|penalty|ratio|rewards?|rollout_is|rollout_rs|scale|tau|threshold|"
    r"tis|veto|weights?)(?:[._]|$)"
)
_ELSEWHERE = re.compile(r"actor\.(?:optim|checkpoint|fsdp_config|megatron|profiler|qat|engine|veomni)[._]")
# Options without a tabled default that are on or off.
_SWITCHES = ("actor.use_dynamic_bsz", "actor.use_rollout_log_probs")
# A number, or a window "low_high".
_MIXED = ("algorithm.rollout_correction.rollout_is_threshold",)
_PREFIX = re.compile(r"^\+{0,2}(?:actor_rollout_ref\.(?=(?:actor|rollout|ref|model)\.))?")


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted keys, actor_rollout_ref left out; nested dicts and Hydra overrides may be mixed.

    References to other keys (``${…}``) and what is missing (``???``) are left out.
    """
    return {_PREFIX.sub("", key): value for key, value in _walk(config, "") if _given(value)}


def complete(config: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return flat ``config`` over the defaults of ``version``.

    Raises
    ------
    BadObjective
        The version is not a version number, or older than those read, or a value is of the wrong kind.
    """
    defaults = defaults_of(version)
    check_kinds("verl", config, dict.fromkeys(_SWITCHES, False) | defaults, mixed=_MIXED)
    return {**defaults, **config}


def defaults_of(version: str) -> dict[str, Any]:
    """Return the defaults of ``version``, keys as :func:`flat` gives them.

    Raises
    ------
    BadObjective
    """
    return defaults_at(table(_TABLE)["versions"], version, framework="verl", what="the config")


def unknown_options(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of flat ``config`` that look like objective options but that no version has, sorted."""
    known = _known()
    return tuple(
        sorted(
            key
            for key in config
            if key not in known
            and key.startswith(("actor.", "algorithm."))
            and not key.endswith("._target_")
            and not _ELSEWHERE.match(key)
            and _TELLING.search(key.partition(".")[2])
        )
    )


def of_other_versions(config: Mapping[str, Any], version: str) -> list[str]:
    """Return the keys of flat ``config`` that set an option which ``version`` does not have, sorted."""
    tabled = {key for entry in table(_TABLE)["versions"] for key in entry["set"]}
    default = defaults_of(version)
    return sorted(key for key in config if key in tabled and key not in default)


def require_since(kind: str, name: str, version: str) -> None:
    """Refuse an estimator or loss that ``version`` does not have.

    Parameters
    ----------
    kind : str
        "estimators" or "losses".

    Raises
    ------
    BadObjective
    """
    since: dict[str, str] = table(_TABLE)[kind]["since"]
    what = {"estimators": "algorithm.adv_estimator", "losses": "actor.policy_loss.loss_mode"}[kind]
    if name not in since:
        raise BadObjective(f"verl has no {what} {name!r}.{closest(name, since)}")
    if version_number(version) < version_number(since[name]):
        raise BadObjective(f"verl {version} has no {what} {name!r}: it came with {since[name]}.")


def options() -> frozenset[str]:
    """Return the options of the objective in any version, and others of their tables, by flat key."""
    read = table(_TABLE)
    tabled = {key for entry in read["versions"] for key in entry["set"]}
    return frozenset({*tabled, *read["options"]["names"]})


def versions() -> tuple[str, str]:
    """Return the oldest and the newest version read."""
    tabled = table(_TABLE)
    return tabled["versions"][0]["version"], tabled["newest"]


def _walk(config: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _walk(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _given(value: Any) -> bool:
    return not (isinstance(value, str) and (value.startswith("${") or value == "???"))


@cache
def _known() -> frozenset[str]:
    return options() | set(table(_TABLE)["unrelated"]["names"])
