"""Token lists of NeMo-RL: of the whole padded sequence → of the response, from its first generated token.

Value i of every list belongs to token i; position 0 of the log-probs is a dummy. Generated tokens are those
that the mask trains; a sample whose ``sample_loss_mask`` is 0 trains none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from audit.importers.interface import Book, Row
from audit.importers.values import OddValue, flags, integer, integers, number, numbers, text

_LISTS = {"generation_logprobs": "logp_sampler", "prev_logprobs": "logp_old"}


class Tokens(NamedTuple):
    """What the lists of one sample say."""

    columns: Row
    """Columns of the rollout schema, lists over response tokens."""
    prompt: list[int] | None
    """Token ids of the prompt."""
    mask: list[bool] | None
    """Whether each token of the sequence was generated, padding left out."""


def only(value: Any) -> Any:
    """Take a value out of its list of length one; an empty list holds nothing."""
    if isinstance(value, list):
        if not value:
            return None
        if len(value) == 1:
            return value[0]
    return value


def tokens(inner: Mapping[str, Any], book: Book) -> Tokens:
    """Cut the lists of a sample, taken out of their wrapping, to the response.

    Raises
    ------
    OddValue
        Lists are shorter than the sequence, or hold what are no numbers.
    """
    length = integer(inner.get("input_lengths"), "input_lengths")
    ids = _cut(integers(inner.get("token_ids"), "token_ids"), length, "token_ids")
    mask = _cut(flags(inner.get("token_loss_mask"), "token_loss_mask"), length, "token_loss_mask")
    lists = {column: _cut(numbers(inner.get(name), name), length, name) for name, column in _LISTS.items()}
    generated = mask
    if mask is None and lists["logp_sampler"] is not None:
        book.note(
            "no token mask (NeMo-RL before 0.6): a response is taken from its first token with a sampler "
            "log-prob"
        )
        content = inner.get("content")
        if isinstance(content, list) and len(content) > 2:
            book.note(
                "tokens of tools cannot be told from trained ones: token lists of several turns were left out"
            )
            return Tokens({}, None, None)
        generated = [bool(each) for each in lists["logp_sampler"]]
    if generated is None:
        return Tokens({}, None, None)
    start = next((at for at, told in enumerate(generated) if told), len(generated))
    columns: Row = {"prompt_length": start, "length": len(generated) - start}
    if ids is not None:
        columns["token_ids"] = ids[start:]
    if mask is not None:
        columns["loss_mask"] = _loss_mask(mask[start:], inner.get("sample_loss_mask"), book)
    columns |= {name: each[start:] for name, each in lists.items() if each is not None}
    _drop_placeholder(columns, book)
    advantages = _cut(numbers(inner.get("advantages"), "advantages"), length, "advantages")
    if advantages is not None:
        columns |= _advantage(advantages[start:], generated[start:])
    return Tokens(columns, None if ids is None else ids[:start], None if mask is None else list(mask))


def messages(content: Any, mask: list[bool] | None) -> tuple[str | None, str | None]:
    """Return the texts of prompt and response.

    Training logs hold one text a message, without roles; the messages of the prompt are those before the
    first generated one, counted from the end, where generated and other messages alternate. Validation logs
    hold messages with roles. A bare text is the response.
    """
    if isinstance(content, str):
        return None, content
    if not isinstance(content, list) or not content:
        return None, None
    if all(isinstance(each, dict) for each in content):
        roles = [each.get("role") for each in content]
        first = roles.index("assistant") if "assistant" in roles else len(roles)
        told = [text(each.get("content")) or "" for each in content]
    else:
        first = _first_generated(len(content), mask)
        told = [text(each) or "" for each in content]
    return "\n".join(told[:first]), "\n".join(told[first:])


def _first_generated(count: int, mask: list[bool] | None) -> int:
    if mask is None or not any(mask):
        return 1
    turns = sum(now and not before for before, now in zip([False, *mask], mask, strict=False))
    first = count - 1 - (not mask[-1]) - 2 * (turns - 1)
    return first if 1 <= first < count else 1


def _cut(found: Any, length: int | None, name: str) -> Any:
    if found is None or length is None:
        return found
    if not 0 <= length <= len(found):
        raise OddValue(f"{name} is shorter than input_lengths")
    return list(found[:length])


def _loss_mask(mask: list[bool], sample: Any, book: Book) -> list[bool]:
    kept = number(sample, "sample_loss_mask")
    if kept is None or kept == 1:
        return mask
    if kept == 0:
        return [False] * len(mask)
    book.note("sample_loss_mask holds weights other than 0 and 1: taken as 1")
    return mask


def _drop_placeholder(columns: Row, book: Book) -> None:
    """Leave out old log-probs that are all 0 where the sampler's are not: the pass was skipped."""
    old, sampler = columns.get("logp_old"), columns.get("logp_sampler")
    if old and sampler and not any(old) and any(sampler):
        del columns["logp_old"]
        book.note("prev_logprobs of zeros are a placeholder (loss_fn.force_on_policy_ratio): left out")


def _advantage(values: list[float | None], generated: list[bool]) -> Row:
    """One number where all generated tokens have the same."""
    trained = [value for value, told in zip(values, generated, strict=False) if told]
    if trained and all(value == trained[0] for value in trained):
        return {"advantage": trained[0]}
    return {"token_advantage": values} if trained else {}
