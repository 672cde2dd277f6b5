"""Tokens along a branch of a message graph → lists over response tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from audit.importers.interface import Book, Row
from audit.importers.values import OddValue, flags, integers, numbers

COMPACT = {
    "logprobs": "logp_sampler",
    "trainer_logprobs": "logp_theta",
    "reference_logprobs": "logp_ref",
    "entropies": "entropy",
}
"""Name in the graph, one value for each generated token → column."""
ROUNDED = "log-probs were rounded to 4 decimals when they were written (verifiers 0.4)"
WEIGHTED = "loss weights other than 0 and 1 were taken as 1 for the loss mask"
DECIMALS = 4
LOOKED_AT = 64
"""Log-probs of a response by which rounding is told."""


class Tokens(NamedTuple):
    """What the nodes of one branch say of tokens."""

    columns: Row
    ids: list[int] | None
    start: int


class _Node(NamedTuple):
    ids: list[int]
    mask: list[bool]
    generated: int
    """Number of generated tokens."""
    inner: Mapping[str, Any]


def columns_of(along: list[Any], book: Book) -> Tokens:
    """Return the columns of the tokens along a path; none where a generated message has no token ids.

    Raises
    ------
    OddValue
        The lists of a node contradict each other.
    """
    nodes = [_node(node) for node in along]
    without = [node for node in nodes if node.inner.get("sampled") is True and not node.generated]
    ids = [token for node in nodes for token in node.ids]
    mask = [told for node in nodes for told in node.mask]
    if without or True not in mask:
        return Tokens({}, None, 0)
    start = mask.index(True)
    columns: Row = {
        "prompt_length": start,
        "token_ids": ids[start:],
        "loss_mask": _loss_mask(nodes, mask, book)[start:],
    }
    for name, column in COMPACT.items():
        values = _spread(nodes, name)
        if values is not None:
            columns[column] = values[start:]
    if ROUNDED not in book.notes and _rounded(columns.get("logp_sampler", ())):
        book.note(ROUNDED)
    advantages = _advantages(nodes, book)
    if advantages is not None:
        given = {value for value, told in zip(advantages, mask, strict=True) if told}
        if len(given) == 1:
            columns["advantage"] = given.pop()
        else:
            columns["token_advantage"] = advantages[start:]
    return Tokens(columns, ids, start)


def _rounded(values: Sequence[float]) -> bool:
    told = [value for value in values[:LOOKED_AT] if value]
    return bool(told) and all(value == round(value, DECIMALS) for value in told)


def _node(node: Mapping[str, Any]) -> _Node:
    ids = [int(each) for each in _listed(integers(node.get("token_ids"), "token_ids"))]
    mask = [bool(each) for each in _listed(flags(node.get("mask"), "mask"))]
    if len(mask) != len(ids):
        raise OddValue("mask and token_ids of a message differ in length")
    return _Node(ids, mask, sum(mask), node)


def _listed(found: Any) -> list[Any]:
    return [] if found is None else list(found)


def _spread(nodes: list[_Node], name: str) -> list[float] | None:
    """Values of generated tokens over all tokens, 0 on the others; None where a message has none."""
    out: list[float] = []
    for node in nodes:
        if not node.generated:
            out += [0.0] * len(node.ids)
            continue
        values = _listed(numbers(node.inner.get(name), name))
        if not values:
            return None
        if len(values) != node.generated:
            raise OddValue(f"{name} of a message are not one for each generated token")
        if None in values:
            raise OddValue(f"{name} hold a null")
        out += _over(node.mask, node.generated, values)
    return out


def _over(mask: list[bool], count: int, values: list[float]) -> list[float]:
    if all(mask[-count:]):
        return [0.0] * (len(mask) - count) + values
    following = iter(values)
    return [next(following) if told else 0.0 for told in mask]


def _advantages(nodes: list[_Node], book: Book) -> list[float] | None:
    """Advantages over all tokens; None where none was assigned. Those that were not assigned are 0."""
    if all(node.inner.get("advantages") is None for node in nodes if node.generated):
        return None
    out: list[float] = []
    for node in nodes:
        values = _listed(numbers(node.inner.get("advantages"), "advantages"))
        if (node.generated and not values) or None in values:
            book.note("generated tokens without an advantage beside others that have one: taken as 0")
            values = [0.0 if v is None else v for v in values] or [0.0] * node.generated
        if len(values) not in (0, node.generated):
            raise OddValue("advantages of a message are not one for each generated token")
        out += _over(node.mask, node.generated, values) if node.generated else [0.0] * len(node.ids)
    return out


def _loss_mask(nodes: list[_Node], mask: list[bool], book: Book) -> list[bool]:
    """Generated tokens, without those whose weight of the ``rl`` loss is 0."""
    if not any(isinstance(node.inner.get("loss_weights"), dict) for node in nodes):
        return mask
    made: list[bool] = []
    for node in nodes:
        weights = node.inner.get("loss_weights")
        given = _listed(numbers(weights.get("rl"), "rl")) if isinstance(weights, dict) else []
        if given and len(given) != len(node.ids):
            raise OddValue("loss weights of a message are not one for each token")
        if any(weight not in (0.0, 1.0) for weight in given):
            book.note(WEIGHTED)
        made += (
            [told and weight != 0.0 for told, weight in zip(node.mask, given, strict=True)]
            if given
            else node.mask
        )
    return made
