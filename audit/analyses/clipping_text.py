"""The text of single token ids, only where the logged responses prove it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice

from audit.logs import Run

SAMPLE = 2_000
"""Responses that are looked at."""
LEAST = 200
"""Characters that must agree before one character per token is believed; heuristic."""


def token_texts(run: Run) -> tuple[dict[int, str], str]:
    """Read the text of ids off the responses; no tokenizer is in a log.

    Two ways are safe. If one character an id, or none, writes every response exactly as it was logged, then
    ids are characters. Else a response of one token is that token's text.

    Returns
    -------
    texts : dict of int to str
        Text by id; an id that is not in it is not known.
    how : str
        How the texts were found, or why there are none.
    """
    if not {"token_ids", "response"} <= run.columns:
        return {}, "ids only: the log has no " + ("response" if "token_ids" in run.columns else "token_ids")
    pairs = list(islice(_pairs(run), SAMPLE))
    characters = _characters(pairs)
    if characters is not None:
        return (
            characters,
            f"each token is one character, which spells all {len(pairs):,} responses that were checked",
        )
    single = _single(pairs)
    how = "from responses of one token" if single else "ids only: the responses do not tell where tokens end"
    return single, how


def _pairs(run: Run) -> Iterator[tuple[list[int], str]]:
    for batch in run.batches(["token_ids", "response"], max_tokens=200_000):
        for ids, text in zip(batch["token_ids"].to_pylist(), batch["response"].to_pylist(), strict=True):
            if ids and text is not None:
                yield ids, text


def _characters(pairs: list[tuple[list[int], str]]) -> dict[int, str] | None:
    """One character an id, or none for marks such as the end; None unless that writes every response."""
    votes: dict[int, Counter[str]] = defaultdict(Counter)
    for ids, text in pairs:
        if len(ids) - len(text) in (0, 1):
            for place, id_ in enumerate(ids):
                votes[id_][text[place] if place < len(text) else ""] += 1
    found = {id_: count.most_common(1)[0][0] for id_, count in votes.items()}
    if sum(len(text) for _, text in pairs) < LEAST:
        return None
    # The vote is a guess; that it writes every text, character by character, is the proof.
    for ids, text in pairs:
        if "".join(found.get(id_, "") for id_ in ids) == text:
            continue
        # A mark in the middle shifts the votes: the id with the fewest of them may be one.
        rarest = min((id_ for id_ in ids if found.get(id_)), key=lambda id_: votes[id_].total(), default=None)
        if rarest is not None:
            found[rarest] = ""
    return found if all("".join(found.get(id_, "") for id_ in ids) == text for ids, text in pairs) else None


def _single(pairs: list[tuple[list[int], str]]) -> dict[int, str]:
    found: dict[int, str] = {}
    doubtful: set[int] = set()
    for ids, text in pairs:
        if len(ids) == 1 and text and found.setdefault(ids[0], text) != text:
            doubtful.add(ids[0])
    return {id_: text for id_, text in found.items() if id_ not in doubtful}
