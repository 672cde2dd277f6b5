"""Columns of verl's ``uid``: a uuid a prompt, in the V1 trainer ``{uuid}_{session}_{output}``."""

from __future__ import annotations

import re
from typing import Any

from audit.importers.interface import Row

_UID = re.compile(r"(?P<group>.+)_(?P<session>\d{1,9})_(?P<output>\d{1,9})", re.DOTALL)
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


def session_of(uid: Any) -> str | None:
    """Return the part that names a session, or None where there is none."""
    match = _UID.fullmatch(uid) if isinstance(uid, str) else None
    return None if match is None else f"{match['group']}_{match['session']}"


def group_columns(uid: Any, step: Any, *, several: bool = False) -> Row:
    """Return the group of a row, and its place in it.

    Parameters
    ----------
    several : bool
        Whether its session has several outputs, which are turns of one trajectory.
    """
    if uid is None:
        return {}
    match = _UID.fullmatch(uid) if isinstance(uid, str) else None
    name = match["group"] if match else str(uid)
    # Only a uuid is unique beyond its step.
    row: Row = {"group_id": name if _UUID.fullmatch(name) else f"{step}:{name}"}
    if match is not None:
        row["sample_index"] = int(match["session"])
        if several:
            row |= {"trajectory_id": session_of(uid), "turn": int(match["output"])}
    return row
