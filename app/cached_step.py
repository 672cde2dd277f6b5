"""One step of a run, kept in memory between reruns, and what is asked of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st
from audit.app import cached
from audit.app.listing import Fingerprint, Listed

from audit.analyses.clipping_text import token_texts
from audit.analyses.fitted import fitted
from audit.analyses.group_view import GroupView, group_view
from audit.analyses.one_step import OneStep
from audit.analyses.one_step import one_step as one_step_of
from audit.analyses.token_view import TokenView, root_mean_square, token_view
from audit.errors import AuditError
from audit.facts.declared import declared_objective, label, undeclared
from audit.facts.rows import RunRows
from audit.facts.step_rows import StepRows, step_rows, steps_of
from audit.facts.weight_sums import weight_sums
from audit.logs import Run
from audit.objectives.objective import Objective, from_dict


class Tokens(NamedTuple):
    """The tokens of one response, the size of a typical weight, and the objective as it was applied."""

    view: TokenView
    typical: float
    objective: dict[str, Any]
    notes: list[str]


def _run(root: str, name: str, fingerprint: Fingerprint) -> Run:
    return cached.opened(Path(root), Listed(name, name, fingerprint=fingerprint))


@st.cache_resource(max_entries=8, show_spinner="Reading the log…")
def _rows(root: str, name: str, fingerprint: Fingerprint) -> RunRows:
    return RunRows.read(_run(root, name, fingerprint), tokens=False)


@st.cache_resource(max_entries=3, show_spinner="Reading the step…")
def _step(root: str, name: str, fingerprint: Fingerprint, step: int) -> StepRows:
    return step_rows(_rows(root, name, fingerprint), step)


@st.cache_data(max_entries=64, show_spinner=False)
def _steps(root: str, name: str, fingerprint: Fingerprint) -> list[int] | str:
    try:
        return steps_of(_rows(root, name, fingerprint))
    except AuditError as error:
        return str(error)


@st.cache_data(max_entries=128, show_spinner="Weighing the step…")
def _one_step(root: str, name: str, fingerprint: Fingerprint, step: int, both: str) -> OneStep | str:
    try:
        objectives = (from_dict(fields) for fields in json.loads(both))
        return one_step_of(_step(root, name, fingerprint, step), *objectives)
    except AuditError as error:
        return str(error)


@st.cache_data(max_entries=64, show_spinner=False)
def _own(root: str, name: str, fingerprint: Fingerprint) -> tuple[dict[str, Any] | None, str]:
    try:
        declared = declared_objective(_run(root, name, fingerprint))
    except AuditError as error:
        return None, str(error)
    if declared is None:
        return None, undeclared(_run(root, name, fingerprint))
    return declared.objective.replace(name=label(declared.objective)).to_dict(), ""


@st.cache_data(max_entries=64, show_spinner=False)
def _groups(root: str, name: str, fingerprint: Fingerprint, step_: int) -> tuple[list[str], int] | str:
    try:
        held = _step(root, name, fingerprint, step_)
        first = held.with_signal
        return held.groups, 0 if first is None else held.groups.index(first)
    except AuditError as error:
        return str(error)


@st.cache_data(max_entries=64, show_spinner="Reading the group…")
def _group(
    root: str, name: str, fingerprint: Fingerprint, place: tuple[int, str], objectives: str
) -> GroupView | str:
    step_, group = place
    try:
        held = _step(root, name, fingerprint, step_)
        named = {each: from_dict(fields) for each, fields in json.loads(objectives).items()}
        return group_view(held, group, named)
    except AuditError as error:
        return str(error)


@st.cache_data(max_entries=64, show_spinner="Weighing the tokens…")
def _tokens(
    root: str, name: str, fingerprint: Fingerprint, place: tuple[int, int], objective: str
) -> Tokens | str:
    step_, row = place
    try:
        held = _step(root, name, fingerprint, step_)
        applied, notes = fitted(held.rows, from_dict(json.loads(objective)))
        typical = root_mean_square(held, weight_sums(held.rows, applied).square)
        return Tokens(token_view(held, row, applied), typical, applied.to_dict(), notes)
    except AuditError as error:
        return str(error)


@st.cache_data(max_entries=8, show_spinner=False)
def _texts(root: str, name: str, fingerprint: Fingerprint) -> tuple[dict[int, str], str]:
    return token_texts(_run(root, name, fingerprint))


def own(root: Path, listed: Listed) -> tuple[Objective | None, str]:
    """Return the objective that a run declares, or None and the reason."""
    fields, why = _own(str(root), listed.name, listed.fingerprint)
    return None if fields is None else from_dict(fields), why


def steps(root: Path, listed: Listed) -> list[int] | str:
    """Return the steps of a run, or the error as text."""
    return _steps(str(root), listed.name, listed.fingerprint)


def step(root: Path, listed: Listed, number: int) -> StepRows:
    """Return a step of a run; one object for every page and user, which nobody changes.

    Raises
    ------
    AuditError
        It cannot be read.
    """
    return _step(str(root), listed.name, listed.fingerprint, number)


def one_step(root: Path, listed: Listed, number: int, a: Objective, b: Objective) -> OneStep | str:
    """Return a step under two objectives, or the error as text."""
    both = json.dumps([a.to_dict(), b.to_dict()], sort_keys=True)
    return _one_step(str(root), listed.name, listed.fingerprint, number, both)


def group(
    root: Path, listed: Listed, number: int, name: str, objectives: Mapping[str, Objective]
) -> GroupView | str:
    """Return a group of a step under some objectives, or the error as text."""
    fields = json.dumps({each: objective.to_dict() for each, objective in objectives.items()})
    return _group(str(root), listed.name, listed.fingerprint, (number, name), fields)


def groups(root: Path, listed: Listed, number: int) -> tuple[list[str], int] | str:
    """Return the groups of a step and the place of one to begin with, or the error as text."""
    return _groups(str(root), listed.name, listed.fingerprint, number)


def tokens(root: Path, listed: Listed, number: int, row: int, objective: Objective) -> Tokens | str:
    """Return the tokens of a response under an objective, or the error as text."""
    fields = json.dumps(objective.to_dict(), sort_keys=True)
    return _tokens(str(root), listed.name, listed.fingerprint, (number, row), fields)


def texts(root: Path, listed: Listed) -> tuple[dict[int, str], str]:
    """Return the text of token ids where the log proves it, and how it does."""
    return _texts(str(root), listed.name, listed.fingerprint)
