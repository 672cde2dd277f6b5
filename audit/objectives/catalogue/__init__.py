"""The named algorithms: entries that differ in a few fields of an objective.

One file per family; a new algorithm is one :class:`Entry` in one of them.
"""

from __future__ import annotations

from audit.errors import UnknownName
from audit.objectives.catalogue import (
    baselines,
    critics,
    goals,
    groups,
    regions,
    responses,
    samplers,
)
from audit.objectives.catalogue.entry import ROWS, Entry
from audit.objectives.objective import Objective

__all__ = ["CATALOGUE", "CORE", "FAMILIES", "ROWS", "Entry", "named"]

FAMILIES: dict[str, tuple[Entry, ...]] = {
    "REINFORCE and its baselines": baselines.ENTRIES,
    "With a critic": critics.ENTRIES,
    "Groups: GRPO and its fixes": groups.ENTRIES,
    "The response as one action": responses.ENTRIES,
    "Other trust regions": regions.ENTRIES,
    "Corrections for the sampler": samplers.ENTRIES,
    "Other goals": goals.ENTRIES,
}
"""Title of a family → its entries, in the order in which they are shown."""

CATALOGUE: dict[str, Entry] = {entry.name: entry for family in FAMILIES.values() for entry in family}

CORE = ("reinforce", "rloo", "remax", "ppo", "grpo", "dr_grpo", "dapo", "gspo", "cispo")
"""The algorithms that others are told apart from; what is compared where all would be too many."""

_SPELLINGS = (("++", "_pp"), ("@", "_at_"), (". ", "_"), (".", ""), (" ", "_"), ("-", "_"))


def named(name: str) -> Objective:
    """Return the catalogue objective ``name``.

    Raises
    ------
    UnknownName
        No such entry; the message lists the closest names.
    """
    key = name.lower()
    for written, meant in _SPELLINGS:
        key = key.replace(written, meant)
    if key not in CATALOGUE:
        raise UnknownName.of("objective", name, CATALOGUE)
    return CATALOGUE[key].objective
