"""Two runs side by side: what both logged, up to the step that both reached, with one cluster a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from audit.analyses.findings import Effect
from audit.analyses.outcomes import first_pass
from audit.analyses.row_copies import row_copies
from audit.facts.rows import RunRows
from audit.logs.arrays import to_numpy
from audit.stats import FEW_CLUSTERS, bootstrap, cluster_sums, estimate

EARLY = 0.05
"""Share of the common steps that count as the beginning, where the policies are still the same; heuristic."""
STRONG = 1.7
"""Half-widths of a 95 % interval that a difference must exceed to be called sure (p of about 1e-3)."""
WIDER = {2: 8.98, 3: 2.48, 4: 1.59, 5: 1.24}
"""How much wider, by the number C of prompts: resamples of so few lie between their extremes, half of whose
distance is about one standard deviation s; Student's is t s / sqrt(C), t of C - 1 degrees at 97.5 %."""

Statistic = Callable[[np.ndarray], np.ndarray]
Columns = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Pair:
    """Runs A and B."""

    a: RunRows
    b: RunRows

    @property
    def sides(self) -> tuple[RunRows, RunRows]:
        """A, then B."""
        return self.a, self.b

    @cached_property
    def last(self) -> int:
        """The last step that both runs reached: a longer run has had longer to learn."""
        return min(int(rows.step.max(initial=0)) for rows in self.sides)

    @cached_property
    def first(self) -> int | None:
        """The first step; None where the logs begin at different ones."""
        begins = {int(rows.step.min()) for rows in self.sides if rows.num_rows}
        return begins.pop() if len(begins) == 1 else None

    @cached_property
    def prompts(self) -> tuple[np.ndarray, np.ndarray]:
        """Code of the prompt of each row, int64, shapes (R_a,) and (R_b,): one prompt, one code."""
        columns = [rows.table["prompt_id"].cast(pa.string()) for rows in self.sides]
        columns = [column.fill_null("") if column.null_count else column for column in columns]
        joint = pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string())
        encoded = joint.combine_chunks().dictionary_encode()
        names = np.asarray(encoded.dictionary.to_pylist(), dtype=object)
        # By name, so that swapping the runs swaps nothing else.
        rank = np.empty(len(names), dtype=np.int64)
        rank[np.argsort(names, kind="stable")] = np.arange(len(names))
        codes = rank[to_numpy(encoded.indices).astype(np.int64)]
        return codes[: self.a.num_rows], codes[self.a.num_rows :]

    @cached_property
    def seen_by_both(self) -> tuple[np.ndarray, np.ndarray]:
        """bool, shapes (R_a,) and (R_b,): rows whose prompt the other run drew too."""
        in_a, in_b = self.prompts
        return np.isin(in_a, in_b), np.isin(in_b, in_a)

    @cached_property
    def copies(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """bool, shapes (R_a,) and (R_b,): rows that repeat an earlier one; None where that cannot be told."""
        return row_copies(self.a), row_copies(self.b)

    @cached_property
    def once(self) -> tuple[np.ndarray, np.ndarray]:
        """bool, shapes (R_a,) and (R_b,): rows that repeat no earlier one."""
        a, b = self.copies
        every = self._masks(lambda rows: np.ones(rows.num_rows, dtype=bool))
        return every[0] if a is None else ~a, every[1] if b is None else ~b

    @cached_property
    def trained(self) -> tuple[np.ndarray, np.ndarray]:
        """bool, shapes (R_a,) and (R_b,): first inner pass up to the last common step, each row once."""
        first = self._masks(lambda rows: first_pass(rows) & (rows.step <= self.last))
        return first[0] & self.once[0], first[1] & self.once[1]

    @cached_property
    def early(self) -> tuple[np.ndarray, np.ndarray]:
        """The same of the first steps; no row where the logs begin at different steps."""
        if self.first is None:
            return self._masks(lambda rows: np.zeros(rows.num_rows, dtype=bool))
        until = self.first + EARLY * (self.last - self.first)
        early = self._masks(lambda rows: rows.step <= until)
        return early[0] & self.trained[0], early[1] & self.trained[1]

    def _masks(self, make: Callable[[RunRows], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return make(self.a), make(self.b)

    def lacking(self, *columns: str) -> str:
        """Name the columns that a run lacks, as ``logp_sampler in grpo-1``; empty where nothing is.

        Of ``a|b`` either is enough.
        """
        missing = []
        for rows in self.sides:
            options = [column.split("|") for column in columns]
            missing.append(" and ".join(" or ".join(o) for o in options if not any(map(rows.has, o))))
        if missing[0] == missing[1]:
            return f"{missing[0]} in both runs" if missing[0] else ""
        named = [f"{m} in {rows.run.run_id}" for m, rows in zip(missing, self.sides, strict=True) if m]
        return "; ".join(named)

    def share(
        self, name: str, of: tuple[Columns, Columns], use: tuple[np.ndarray, np.ndarray], note: str = ""
    ) -> Effect | None:
        """Σ numerator / Σ denominator in A and in B; ``of`` holds the two arrays of each run, shape (R,)."""
        return self.compare(name, of, use, _ratio, note)

    def compare(
        self,
        name: str,
        of: tuple[Sequence[np.ndarray], Sequence[np.ndarray]],
        use: tuple[np.ndarray, np.ndarray],
        statistic: Statistic,
        note: str = "",
    ) -> Effect | None:
        """Compare a statistic of sums over responses; the interval of B - A resamples prompts.

        Parameters
        ----------
        of : K arrays of shape (R,) for each run
            Rows where one of them is not finite are left out.
        use : bool, shape (R,), for each run
        statistic
            Maps totals, shape (..., K), to values, shape (..., 1).

        Returns
        -------
        Effect or None
            None where a run has no row left.
        """
        blocks, clusters, sizes = [], [], []
        width = len(of[0])
        for side, (columns, chosen) in enumerate(zip(of, use, strict=True)):
            values = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
            kept = chosen & np.isfinite(values).all(axis=1)
            block = np.zeros((int(kept.sum()), 2 * width))
            block[:, side * width : (side + 1) * width] = values[kept]
            blocks.append(block)
            clusters.append(self.prompts[side][kept])
            sizes.append(int(kept.sum()))
        if not all(sizes):
            return None
        _, cluster = np.unique(np.concatenate(clusters), return_inverse=True)
        sums = cluster_sums(np.vstack(blocks), cluster)

        def both(totals: np.ndarray) -> np.ndarray:
            in_a, in_b = statistic(totals[..., :width]), statistic(totals[..., width:])
            return np.concatenate([in_b - in_a, in_a, in_b], axis=-1)

        interval = bootstrap(sums, both)
        gap, in_a, in_b = (estimate(interval, sum(sizes), at) for at in range(3))
        low, high = gap.low, gap.high
        if gap.value is not None and low is not None and high is not None and len(sums) in WIDER:
            low, high = (gap.value + WIDER[len(sums)] * (end - gap.value) for end in (low, high))
        if len(sums) < FEW_CLUSTERS:
            note = "; ".join(filter(None, [note, f"only {len(sums)} prompts: the interval is rough"]))
        return Effect(name, in_a.value, in_b.value, gap.value, low, high, sizes, note)


def _ratio(totals: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[..., :1] / totals[..., 1:2])


def sure(effect: Effect | None, *, least: float = 0.0, factor: float = 1.0) -> bool:
    """Whether the runs differ beyond noise, by ``least`` in absolute size and by ``factor``."""
    if effect is None or effect.low is None or effect.high is None or effect.difference is None:
        return False
    half = (effect.high - effect.low) / 2
    ends = sorted([abs(effect.a or 0.0), abs(effect.b or 0.0)])
    beyond = (effect.low > 0 or effect.high < 0) and abs(effect.difference) >= STRONG * half
    return bool(beyond and abs(effect.difference) >= least and ends[1] >= factor * ends[0])
