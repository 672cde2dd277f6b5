"""Which number of a line of verl's dump is the reward that trained, and which are its parts.

The reward managers keep every key of a reward function's own result, ``score`` among them, and the dump lets
these keys replace its own. DAPO's manager adds the overlong penalty to the reward only, so that the written
``score`` lacks it; validation writes the whole reward as ``reward``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from audit.importers.configs import lookup
from audit.importers.interface import Book, Row
from audit.importers.values import OddValue, number

_PART = re.compile(r"(?:^|_)(?:acc|accuracy|bonus|correct|format|penalty|rewards?|score|scores)(?:_|$)")
_NOT_OF_FUNCTION = {
    "acc",
    "gts",
    "input",
    "output",
    "overlong",
    "overlong_reward",
    "request_id",
    "step",
    "uid",
}
_OVERLONG = (
    "reward.reward_kwargs.overlong_buffer_cfg.enable",
    "reward_model.reward_kwargs.overlong_buffer_cfg.enable",
    "reward_model.overlong_buffer.enable",
)


class Rewards:
    """Reads rewards of one file, and says in its book what had to be assumed."""

    def __init__(self, config: Mapping[str, Any], validation: bool, book: Book) -> None:
        self._validation = validation
        self._book = book
        self._overlong = any(lookup(config, key) is True for key in _OVERLONG)
        if validation:
            book.note("validation samples: no update was made from these rows")
        if lookup(config, "algorithm.use_kl_in_reward") is True:
            book.note(
                "use_kl_in_reward: the score was logged before the KL penalty, so it is not what trained"
            )
        if lookup(config, "algorithm.filter_groups.enable") is True:
            book.note(
                "filter_groups: keys of the reward function may belong to other rows (verl writes those of "
                "the last generation batch, before it drops groups), and dropped groups were not logged"
            )

    def total(self, record: Row) -> float | None:
        """Return the reward, the overlong penalty included where it can be.

        Raises
        ------
        OddValue
            It is no number.
        """
        score = number(record.get("score"), "score")
        if self._validation and "reward" in record:
            return number(record["reward"], "reward")
        own = record.keys() - _NOT_OF_FUNCTION - {"score"}
        penalty = number(record.get("overlong_reward"), "overlong_reward")
        if not own:
            return score
        if penalty is None:
            if self._overlong:
                self._book.note(
                    "the overlong penalty is on and was not logged (overlong_buffer.log): score is the "
                    "reward function's own, without it"
                )
            return score
        self._book.note(
            "reward = score + overlong_reward, which verl writes with 4 decimals: the written score is the "
            "reward function's own"
        )
        return None if score is None else score + penalty

    def parts(self, record: Row) -> dict[str, float | None] | None:
        """Return the numbers that are named like parts of a reward."""
        found: dict[str, float | None] = {}
        for name, value in record.items():
            if _PART.search(name.lower()):
                try:
                    found[name] = number(value, name)
                except OddValue:
                    continue
        if self._validation:
            found.pop("reward", None)
        # The score alone is the reward, and no part of it.
        return found if found.keys() - {"score"} else None
