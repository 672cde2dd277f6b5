"""The same prompt under several ids, and several prompts under one."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from audit.analyses.samples import Samples
from audit.facts.rows import RunRows, dense
from audit.logs.arrays import codes_of, valid


class PromptTexts(msgspec.Struct, frozen=True):
    """Counts over the prompts of a run."""

    texts: int
    """Distinct prompt texts."""
    ids_of_shared_text: int
    """prompt_ids whose text another prompt_id has as well."""
    ids_of_like_text: int
    """The same where upper case and white space are no difference."""
    ids_of_several_texts: int
    """prompt_ids that stand for more than one text."""


def prompt_texts(rows: RunRows) -> PromptTexts:
    """Compare prompt_id with the text of the prompt; the column ``prompt`` must be there."""
    column = rows.run.responses(["prompt"])["prompt"].dictionary_encode().unify_dictionaries()
    parts = [codes_of(chunk) for chunk in column.chunks]
    text = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    words = column.chunks[0].dictionary.to_pylist() if column.num_chunks else []
    known = (text >= 0) & valid(rows.table["prompt_id"])
    if not known.any():
        return PromptTexts(0, 0, 0, 0)
    _, first = np.unique(dense(rows.prompt[known], text[known]), return_index=True)
    prompt, said = rows.prompt[known][first], text[known][first]
    plain: dict[str, int] = {}
    like = np.array([plain.setdefault(" ".join(word.casefold().split()), len(plain)) for word in words])
    return PromptTexts(
        texts=len(np.unique(said)),
        ids_of_shared_text=_shared(prompt, said),
        ids_of_like_text=_shared(prompt, like[said]),
        ids_of_several_texts=int((np.bincount(prompt) > 1).sum()),
    )


def text_of_prompts(rows: RunRows, samples: Samples, groups: np.ndarray) -> list[tuple[str, str | None]]:
    """prompt_id and prompt text of the given groups, in their order."""
    row_of = np.zeros(samples.num_groups, dtype=np.int64)
    here = np.flatnonzero(samples.group_of_row >= 0)[::-1]
    row_of[samples.group_of_row[here]] = here
    rows_of = pa.array(row_of[groups], pa.int64())
    names = rows.table["prompt_id"].take(rows_of).to_pylist()
    if not rows.has("prompt"):
        return [(name, None) for name in names]
    texts = rows.run.responses(["prompt"])["prompt"].take(rows_of).to_pylist()
    return list(zip(names, texts, strict=True))


def _shared(prompt: np.ndarray, text: np.ndarray) -> int:
    """Prompts one of whose texts another prompt has; entries are (prompt, text) pairs."""
    _, one = np.unique(dense(prompt, text), return_index=True)
    prompt, text = prompt[one], text[one]
    _, code = np.unique(text, return_inverse=True)
    return len(np.unique(prompt[np.bincount(code)[code] > 1]))
