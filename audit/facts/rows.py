"""The responses of a run as arrays: dense codes for groups, updates, micro-batches; rewards; masks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from audit.errors import BadLog, MissingColumn
from audit.facts.run_facts import RunFacts
from audit.logs import Run
from audit.logs.arrays import to_numpy, valid
from audit.objectives.batch import Responses
from audit.objectives.needs import needs_groups
from audit.objectives.objective import Objective, RewardKL

_COLUMNS = (
    *("step", "epoch", "update", "micro_batch", "generation_batch", "prompt_id", "group_id", "sample_index"),
    *("trajectory_id", "length", "reward", "correct", "advantage", "finish_reason", "is_greedy"),
)


@dataclass(frozen=True)
class RunRows:
    """The scalar columns of a run, their codes, and the facts of their tokens; R rows in file order."""

    run: Run
    table: pa.Table
    facts: RunFacts | None
    """None where the log has neither token lists nor lengths in tokens."""

    @classmethod
    def read(cls, run: Run, *, tokens: bool = True) -> RunRows:
        """Read the scalar columns; with ``tokens``, facts are read or computed as they are asked for."""
        table = run.responses(list(_COLUMNS))
        return cls(run, table, RunFacts(run) if tokens and has_tokens(run) else None)

    @property
    def num_rows(self) -> int:
        """Number of responses R."""
        return int(self.table.num_rows)

    def numpy(self, column: str) -> np.ndarray:
        """Scalar column as float64 with NaN for null, shape (R,).

        Raises
        ------
        BadLog
            It holds an integer that no float64 equals: rounded, two steps could become one.
        """
        try:
            values = self.table[column].cast(pa.float64())
        except pa.ArrowInvalid:
            msg = f"{self.run.path}: column {column!r} holds integers beyond 2**53, too large for a count."
            raise BadLog(msg) from None
        # A copy: Arrow's memory is read-only, and torch wants to own what it wraps.
        return np.array(to_numpy(values))

    def has(self, column: str) -> bool:
        """Whether the column holds at least one value."""
        return column in self.run.columns

    @cached_property
    def step(self) -> np.ndarray:
        """int64, shape (R,).

        Raises
        ------
        BadLog
            It is null somewhere: nothing that goes by steps or updates can be said of such a log.
        """
        empty = self.table["step"].null_count
        if empty:
            msg = f"{self.run.path}: step is null in {empty} of {self.num_rows} rows; every row needs one."
            raise BadLog(msg)
        return np.asarray(to_numpy(self.table["step"]), dtype=np.int64)

    @cached_property
    def epoch(self) -> np.ndarray:
        """int64, shape (R,)."""
        return np.asarray(np.nan_to_num(to_numpy(self.table["epoch"])), dtype=np.int64)

    @cached_property
    def prompt(self) -> np.ndarray:
        """Dense code of prompt_id, int64, shape (R,)."""
        return _codes(self.table["prompt_id"])

    @cached_property
    def sample(self) -> np.ndarray:
        """Dense code of (group_id, epoch), int64, shape (R,): the group whose statistics a row enters.

        A row without group_id is a group of its own.
        """
        return dense(_codes_or(self.table["group_id"], np.arange(self.num_rows)), self.epoch)

    @cached_property
    def grouped(self) -> np.ndarray:
        """bool, shape (R,): the row has a group_id."""
        return valid(self.table["group_id"])

    @cached_property
    def update(self) -> np.ndarray:
        """Dense code of the optimiser step, int64, shape (R,): ``update``, else (step, epoch).

        Raises
        ------
        BadLog
            ``update`` is null in some rows, and (step, epoch) does not stand for it.
        """
        by_step = dense(self.step, self.epoch)
        empty = self.table["update"].null_count
        if not empty:
            return dense(_codes(self.table["update"]))
        given = valid(self.table["update"])
        codes = _codes(self.table["update"])[given]
        pairs = len(np.unique(dense(codes, by_step[given]))) if given.any() else 0
        if given.any() and not pairs == len(np.unique(codes)) == len(np.unique(by_step[given])):
            msg = (
                f"{self.run.path}: update is null in {empty} of {self.num_rows} rows, and (step, epoch) does "
                "not say which update those belong to."
            )
            raise BadLog(msg)
        return by_step

    @cached_property
    def length(self) -> np.ndarray:
        """Response length in tokens, float64, shape (R,); NaN where unknown."""
        if self.facts is not None:
            return np.where(self.facts["logged"] == 1, self.facts["tokens"].astype(np.float64), np.nan)
        return self.numpy("length") if self.has("length") else np.full(self.num_rows, np.nan)

    @cached_property
    def greedy(self) -> np.ndarray:
        """bool, shape (R,)."""
        column = self.table["is_greedy"]
        return to_numpy(column.fill_null(False) if column.null_count else column)

    @cached_property
    def truncated(self) -> np.ndarray | None:
        """bool, shape (R,): the response ended by length; None where finish_reason was not logged."""
        if not self.has("finish_reason"):
            return None
        encoded = self.table["finish_reason"].combine_chunks().dictionary_encode(null_encoding="encode")
        by_length = np.array([reason == "length" for reason in encoded.dictionary.to_pylist()], dtype=bool)
        return np.asarray(by_length[to_numpy(encoded.indices)])

    @cached_property
    def cut_off(self) -> np.ndarray | None:
        """float64, shape (R,): :attr:`truncated` as 0 and 1, NaN where a response has no finish_reason.

        For shares: what was not logged is neither cut off nor whole. None where no response has one.
        """
        if self.truncated is None:
            return None
        known = to_numpy(self.table["finish_reason"].is_valid())
        return np.where(known, self.truncated.astype(np.float64), np.nan)

    @cached_property
    def logged_advantage(self) -> np.ndarray | None:
        """Advantage as the trainer used it, float64, shape (R,): per response, else the mean over its tokens.

        NaN where not logged; None where no response has one.
        """
        if self.has("token_advantage") and self.facts is not None:
            return self.facts["token_advantage"]
        return self.numpy("advantage") if self.has("advantage") else None

    def responses(self, objective: Objective) -> Responses:
        """Build what :func:`audit.objectives.coefficients.row_coefficients` needs.

        Raises
        ------
        MissingColumn, BadLog
            The objective compares the responses of a group, and rows have no group_id.
        """
        if needs_groups(objective) and not self.grouped.all():
            if not self.grouped.any():
                raise MissingColumn.needed_for("group_id", f"objective '{objective.name}'")
            bare = int((~self.grouped).sum())
            msg = f"{self.run.path}: group_id is null in {bare} of {self.num_rows} rows; they have no group."
            raise BadLog(msg)
        facts, parted = self.facts, objective.shaping.weights is not None
        size = np.nan_to_num(self.length).astype(np.int64)
        return Responses(
            reward=self.numpy("reward"),
            length=size,
            loss_tokens=facts["loss_tokens"] if facts is not None else size,
            group=self.sample,
            update=self.update,
            generation_batch=self.generation_batch,
            micro_batch=self._micro_batch,
            greedy=self.greedy if self.greedy.any() else None,
            truncated=self.truncated,
            sample_weight=self._sample_weight,
            advantage=self._given_advantage(objective),
            reference_kl=self._reference_kl(facts, objective.kl.reward),
            components=self._components if parted and self.has("reward_components") else None,
        )

    def _given_advantage(self, objective: Objective) -> np.ndarray | None:
        if objective.baseline.kind == "gae":
            # Made from the critic's values by a pass over tokens; until then there is none.
            return np.zeros(self.num_rows) if self.has("value") else None
        return self.logged_advantage

    @cached_property
    def generation_batch(self) -> np.ndarray:
        """Dense code of what was sampled together, int64, shape (R,): the update where it was not logged."""
        return dense(_codes_or(self.table["generation_batch"], self.update), self.epoch)

    @cached_property
    def _micro_batch(self) -> np.ndarray | None:
        if self.table["micro_batch"].null_count:
            return None
        return dense(self.update, _codes(self.table["micro_batch"]))

    @cached_property
    def _sample_weight(self) -> np.ndarray | None:
        if not self.has("trajectory_id"):
            return None
        trajectory = _codes(self.table["trajectory_id"])
        alone = ~valid(self.table["trajectory_id"])
        trajectory = np.where(alone, trajectory.max(initial=0) + 1 + np.arange(self.num_rows), trajectory)
        unit = dense(self.sample, trajectory)
        return np.asarray(1.0 / np.bincount(unit)[unit])

    @cached_property
    def _components(self) -> dict[str, np.ndarray]:
        """Every logged reward component, NaN where it was not given."""
        column = self.run.responses(["reward_components"])["reward_components"].combine_chunks()
        ends = to_numpy(column.offsets)
        row = np.repeat(np.arange(self.num_rows), np.diff(ends))
        entries = slice(int(ends[0]), int(ends[-1]))
        names = column.keys.dictionary_encode()
        code, value = to_numpy(names.indices)[entries], to_numpy(column.items)[entries]
        parts: dict[str, np.ndarray] = {}
        for place, name in enumerate(names.dictionary.to_pylist()):
            here = (code == place) & valid(column)[row]
            if here.any():
                parts[name] = np.full(self.num_rows, np.nan)
                # Of a name that is given twice the last value stands.
                parts[name][row[here]] = value[here]
        return parts

    def _reference_kl(self, facts: RunFacts | None, kl: RewardKL | None) -> np.ndarray | None:
        if facts is None or kl is None or not {f"logp_{kl.policy}", "logp_ref"} <= self.run.columns:
            return None
        return facts[f"kl_{kl.policy}_ref_{kl.estimator}"]


def has_tokens(run: Run) -> bool:
    """Whether per-token quantities can be formed: token lists, or response lengths in tokens."""
    lists = {"token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref", "logp_sampler"}
    return bool(lists & run.columns) or ("length" in run.columns and run.manifest.length_unit == "tokens")


def dense(*codes: np.ndarray) -> np.ndarray:
    """Dense int64 code of each distinct tuple, in sorted order, shape (R,)."""
    combined = _ranks(codes[0])
    for code in codes[1:]:
        inner = _ranks(code)
        combined = _ranks(combined * (int(inner.max(initial=0)) + 1) + inner)
    return combined.astype(np.int64)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Place of each value among the distinct ones, int64, shape (R,)."""
    if values.dtype.kind == "i" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(values):
            # Counting instead of sorting: a tenth of the time, and codes are mostly dense.
            there = np.zeros(high - low + 1, dtype=bool)
            there[values - low] = True
            return np.asarray((np.cumsum(there) - 1)[values - low])
    return np.asarray(np.unique(values, return_inverse=True)[1])


def _codes_or(column: pa.ChunkedArray, instead: np.ndarray) -> np.ndarray:
    """Code of each value, and of ``instead`` where it is null: the two never share a code."""
    null = ~valid(column)
    codes = _codes(column)
    return np.where(null, int(codes.max(initial=0)) + 1 + instead, codes)


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return to_numpy(encoded.indices).astype(np.int64)
