"""One record with any names → rows with the schema's names; a record may hold the lists of many rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from audit.importers.finish import finish_reason
from audit.importers.generic.columns import Plan
from audit.importers.interface import Book, Row
from audit.importers.values import OddValue, flag
from audit.logs.new_rows import hash_prompt
from audit.schema import BY_NAME, TOKEN_LISTS

UNEVEN = "lists of one record differ in length"
_KEYS = ("prompt", "response", "reward", "group_id", "prompt_id", "token_ids")
"""Columns whose lists say that one record holds many rows."""
_TRUNCATED = ("truncated", "is_truncated")


def rows_of(record: Mapping[str, Any], plan: Plan) -> list[Row]:
    """Return the rows of a record.

    Raises
    ------
    OddValue
        It holds lists of many rows that differ in length.
    """
    row, rest = _named(record, plan)
    many = _length(row)
    if many is None:
        return [_finished(row, rest, plan)]
    listed = {name for name, value in row.items() if _is_column(name, value) and len(value) == many}
    odd = [name for name in _KEYS if _is_column(name, row.get(name)) and name not in listed]
    if odd:
        raise OddValue(UNEVEN)
    others = {name for name, value in rest.items() if isinstance(value, list) and len(value) == many}
    return [
        _finished(
            {name: value[i] if name in listed else value for name, value in row.items()},
            {name: value[i] if name in others else value for name, value in rest.items()},
            plan,
        )
        for i in range(many)
    ]


def _named(record: Mapping[str, Any], plan: Plan) -> tuple[Row, dict[str, Any]]:
    """Split a record in values of the schema and the rest."""
    row: Row = {}
    used = set()
    for target, sources in plan.sources.items():
        for name in sources:
            value = record[name] if name in record else _inside(record, name)
            if value is None:
                continue
            value = _parsed(value, target)
            if target in plan.exact or _of_kind(value, target, name):
                row[target] = value
                used.add(name)
                break
    return row, {name: value for name, value in record.items() if name not in used}


def _inside(record: Mapping[str, Any], path: str) -> Any:
    """Follow a dotted path; None where it leads nowhere."""
    value: Any = record
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _parsed(value: Any, target: str) -> Any:
    """Read JSON that stands in a string, where the column holds lists, an object, or a conversation."""
    if not isinstance(value, str):
        return dict(value) if target == "reward_components" and _is_pairs(value) else value
    bare = value.strip()
    lists = target in TOKEN_LISTS or target in {"prompt_token_ids", "messages"}
    chat = target in {"prompt", "response"} and bare.startswith('[{"role"')
    if not (chat or (lists and bare[:1] == "[") or (target == "reward_components" and bare[:1] == "{")):
        return None if bare == "" and target in BY_NAME and BY_NAME[target].type != "string" else value
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return value


def _is_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, tuple) and len(each) == 2 for each in value)


def _of_kind(value: Any, target: str, name: str) -> bool:
    """Whether a value may be meant for a column whose name was only guessed."""
    if target in {"length", "prompt_length"}:
        return not isinstance(value, list) or "len" in name.lower()
    if target in TOKEN_LISTS or target == "prompt_token_ids":
        return isinstance(value, list)
    if target == "correct":
        try:
            return isinstance(value, list) or flag(value, target) is not None
        except OddValue:
            return False
    return True


def _length(row: Row) -> int | None:
    """Rows of a record that holds columns; None where it is one row."""
    texts = [row[name] for name in ("response", "prompt") if _is_column(name, row.get(name))]
    ids = [row["token_ids"]] if _is_column("token_ids", row.get("token_ids")) else []
    if not (texts or ids):
        return None
    scored = [row[n] for n in ("reward", "advantage", "group_id") if isinstance(row.get(n), list)]
    if not scored and len(texts) + len(ids) < 2:
        return None
    return len((texts or ids)[0])


def _is_column(name: str, value: Any) -> bool:
    """Whether a list holds one value of this column for each of several rows."""
    if not isinstance(value, list) or not value:
        return False
    if name in TOKEN_LISTS or name == "prompt_token_ids":
        return all(isinstance(each, list) or each is None for each in value)
    return not _is_chat(value)


def _is_chat(value: list[Any]) -> bool:
    return all(isinstance(each, dict) and "role" in each for each in value)


def _finished(row: Row, rest: dict[str, Any], plan: Plan) -> Row:
    """Fill in what follows from other values, and put the rest aside."""
    _advantages(row)
    _conversation(row)
    ids = row.pop("prompt_token_ids", None)
    if isinstance(ids, list):
        row.setdefault("prompt_length", len(ids))
        if row.get("prompt_id") is None and row.get("prompt") is None:
            row["prompt_id"] = hash_prompt(" ".join(map(str, ids)))
    if isinstance(row.get("reward"), Mapping):
        row["reward_components"] = row.pop("reward")
    if row.get("finish_reason") is None:
        for name in _TRUNCATED:
            if name in rest:
                row["finish_reason"] = _ended(rest[name])
    elif "finish_reason" not in plan.exact:
        row["finish_reason"] = finish_reason(row["finish_reason"])
    extra = {name: value for name, value in rest.items() if not name.startswith("__")}
    if extra:
        known = row.get("extra")
        if isinstance(known, str):
            known = _object(known)
        row["extra"] = {**known, **extra} if isinstance(known, Mapping) else extra
    elif isinstance(row.get("extra"), str):
        row["extra"] = _object(row["extra"])
    return row


def _object(text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def _advantages(row: Row) -> None:
    """A list of advantages is one a token; where all are one value that is the response's as well."""
    tokens = row.get("token_advantage")
    given = row.get("advantage")
    if isinstance(given, list) and (len(given) != 1 or isinstance(given[0], list)):
        tokens = row["token_advantage"] = row.pop("advantage")
    while isinstance(tokens, list) and len(tokens) == 1 and isinstance(tokens[0], list):
        tokens = tokens[0]
    if row.get("advantage") is not None or not isinstance(tokens, list) or not tokens:
        return
    if all(each == tokens[0] for each in tokens):
        row["advantage"] = tokens[0]


def _conversation(row: Row) -> None:
    """Cut a conversation before its first answer, where the log has no prompt and response apart."""
    said = row.pop("messages", None)
    if not isinstance(said, list) or not said or not _is_chat(said):
        return
    first = next((i for i, m in enumerate(said) if m["role"] == "assistant"), len(said))
    row.setdefault("prompt", said[:first])
    if first < len(said):
        row.setdefault("response", said[first:])


def _ended(value: Any) -> str | None:
    try:
        cut = flag(value, "truncated")
    except OddValue:
        return None
    return None if cut is None else "length" if cut else "stop"


def numbered(rows: Iterator[Row], book: Book, step: int | None) -> Iterator[Row]:
    """Give rows without a step the one of their file, or 0, and say so."""
    for row in rows:
        if row.get("step") is None:
            row["step"] = 0 if step is None else step
            book.note(
                "no step column: all rows are taken as one step"
                if step is None
                else "no step column: the step is the number in the name of the file"
            )
        yield row
