"""What slime trained on a rollout: one file of samples, or, to 0.3.1 and in miles, one file a rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from audit.importers.interface import Book, Row
from audit.importers.slime_rows import response_of
from audit.importers.values import number
from audit.logs.new_rows import hash_prompt

_NAMES = {"sample_indices": "sample_index", "partition": "rollout_position"}


class One(NamedTuple):
    """What was trained on one sample."""

    values: Mapping[str, Any]
    raw_reward: Any

    def fits(self, tokens: Any) -> bool:
        """Whether it is of these tokens; one that holds none is taken for its index."""
        own = self.values.get("tokens")
        try:
            return own is None or np.array_equal(np.asarray(own), np.asarray(tokens))
        except (ValueError, TypeError, RuntimeError):
            return False

    def as_row(self, step: int) -> Row:
        """Return what makes a row without a rollout file."""
        prompt, columns = response_of(
            self.values.get("tokens"), self.values.get("response_lengths"), self.values.get("loss_masks")
        )
        reward = None if isinstance(self.raw_reward, Mapping) else number(self.raw_reward, "raw_reward")
        cut: Any = self.values.get("truncated")
        cut = cut.item() if getattr(cut, "ndim", None) == 0 else cut
        return {
            "step": step,
            "prompt_id": hash_prompt(" ".join(map(str, prompt))),
            "reward": reward,
            "finish_reason": "length" if isinstance(cut, int) and cut == 1 else None,
            "extra": {"index": self.values.get("sample_index")},
            **columns,
        }

    def extra(self, reward: float | None) -> Row:
        """Return the rewards that are none of the schema's: normalised, and raw where it is another."""
        found = {"normalized_reward": number(self.values.get("rewards"), "rewards")}
        raw = self.raw_reward
        if raw is not None and not isinstance(raw, Mapping) and number(raw, "raw_reward") != reward:
            found["raw_reward"] = number(raw, "raw_reward")
        return {name: value for name, value in found.items() if value is not None}


class Trained:
    """Samples of the train files of one rollout, each once."""

    def __init__(self, raw: Sequence[Any] | None) -> None:
        self._raw = raw
        self._samples: list[dict[str, Any]] = []
        self._positions: dict[int, int] = {}
        self._indices: dict[int, int] = {}

    def add(self, sample: Mapping[str, Any]) -> bool:
        """Add a sample, or what another rank knows of one; False where it was there."""
        position, index = sample.get("rollout_position"), sample.get("sample_index")
        at = self._positions.get(position) if isinstance(position, int) else None
        if at is None and not isinstance(position, int) and isinstance(index, int):
            at = self._indices.get(index)
        if at is not None:
            held = self._samples[at]
            held |= {name: value for name, value in sample.items() if held.get(name) is None}
            return False
        at = len(self._samples)
        self._samples.append(dict(sample))
        if isinstance(position, int):
            self._positions[position] = at
        if isinstance(index, int):
            self._indices.setdefault(index, at)
        return True

    def find(self, position: int, index: Any) -> One | None:
        """Return what was trained on a sample of the rollout file, by its place there, else by its index."""
        at = self._positions.get(position)
        if at is None and not self._positions and isinstance(index, int):
            at = self._indices.get(index)
        return None if at is None else One(self._samples[at], self._raw_of(self._samples[at], at, position))

    def all(self) -> Iterator[One]:
        """Yield every sample in the order of the rollout where it is known."""
        order = sorted(range(len(self._samples)), key=self._place)
        for at in order:
            yield One(self._samples[at], self._raw_of(self._samples[at], at, None))

    def _place(self, at: int) -> tuple[int, int]:
        sample = self._samples[at]
        for name in ("rollout_position", "sample_index"):
            if isinstance(place := sample.get(name), int):
                return place, at
        return at, at

    def _raw_of(self, sample: Mapping[str, Any], at: int, position: int | None) -> Any:
        place = sample.get("rollout_position", position)
        if not isinstance(place, int):
            place = at if self._raw is not None and len(self._raw) == len(self._samples) else None
        if self._raw is None or place is None or not 0 <= place < len(self._raw):
            return None
        return self._raw[place]


def read_trained(files: Sequence[Mapping[str, Any]], book: Book) -> Trained:
    """Join the train files of one rollout."""
    raw = next((found for file in files if (found := _raw(file)) is not None), None)
    made = Trained(raw)
    again = 0
    for file in files:
        for sample in _samples(file, book):
            again += not made.add(sample)
    if again:
        book.note("several ranks wrote the same samples: each is taken once")
    return made


def _raw(file: Mapping[str, Any]) -> Sequence[Any] | None:
    inner = file.get("rollout_data")
    found = inner.get("raw_reward") if isinstance(inner, Mapping) else file.get("raw_reward")
    return found if isinstance(found, list) else None


def _samples(file: Mapping[str, Any], book: Book) -> Iterator[Mapping[str, Any]]:
    whole = file.get("samples")
    if isinstance(whole, list):
        yield from (each for each in whole if isinstance(each, Mapping))
        return
    held = file.get("rollout_data")
    lengths = held.get("response_lengths") if isinstance(held, Mapping) else None
    if not isinstance(held, Mapping) or not isinstance(lengths, list):
        book.note("a train file holds no samples: it was left out")
        return
    # raw_reward and total_lengths are of the whole batch, not of the rank.
    columns = {
        _NAMES.get(name, str(name)): values
        for name, values in held.items()
        if name not in ("raw_reward", "total_lengths")
        and hasattr(values, "__len__")
        and not isinstance(values, (str, Mapping))
        and len(values) == len(lengths)
    }
    for at in range(len(lengths)):
        yield {name: values[at] for name, values in columns.items()}
