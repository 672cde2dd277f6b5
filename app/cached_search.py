"""Searches over the responses of a run, kept by what was asked: hits seen before are there at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import streamlit as st
from audit.app.cached import Key, key_of, open_key
from audit.app.listing import Listed

from audit.errors import AuditError
from audit.logs.locked_sql import columns_of
from audit.logs.search import Search, count_hits, facets, find_hits


@st.cache_data(max_entries=64, show_spinner="Reading the log…")
def _facets(root: str, key: Key) -> Any:
    try:
        return facets(open_key(root, key))
    except AuditError as error:
        return str(error)


def facets_of(root: Path, listed: Listed) -> Any:
    """Return what a search can filter by, or the error as text."""
    return _facets(str(root), key_of(listed))


@st.cache_data(max_entries=256, show_spinner="Searching…")
def _count(root: str, key: Key, asked: bytes) -> Any:
    try:
        return count_hits(open_key(root, key), msgspec.json.decode(asked, type=Search))
    except AuditError as error:
        return str(error)


def count(root: Path, listed: Listed, search: Search) -> Any:
    """Return how many responses match, or the error as text."""
    return _count(str(root), key_of(listed), msgspec.json.encode(search))


@st.cache_data(max_entries=256, show_spinner="Searching…")
def _hits(root: str, key: Key, asked: bytes, page: int, size: int) -> Any:
    try:
        return find_hits(open_key(root, key), msgspec.json.decode(asked, type=Search), page=page, size=size)
    except AuditError as error:
        return str(error)


def hits(root: Path, listed: Listed, search: Search, page: int, size: int) -> Any:
    """Return a page of responses that match, or the error as text."""
    return _hits(str(root), key_of(listed), msgspec.json.encode(search), page, size)


@st.cache_data(max_entries=64, show_spinner="Reading the log…")
def _columns(root: str, key: Key) -> Any:
    try:
        return columns_of(open_key(root, key))
    except AuditError as error:
        return str(error)


def columns(root: Path, listed: Listed) -> Any:
    """Return what can be asked in SQL: (table, column, type), or the error as text."""
    return _columns(str(root), key_of(listed))
