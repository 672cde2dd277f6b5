"""Analyses of runs, kept in memory: one function an analysis, keyed on fingerprints and plain parameters.

A frame or a run is never an argument of a cached function: Streamlit would compare a sample of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st
from audit.app.listing import Below, Fingerprint, Listed, below, open_listed

import audit
from audit.analyses.explain import Known, explain_known, known
from audit.analyses.metric_curves import metric_curves
from audit.analyses.run_overview import run_overview
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.logs import Run


def _of_audit(name: str, run: Run, **options: Any) -> Any:
    # Asked for when it is called: some of them import torch, which the first page does not need.
    return getattr(audit, name)(run, **options)


_ANALYSES: dict[str, Callable[..., Any]] = {
    **{
        name: partial(_of_audit, name)
        for name in (
            *("summary", "check", "groups", "prompts", "rewards", "staleness"),
            *("clipping", "kl", "mismatch"),
        )
    },
    "length": partial(_of_audit, "length_bias"),
    "curves": lambda run: metric_curves(RunRows.read(run)),
}
"""What :func:`analysis` can be asked for."""


Key = tuple[str, Fingerprint]
"""Name of a run, and which version of its files is meant."""


def key_of(listed: Listed) -> Key:
    """Return what the results of a run are kept under: another one as soon as a file is written."""
    return listed.name, listed.fingerprint


REFRESH = 10
"""Seconds for which one look at the directory holds."""


@st.cache_resource(ttl=REFRESH, max_entries=4, show_spinner=False)
def found(root: str) -> Below:
    """Every run of the directory, from one look at it.

    Raises
    ------
    AuditError
        The directory cannot be read.
    """
    return below(Path(root))


@st.cache_resource(max_entries=512, show_spinner=False)
def open_key(root: str, key: Key) -> Run:
    """Open the run of a key; for the cached functions of other modules."""
    run = found(root).runs.get(key)
    return open_listed(Path(root), key[0]) if run is None else run


@st.cache_data(max_entries=512, show_spinner=False)
def _analysis(root: str, key: Key, kind: str, options: tuple[Any, ...]) -> Any:
    try:
        return _ANALYSES[kind](open_key(root, key), **dict(options))
    except AuditError as error:
        return str(error)


@st.cache_data(max_entries=8192, show_spinner=False)
def _overview(root: str, key: Key) -> Any:
    try:
        return run_overview(open_key(root, key))
    except AuditError as error:
        return str(error)


def overview(root: Path, listed: Listed) -> Any:
    """Return a run in one line, or its error as text."""
    return _overview(str(root), key_of(listed))


def opened(root: Path, listed: Listed) -> Run:
    """Return the run; one object for every page and user, whose methods open their own handles.

    Raises
    ------
    AuditError
        It cannot be opened.
    """
    return open_key(str(root), key_of(listed))


def analysis(root: Path, listed: Listed, kind: str, **options: Any) -> Any:
    """Return the result of an analysis, or its error as text; ``options`` are plain values."""
    return _analysis(str(root), key_of(listed), kind, tuple(sorted(options.items())))


def summary(root: Path, listed: Listed) -> Any:
    """Return the summary of a run, or its error as text."""
    return analysis(root, listed, "summary")


@st.cache_resource(max_entries=6, show_spinner=False)
def known_of(root: str, key: Key) -> Known:
    """Read what one log says by itself; a few are kept, for they hold the columns of their runs."""
    return known(open_key(root, key))


@st.cache_data(max_entries=64, show_spinner=False)
def _explained(root: str, a: Key, b: Key) -> Any:
    try:
        return explain_known(known_of(root, a), known_of(root, b))
    except AuditError as error:
        return str(error)


def explained(root: Path, a: Listed, b: Listed) -> Any:
    """Return why two runs differ, or the error as text."""
    return _explained(str(root), key_of(a), key_of(b))
