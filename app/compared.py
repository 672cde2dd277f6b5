"""Comparisons of runs, kept in memory; keyed on fingerprints, as in :mod:`audit.app.cached`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st
from audit.app.cached import Key, key_of, known_of, open_key
from audit.app.listing import Listed

from audit.analyses.explain_many import explain_many, labels_of
from audit.analyses.pair import Pair
from audit.analyses.prompt_responses import Visit, prompt_responses
from audit.analyses.shared_prompts import shared_prompts
from audit.analyses.weight_shifts import shifts_between
from audit.errors import AuditError


@st.cache_data(max_entries=32, show_spinner=False)
def _many(root: str, keys: tuple[Key, ...]) -> Any:
    try:
        return explain_many([open_key(root, key) for key in keys])
    except AuditError as error:
        return str(error)


def explained_many(root: Path, runs: Sequence[Listed]) -> Any:
    """Return how several runs differ, or the error as text."""
    return _many(str(root), tuple(map(key_of, runs)))


def labels(root: Path, runs: Sequence[Listed]) -> list[str]:
    """Return what the comparison of several runs calls each of them."""
    return labels_of([open_key(str(root), key_of(run)) for run in runs])


@st.cache_data(max_entries=64, show_spinner="Weighing the same rollouts twice…")
def _shifts(root: str, a: Key, b: Key) -> Any:
    try:
        return shifts_between(known_of(root, a), known_of(root, b))
    except AuditError as error:
        return str(error)


def shifts(root: Path, a: Listed, b: Listed) -> Any:
    """Return where the objectives of two runs put their weight, or the error as text."""
    return _shifts(str(root), key_of(a), key_of(b))


@st.cache_data(max_entries=64, show_spinner="Looking for prompts that both runs drew…")
def _prompts(root: str, a: Key, b: Key) -> Any:
    try:
        return shared_prompts(Pair(known_of(root, a).rows, known_of(root, b).rows))
    except AuditError as error:
        return str(error)


def prompts(root: Path, a: Listed, b: Listed) -> Any:
    """Return the prompts that two runs share, or the error as text."""
    return _prompts(str(root), key_of(a), key_of(b))


@st.cache_data(max_entries=128, show_spinner="Reading the texts…")
def _visit(root: str, key: Key, prompt_id: str, step: int | None, until: int | None) -> Visit | str:
    try:
        return prompt_responses(open_key(root, key), prompt_id, step=step, until=until)
    except AuditError as error:
        return str(error)


def visit(
    root: Path, run: Listed, prompt_id: str, *, step: int | None = None, until: int | None = None
) -> Visit | str:
    """Return what a run answered to a prompt, or the error as text."""
    return _visit(str(root), key_of(run), prompt_id, step, until)
