"""Checks across rows: keys, groups, prompts, rewards. In SQL, over the columns without tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pyarrow as pa

from audit.logs.batching import batch_schema
from audit.logs.new_rows import hash_prompt
from audit.logs.run import Run
from audit.schema import BY_NAME, KEY, REQUIRED, Problem

ROW_COLUMNS = tuple(
    dict.fromkeys(
        (
            *KEY,
            *REQUIRED,
            "trajectory_id",
            "turn",
            "length",
            "prompt_length",
            "advantage",
            "is_greedy",
            "prompt",
        )
    )
)
"""Columns that :func:`rows_to_check` needs."""

_FEW = 5
"""Steps that a problem lists."""

_COUNTS = ("epoch", "micro_batch", "sample_index", "turn", "length", "prompt_length")
"""Columns that count something and so cannot be negative."""

_SAMPLE = "coalesce(trajectory_id, cast(sample_index as varchar))"


class _Check(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    severity: Literal["error", "warning", "info"]
    rows: str
    """SQL condition on the rows of ``responses``, or a whole query, that selects the wrong ones."""
    summary: str
    column: str | None = None
    certainty: Literal["certain", "likely"] = "certain"
    hint: str = ""


def _in(column: str, groups: str) -> str:
    """Rows whose ``column`` is among what ``groups``, the tail of a query, leaves."""
    return f"{column} in (select {column} from responses {groups})"


_CHECKS = (
    *(
        _Check(
            id="required.null",
            severity="error",
            column=name,
            rows=f"{name} is null",
            summary=f"'{name}' is null in {{rows}} responses; the schema requires a value.",
        )
        for name in REQUIRED
        if not BY_NAME[name].nullable
    ),
    *(
        _Check(
            id="value.negative",
            severity="error",
            column=name,
            rows=f"{name} < 0",
            summary=f"'{name}' is negative in {{rows}} responses.",
        )
        for name in _COUNTS
    ),
    _Check(
        id="reward.null",
        severity="warning",
        column="reward",
        rows="reward is null",
        summary="{rows} responses have no reward (null: unscorable).",
        hint="They take part in no mean and in no baseline.",
    ),
    _Check(
        id="reward.nan",
        severity="error",
        column="reward",
        rows="isnan(reward)",
        summary="The reward of {rows} responses is NaN.",
        hint="Write null where a response cannot be scored.",
    ),
    _Check(
        id="reward.infinite",
        severity="error",
        column="reward",
        rows="isinf(reward)",
        summary="The reward of {rows} responses is infinite.",
    ),
    _Check(
        id="advantage.non-finite",
        severity="error",
        column="advantage",
        rows="not isfinite(advantage)",
        summary="The advantage of {rows} responses is NaN or infinite.",
    ),
    _Check(
        id="key.duplicate",
        severity="error",
        rows=f"true qualify count(*) over (partition by {', '.join(KEY)}, turn) > 1",
        summary=f"{{rows}} responses share their key ({', '.join(KEY)}, turn) with another one.",
        hint="Rows were written twice, or sample_index does not tell the rows of a group apart.",
    ),
    _Check(
        id="group.prompt-mix",
        severity="error",
        column="group_id",
        rows=_in("group_id", "group by group_id having count(distinct prompt_id) > 1"),
        summary="{rows} responses are in groups with several prompt_ids; a group has one prompt.",
    ),
    _Check(
        id="group.reused",
        severity="error",
        column="group_id",
        rows=_in(
            "group_id",
            f"group by group_id, {_SAMPLE}, turn "
            "having count(distinct step) > 1 and count(distinct hash(reward, length)) > 1",
        ),
        summary="{rows} responses are in groups whose group_id returns at another step with another outcome.",
        certainty="likely",
        hint="group_id must be unique within a run: put the step into it.",
    ),
    _Check(
        id="prompt.id-clash",
        severity="error",
        column="prompt_id",
        # The prompt of a later turn holds what was said before it.
        rows="coalesce(turn, 0) = 0 and "
        + _in(
            "prompt_id",
            "where coalesce(turn, 0) = 0 group by prompt_id having count(distinct prompt) > 1",
        ),
        summary="{rows} responses have a prompt_id that stands for several prompt texts.",
    ),
    _Check(
        id="prompt.id-split",
        severity="warning",
        column="prompt_id",
        rows=_in("prompt", "group by prompt having count(distinct prompt_id) > 1"),
        summary="{rows} responses have a prompt text that goes by several prompt_ids.",
        hint="Same prompt, same id, across steps: comparisons by prompt count them apart otherwise.",
    ),
)


def _group_size(size: int) -> _Check:
    return _Check(
        id="group.size",
        severity="warning",
        column="group_id",
        rows=_in(
            "group_id",
            f"where not is_greedy group by group_id having count(distinct {_SAMPLE}) <> {size}",
        ),
        summary=f"{{rows}} responses are in groups without the {size} samples that run.json declares.",
        hint="Rows are missing from the log, or run.json is wrong.",
    )


def rows_to_check(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of :data:`ROW_COLUMNS`, with the prompt text replaced by its hash."""
    kept = batch.select(list(ROW_COLUMNS))
    texts = kept["prompt"].dictionary_encode()
    hashes = pa.array([hash_prompt(text) for text in texts.dictionary.to_pylist()], pa.string())
    place = kept.schema.get_field_index("prompt")
    return kept.set_column(place, kept.schema.field("prompt"), hashes.take(texts.indices))


def row_problems(run: Run, rows: Sequence[pa.RecordBatch]) -> list[Problem]:
    """Return the problems of keys, groups, prompts and rewards over all rows."""
    import duckdb

    table = pa.Table.from_batches(rows, schema=batch_schema(ROW_COLUMNS))
    size = run.manifest.group_size
    checks = _CHECKS if size is None else (*_CHECKS, _group_size(size))
    with duckdb.connect() as connection:
        connection.register("responses", table)
        found = [_problem(connection, check) for check in checks]
    return [problem for problem in found if problem is not None]


def _problem(connection: Any, check: _Check) -> Problem | None:
    marked = f"select step from responses where {check.rows}"
    query = f"select count(*), list_slice(list(distinct step order by step), 1, {_FEW}) from ({marked})"
    rows, steps = connection.execute(query).fetchone()
    if not rows:
        return None
    return Problem(
        id=check.id,
        severity=check.severity,
        column=check.column,
        rows=rows,
        steps=tuple(step for step in steps or () if step is not None) or None,
        summary=check.summary.format(rows=rows),
        certainty=check.certainty,
        hint=check.hint,
    )
