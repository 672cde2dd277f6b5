"""What may be added to a reward before advantages are made of it: KL to the reference, a price of length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from audit.analyses.infer_candidate import Penalty
from audit.analyses.infer_linear import snapped
from audit.facts.rows import RunRows
from audit.logs.arrays import to_numpy
from audit.objectives.objective import Objective, Shaping

Traits = dict[str, Any]
_KLS = (("old", "k1"), ("old", "k2"), ("old", "k3"), ("sampler", "k1"), ("sampler", "k2"), ("sampler", "k3"))


@dataclass(frozen=True)
class Term:
    """One number per response, and what its coefficient means."""

    values: np.ndarray
    """float64, shape (R,)."""
    traits: Callable[[float], Traits | None]
    """Fields of a candidate for a coefficient; None where it has the wrong sign."""
    value: Callable[[float], float] = snapped
    """The coefficient that is meant where this one was found."""
    always: bool = True
    """False: read from the log only where nothing else fits."""


def kl_terms(rows: RunRows) -> Iterator[Term]:
    """Σ k(policy, ref) over loss tokens of each response, in every estimator that the log carries."""
    if rows.facts is None:
        return
    held = rows.run.columns
    kinds = [(policy, form) for policy, form in _KLS if {f"logp_{policy}", "logp_ref"} <= held]
    names = [f"kl_{policy}_ref_{form}" for policy, form in kinds]
    rows.facts.read(names)
    for (policy, form), name in zip(kinds, names, strict=True):
        yield Term(np.asarray(rows.facts[name], dtype=np.float64), _as_kl(f"{policy} {form}"))


def _as_kl(kind: str) -> Callable[[float], Traits | None]:
    def traits(coefficient: float) -> Traits | None:
        return {"reward_kl": -coefficient, "kl": kind} if coefficient < 0.0 else None

    return traits


def length_terms(rows: RunRows) -> Iterator[Term]:
    """Length of each response in tokens, and in characters."""
    if np.isfinite(rows.length).any():
        yield Term(rows.length, _as_length("token"))
    characters = characters_of(rows)
    if characters is not None:
        yield Term(characters, _as_length("character"))


def characters_of(rows: RunRows) -> np.ndarray | None:
    """Length of each response in characters, float64, shape (R,); None where no text was logged."""
    if not rows.has("response"):
        return None
    length = pc.utf8_length(rows.run.responses(["response"])["response"])
    return np.asarray(to_numpy(pc.cast(length, "float64")))


def _as_length(unit: str) -> Callable[[float], Traits | None]:
    return lambda coefficient: {"length": coefficient, "length_unit": unit}


def overlong_values(length: np.ndarray, start: int, full: int) -> np.ndarray:
    """DAPO's penalty (arXiv:2503.14476, eq. 13) for a unit of it: 0 to -1; shape (R,), NaN stays NaN."""
    return np.asarray(-np.clip((length - start) / (full - start), 0.0, 1.0))


def overlong_term(length: np.ndarray, start: int, full: int) -> Term:
    """The penalty from ``start`` to ``full`` tokens as a term."""

    def traits(penalty: float) -> Traits | None:
        return {"overlong": Penalty(start, full, penalty)} if penalty > 0.0 else None

    return Term(overlong_values(length, start, full), traits)


def components_of(rows: RunRows) -> dict[str, np.ndarray]:
    """Every logged reward component, float64, shape (R,), 0 where it did not apply; empty without any.

    Components that never change are left out: they make no advantage.
    """
    if not rows.has("reward_components"):
        return {}
    logged = rows.responses(Objective(shaping=Shaping(weights={}))).components or {}
    made = {name: np.nan_to_num(np.asarray(values), nan=0.0) for name, values in sorted(logged.items())}
    return {name: values for name, values in made.items() if np.ptp(values) > 0}
