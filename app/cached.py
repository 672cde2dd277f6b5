"""Analyses of runs, kept in memory: one function an analysis, keyed on fingerprints and plain parameters.

A frame or a run is never an argument of a cached function: Streamlit would compare a sample of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st
from audit.app.listing import Fingerprint, Listed, open_listed

import audit
from audit.errors import AuditError
from audit.logs import Run

_ANALYSES: dict[str, Callable[..., Any]] = {
    "summary": audit.summary,
    "check": audit.check,
    "length": audit.length_bias,
    "groups": audit.groups,
    "prompts": audit.prompts,
    "rewards": audit.rewards,
    "staleness": audit.staleness,
    "clipping": audit.clipping,
    "kl": audit.kl,
    "mismatch": audit.mismatch,
}
"""What :func:`analysis` can be asked for."""


@st.cache_resource(max_entries=64, show_spinner=False)
def _opened(root: str, name: str, fingerprint: Fingerprint) -> Run:
    del fingerprint
    return open_listed(Path(root), name)


@st.cache_data(max_entries=512, show_spinner="Reading the log…")
def _analysis(root: str, name: str, fingerprint: Fingerprint, kind: str, options: tuple[Any, ...]) -> Any:
    try:
        return _ANALYSES[kind](_opened(root, name, fingerprint), **dict(options))
    except AuditError as error:
        return str(error)


def opened(root: Path, listed: Listed) -> Run:
    """Return the run; one object for every page and user, whose methods open their own handles.

    Raises
    ------
    AuditError
        It cannot be opened.
    """
    return _opened(str(root), listed.name, listed.fingerprint)


def analysis(root: Path, listed: Listed, kind: str, **options: Any) -> Any:
    """Return the result of an analysis, or its error as text; ``options`` are plain values."""
    return _analysis(str(root), listed.name, listed.fingerprint, kind, tuple(sorted(options.items())))


def summary(root: Path, listed: Listed) -> Any:
    """Return the summary of a run, or its error as text."""
    return analysis(root, listed, "summary")


@st.cache_data(max_entries=64, show_spinner="Comparing the runs…")
def _explained(root: str, keys: tuple[tuple[str, Fingerprint], ...]) -> Any:
    try:
        return audit.explain(*(_opened(root, name, print_) for name, print_ in keys))
    except AuditError as error:
        return str(error)


def explained(root: Path, a: Listed, b: Listed) -> Any:
    """Return why two runs differ, or the error as text."""
    return _explained(str(root), ((a.name, a.fingerprint), (b.name, b.fingerprint)))
