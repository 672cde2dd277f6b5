"""Message graphs of verifiers 0.2 and later, and of prime-rl 0.7 and later: one row for each branch.

Read: verifiers/v1/{graph,trace,episode}.py of the released 0.4.0 and at 6c64ce6a3, d30a3f48e and a60a606ec,
which prime-rl 0.7.0, 0.8.0 and its main of 2026-08-21 pin. A node holds the tokens that its message adds;
those along a path from a root to a leaf are one training sample. Values of the generated tokens alone
(``logprobs``, ``advantages``, …) are spread over them here, with 0 on tokens that were given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from audit.importers.finish import finish_reason
from audit.importers.interface import Book, Row
from audit.importers.trace_tokens import columns_of
from audit.importers.values import OddValue, number, text

UNSAMPLED = "branch without a generated message (failed before its first response?)"
UNTRAINED = "trace of an agent that is not trained"
NOT_TAKEN = "attempt of a compaction that was not gone on with"
NO_NODES = "trace without messages"
NO_TRACE = "episode without a trace (it failed before one was made)"
LIMITS = {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"}


class Branch(NamedTuple):
    """One path of a graph."""

    row: Row
    """Columns of the schema, without step and group."""
    ids: list[int] | None
    """Token ids of prompt and response together; None where there are none."""
    start: int
    """Tokens before the first generated one."""


def traces_of(record: Row, book: Book) -> Iterator[Row]:
    """Yield the traces of a line: of an episode, or the line itself where it is a trace."""
    if "nodes" in record:
        yield record
        return
    traces = record.get("traces")
    if not isinstance(traces, list) or not traces:
        book.reject(NO_TRACE)
        return
    for trace in traces:
        if isinstance(trace, dict):
            yield trace
        else:
            book.reject("trace is not a JSON object")


def branches_of(trace: Mapping[str, Any], book: Book) -> Iterator[Branch]:
    """Yield the branches of a trace; what is none is rejected."""
    agent = trace.get("agent")
    nodes = trace.get("nodes")
    if isinstance(agent, dict) and agent.get("trainable") is False:
        book.reject(UNTRAINED)
        return
    if not isinstance(nodes, list) or not nodes:
        book.reject(NO_NODES)
        return
    try:
        paths = paths_of(nodes)
        shared = _shared(trace)
    except OddValue as odd:
        book.reject(str(odd))
        return
    asked: list[dict[str, Any]] | None = None
    for place, path in enumerate(paths):
        if _not_taken(nodes, path[-1]):
            book.reject(NOT_TAKEN)
            continue
        try:
            branch = _branch(trace, nodes, path, shared, book)
        except OddValue as odd:
            book.reject(str(odd))
            continue
        if len(paths) > 1:
            # Later branches go on in a context that was rewritten; what was asked is the first one's.
            asked = asked or branch.row["prompt"]
            branch.row["extra"] |= {"branch": place, "context": text(branch.row["prompt"]) if place else None}
            branch.row.update(trajectory_id=trace.get("id"), prompt=asked)
        yield branch


def paths_of(nodes: list[Any]) -> list[list[int]]:
    """Return the paths from a root to each leaf, in the order of the leaves.

    Raises
    ------
    OddValue
        A node is no object, or its parent does not stand before it.
    """
    parents: list[int | None] = []
    for at, node in enumerate(nodes):
        parent = node.get("parent") if isinstance(node, dict) else at
        if parent is not None and (not isinstance(parent, int) or not 0 <= parent < at):
            raise OddValue("a message of the trace has no parent before it")
        parents.append(parent)
    inner = set(parents)
    found = []
    for leaf in range(len(nodes)):
        if leaf in inner:
            continue
        path: list[int] = []
        at_: int | None = leaf
        while at_ is not None:
            path.append(at_)
            at_ = parents[at_]
        found.append(path[::-1])
    return found


def reward_of(trace: Mapping[str, Any]) -> tuple[float | None, dict[str, float]]:
    """Return the reward, the sum of score · weight, and its parts so weighted.

    Null where nothing was scored. prime-rl 0.7 has numbers in place of scores and weights.

    Raises
    ------
    OddValue
        A score or weight is no number.
    """
    rewards = trace.get("rewards")
    parts: dict[str, float] = {}
    for name, each in rewards.items() if isinstance(rewards, dict) else ():
        score = number(each.get("score") if isinstance(each, dict) else each, f"reward {name!r}")
        weight = number(each.get("weight"), f"weight of {name!r}") if isinstance(each, dict) else None
        if score is not None:
            parts[str(name)] = score * (1.0 if weight is None else weight)
    failed = trace.get("ok") is False or bool(trace.get("errors"))
    if not parts and (failed or rewards):
        return None, parts
    # A task without rewards trains with 0, as Trace.reward says.
    return sum(parts.values()), parts


def _shared(trace: Mapping[str, Any]) -> Row:
    reward, parts = reward_of(trace)
    timing = trace.get("timing")
    agent, task = trace.get("agent"), trace.get("task")
    extra = {
        "agent": agent.get("name") if isinstance(agent, dict) else None,
        "task": (task.get("key") or task.get("type")) if isinstance(task, dict) else None,
        "trace": trace.get("id"),
        **{
            name: trace.get(name) or None
            for name in ("metrics", "info", "stop_condition", "ok", "is_timeout")
        },
        "errors": [e.get("type") if isinstance(e, dict) else str(e) for e in _list(trace.get("errors"))]
        or None,
    }
    row: Row = {"reward": reward, "reward_components": parts or None, "extra": extra}
    start = timing.get("start") if isinstance(timing, dict) else None
    if isinstance(start, (int, float)) and start > 0:
        row["created_at"] = start
    return row


def _branch(trace: Mapping[str, Any], nodes: list[Any], path: list[int], shared: Row, book: Book) -> Branch:
    along = [nodes[at] for at in path]
    first = next((i for i, node in enumerate(along) if node.get("sampled") is True), None)
    if first is None:
        raise OddValue(UNSAMPLED)
    told = [_message(node) for node in along]
    found = columns_of(along, book)
    calls = [c for c in _list(trace.get("calls")) if isinstance(c, dict) and c.get("node") in path]
    row = {
        **shared,
        "extra": dict(shared["extra"]),
        "prompt": told[:first] or None,
        "response": told[first:],
        "finish_reason": _finish(trace, along, calls),
        **found.columns,
    }
    if "length" not in row:
        row |= _lengths(along, calls)
    return Branch(row, found.ids, found.start)


def _message(node: Mapping[str, Any]) -> dict[str, Any]:
    message = node.get("message")
    if not isinstance(message, dict) or "role" not in message:
        raise OddValue("a message of the trace has no role")
    return message


def _finish(trace: Mapping[str, Any], along: list[Any], calls: list[Any]) -> str | None:
    """Return why the branch ended: by a limit, an error, or as the model's last call did."""
    if str(trace.get("stop_condition")) in LIMITS:
        return "length"
    if trace.get("ok") is False or trace.get("errors") or trace.get("is_timeout"):
        return "abort"
    told = [call.get("finish_reason") for call in calls if not call.get("error")]
    # prime-rl 0.7 kept it on the message.
    told += [node.get("finish_reason") for node in along if node.get("finish_reason")]
    return finish_reason(told[-1]) if told else None


def _lengths(along: list[Any], calls: list[Any]) -> Row:
    """Return the lengths that the provider counted, where one generated message is the response."""
    used = [call.get("usage") for call in calls if not call.get("error")]
    generated = sum(node.get("sampled") is True for node in along)
    if (
        len(used) != 1
        or generated != 1
        or along[-1].get("sampled") is not True
        or not isinstance(used[0], dict)
    ):
        return {}
    prompt = number(used[0].get("prompt_tokens"), "prompt_tokens")
    cached = number(used[0].get("cached_input_tokens"), "cached_input_tokens")
    return {
        "length": used[0].get("completion_tokens"),
        "prompt_length": None if prompt is None else prompt + (cached or 0),
    }


def _not_taken(nodes: list[Any], leaf: int) -> bool:
    """Whether a leaf is an attempt to compact the context from which no other message went on."""
    if not _links(nodes[leaf], "compaction_attempt"):
        return False
    return not any(link.get("node") == leaf for node in nodes for link in _links(node, "compaction"))


def _links(node: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    found = _list(node.get("semantic_parents"))
    return [link for link in found if isinstance(link, dict) and link.get("type") == kind]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
