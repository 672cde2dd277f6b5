"""Reading a framework's config: nested or dotted keys over defaults, and keys that nobody knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Self, TypeVar

from audit.errors import BadObjective, closest
from audit.objectives.dialects.declared import Declared, hints
from audit.objectives.dialects.kinds import check_kinds
from audit.objectives.dialects.tables import table
from audit.objectives.objective import Objective, from_dict

T = TypeVar("T")

UNBOUNDED = 1e30
"""Stands for an absent bound of a pair of bounds."""

# Words in the name of an objective option; looked for in keys that no dialect has.
_TELLING = re.compile(
    r"(?:^|_)(?:adv|advantages?|agg|aggregation|baseline|beta|bonus|clip|coef|delta|entropy|eps|epsilon|"
    r"estimator|filter|filtering|importance|kl|lambda|lambd|loss|mask|masking|norm|normali[sz]e|"
    r"normali[sz]ation|overlong|penalty|ratio|rewards?|scale|scaling|surrogate|tau|tis|whiten)(?:_|$)"
)


class Options:
    """The options of one framework as a run recorded them, over the defaults of the version that was read.

    Parameters
    ----------
    framework : str
        Its name, for messages.
    config : Mapping
        Nested mappings, dotted keys or both; ``--`` before and ``-`` inside a key do not matter. A key may
        stand under more levels than the dialect names (``trainer.loss.type`` for ``loss.type``), or without
        any level where its last name is that of one option only.
    version, read : str
        The version that ran, and the one whose sources the dialect was written from.
    defaults : Mapping
        Every option that the dialect reads, by dotted key. Where the default is None, a nested mapping is
        the value itself.
    unrelated : str
        Names, apart by spaces, of options that sound like one of an objective and are none.
    sections : tuple of str
        Where a key that nobody knows is worth reporting; by default at the top and beside known options.
    mixed : tuple of str
        Options that take several kinds of value.

    Raises
    ------
    BadObjective
        A value is of another kind than the default: a number, a switch, text or a list.
    """

    def __init__(
        self,
        framework: str,
        config: Mapping[str, Any],
        version: str,
        *,
        read: str,
        defaults: Mapping[str, Any],
        unrelated: str = "",
        sections: tuple[str, ...] | None = None,
        mixed: tuple[str, ...] = (),
    ) -> None:
        self.framework = framework
        self.version = version
        self.notes: list[str] = []
        self._values = dict(defaults)
        self._given: set[str] = set()
        self._ignored = set(unrelated.split())
        parents = {key.rpartition(".")[0] for key in defaults}
        self._sections = parents if sections is None else set(sections)
        self._unknown: list[str] = []
        leaves = [key.rpartition(".")[2] for key in defaults]
        self._bare = {
            leaf: key for leaf, key in zip(leaves, defaults, strict=True) if leaves.count(leaf) == 1
        }
        for path, value in _walk("", nested(config), self._known):
            self._take(path, value)
        check_kinds(framework, {key: self[key] for key in self._given}, defaults, mixed=mixed)
        if self._number(version) != self._number(read):
            self.notes.append(
                f"{framework} was read at {read}: its options are assumed to hold in {version}."
            )

    @classmethod
    def pinned(
        cls,
        framework: str,
        data: str,
        config: Mapping[str, Any],
        version: str,
        *,
        sections: tuple[str, ...] | None = None,
        mixed: tuple[str, ...] = (),
    ) -> Self:
        """Read with the defaults that were pinned in ``<data>_options.json``."""
        pinned = table(f"{data}_options")
        return cls(
            framework,
            config,
            version,
            read=pinned["read"],
            defaults=pinned["defaults"],
            unrelated=" ".join(pinned["unrelated"]),
            sections=sections,
            mixed=mixed,
        )

    def __getitem__(self, key: str) -> Any:
        """Value of an option: the config's, else the default."""
        return self._values[key]

    def full(self, key: str) -> str:
        """Dotted key of an option, for messages."""
        return key

    def given(self, key: str) -> bool:
        """Whether the config sets an option."""
        return key in self._given

    def older_than(self, version: str) -> bool:
        """Whether a numbered version ran that is older; a commit or a branch is not."""
        mine, other = self._number(self.version), self._number(version)
        return mine is not None and other is not None and mine < other

    def newer_than(self, version: str) -> bool:
        """Whether a version ran that is newer; a commit or a branch is not."""
        mine, other = self._number(self.version), self._number(version)
        return mine is not None and other is not None and mine > other

    def one_of(self, key: str, table: Mapping[Any, T]) -> T:
        """What an option stands for, by its value.

        Raises
        ------
        BadObjective
            The framework has no such value.
        """
        value = self[key]
        if value not in table:
            names = [str(name) for name in table]
            msg = f"{self.framework} has no {self.full(key)} {value!r}.{closest(str(value), names)}"
            raise BadObjective(f"{msg} Known: {', '.join(names)}.")
        return table[value]

    def refuse(self, key: str, why: str) -> BadObjective:
        """Error for an option that an objective cannot express."""
        return BadObjective(
            f"{self.framework}'s {self.full(key)}={self[key]!r} is not expressible as an objective: {why}."
        )

    def need_off(self, **reasons: str) -> None:
        """Refuse options that are on; double underscores stand for dots.

        Raises
        ------
        BadObjective
            One of them is neither None, False, 0 nor empty.
        """
        for name, why in reasons.items():
            key = name.replace("__", ".")
            if self[key]:
                raise self.refuse(key, why)

    def declared(self, objective: Objective, *notes: str) -> Declared:
        """The objective, checked, with the keys that nobody knows and all notes.

        Raises
        ------
        BadObjective
            A value has the wrong type or range.
        """
        checked = from_dict(objective.to_dict(), where=f"config of {self.framework}")
        unknown = tuple(sorted(self._unknown))
        meant = hints(self.framework, unknown, self._bare)
        return Declared(checked, unknown, (*self.notes, *meant, *notes))

    def _known(self, path: str) -> str | None:
        """Key of the option that stands at a path of the config."""
        if path in self._values:
            return path
        if "." not in path:
            return self._bare.get(path)
        return next((key for key in self._values if "." in key and path.endswith(f".{key}")), None)

    def _take(self, path: str, value: Any) -> None:
        key = self._known(path)
        parent, _, leaf = path.rpartition(".")
        if key is not None:
            self._values[key] = value
            self._given.add(key)
        elif leaf not in self._ignored and _TELLING.search(leaf):
            beside = any(parent == s or parent.endswith(f".{s}") for s in self._sections)
            if beside or not parent:
                self._unknown.append(path)

    @staticmethod
    def _number(version: str) -> tuple[int, ...] | None:
        match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
        return None if match is None else tuple(int(part or 0) for part in match.groups())


def version_read(data: str) -> str:
    """Return the version in which ``<data>_options.json`` was pinned."""
    version: str = table(f"{data}_options")["read"]
    return version


def nested(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with dotted keys unfolded, as nested dicts."""
    tree: dict[str, Any] = {}
    for name, value in config.items():
        leaf: Any = nested(value) if isinstance(value, Mapping) else value
        for part in reversed(str(name).lstrip("-").replace("-", "_").split(".")):
            leaf = {part: leaf}
        _merge(tree, leaf)
    return tree


def _merge(tree: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(tree.get(name), dict):
            _merge(tree[name], value)
        else:
            tree[name] = value


def _walk(path: str, tree: Mapping[str, Any], known: Any) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        here = f"{path}.{name}" if path else name
        if isinstance(value, dict) and known(here) is None:
            yield from _walk(here, value, known)
        else:
            yield here, value


def bounds(low: float | None, high: float | None) -> tuple[float, float] | None:
    """A pair of bounds, either of which may be absent; None where both are."""
    if low is None and high is None:
        return None
    return (-UNBOUNDED if low is None else low, UNBOUNDED if high is None else high)
