"""Stand-ins for what the frameworks import but do not need for their mathematics: Ray, Triton, vLLM."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, ClassVar
from unittest.mock import MagicMock


class _Stub(ModuleType):
    """A module in which every name exists: decorators return what they decorate, classes can be derived."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("is_initialized", "is_available"):
            return lambda *_, **__: False
        if name in ("remote", "jit", "autotune", "heuristics"):
            return _decorator
        if name[0].isupper():
            return type(name, (), {})
        return MagicMock()


class _Bare(ModuleType):
    """A package whose submodules can be imported, and in which every class exists."""

    def __getattr__(self, name: str) -> Any:
        if name[:1].isupper():
            return type(name, (), {})
        raise AttributeError(name)


def _decorator(*args: Any, **options: Any) -> Any:
    return args[0] if len(args) == 1 and callable(args[0]) and not options else lambda wrapped: wrapped


class _Finder(MetaPathFinder, Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = set(names)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return (
            ModuleSpec(fullname, self, is_package=True)
            if fullname.split(".", maxsplit=1)[0] in self._names
            else None
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def stub(*names: str) -> None:
    """Stand in for those of the top-level packages ``names`` that are not installed."""
    missing = [name for name in names if name not in sys.modules and PathFinder.find_spec(name) is None]
    if missing:
        sys.meta_path.append(_Finder(missing))


def bare(*names: str) -> None:
    """Let submodules of installed packages be imported without running the packages' own ``__init__``."""
    for name in names:
        if name in sys.modules:
            continue
        parent, _, _ = name.rpartition(".")
        path = sys.modules[parent].__path__ if parent else None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None, name
        module = _Bare(name)
        module.__path__ = list(spec.submodule_search_locations or [])
        sys.modules[name] = module


def replace(*names: str) -> None:
    """Stand in for single modules of installed packages."""
    for name in names:
        sys.modules.setdefault(name, _Stub(name))
