"""The same response to the same prompt must get the same reward and the same reference log-probs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from audit.analyses.findings import Cause, finding
from audit.analyses.outcomes import first_pass
from audit.analyses.pair import Pair
from audit.analyses.sharper import sharper
from audit.analyses.skipped import Skipped
from audit.facts.rows import RunRows
from audit.facts.tokenpass.text_key import NO_TEXT
from audit.logs.arrays import valid
from audit.objectives.arrays import silent

TOLERANCE = 1e-6
"""Rewards closer than this are the same (float32 rounding)."""
LEAST_GAP = 1e-3
"""Gap of the summed reference log-prob, nats, below which it is one; heuristic."""
ROUNDING = 2.0**-8
"""The same as a part of the log-prob: twice what bfloat16 rounds off, which is told elsewhere."""
LEAST = 3
"""Texts that must disagree before a change is claimed; heuristic."""


@dataclass
class Said:
    """What one run made of one text, over every time that it was sampled."""

    rewards: list[float] = field(default_factory=list)
    logp_ref: float = np.nan
    """Summed reference log-prob, nats."""
    row: int = -1
    """The row of that."""

    @property
    def spread(self) -> float:
        """Largest difference between two rewards of this text."""
        return max(self.rewards) - min(self.rewards)

    @property
    def mean(self) -> float:
        """Mean reward of this text."""
        return sum(reward / len(self.rewards) for reward in self.rewards)


Texts = dict[tuple[str, Any], Said]


def same_text(pair: Pair) -> tuple[list[Cause], list[Skipped]]:
    """Compare what both runs made of the texts that both of them sampled."""
    a, b = pair.sides
    for rows in pair.sides:
        if not {"response", "token_ids"} & rows.run.columns:
            return [], [
                Skipped(f"same text, different reward, in {rows.run.run_id}", "response or token_ids")
            ]
    said = _said(a), _said(b)
    # A row that was written twice is no second opinion of its judge.
    given = [each[1] & once for each, once in zip(said, pair.once, strict=True)]
    texts = (
        _texts(a, said[0][0], given[0], other=said[1][0]),
        _texts(b, said[1][0], given[1], other=said[0][0]),
    )
    shared = [key for key in texts[0] if key in texts[1]]
    return [*_reward(texts, shared), *_reference(pair, texts, shared)], []


@silent
def _reward(texts: tuple[Texts, Texts], shared: list[tuple[str, Any]]) -> list[Cause]:
    gaps = np.array([texts[1][key].mean - texts[0][key].mean for key in shared])
    changed = int((np.abs(gaps) > TOLERANCE).sum())
    if changed < LEAST or changed < 0.01 * len(shared):
        return []
    # A judge that gives one text two rewards within a run needs no change to do so between runs.
    repeated = [said for side in texts for said in side.values() if len(said.rewards) > 1]
    noisy = sum(said.spread > TOLERANCE for said in repeated)
    if repeated and noisy / len(repeated) > 0.3 * changed / len(shared):
        return []
    confidence = 0.95 if len(repeated) >= 10 * LEAST else 0.6
    summary = (
        f"{changed} of {len(shared)} texts that both runs sampled got another reward in B, by "
        f"{gaps[np.abs(gaps) > TOLERANCE].mean():+.3g} on average"
    )
    summary += (
        f" ({noisy} of {len(repeated)} texts repeated within a run did)."
        if repeated
        else "; no text repeats within a run, so a noisy reward is not ruled out."
    )
    evidence = {"texts": len(shared), "changed": changed, "repeated": len(repeated), "noisy": noisy}
    return [finding("data.reward", confidence, summary, evidence)]


def _reference(pair: Pair, texts: tuple[Texts, Texts], shared: list[tuple[str, Any]]) -> list[Cause]:
    shared = [key for key in shared if min(said[key].row for said in texts) >= 0]
    gaps = np.array([abs(texts[1][key].logp_ref - texts[0][key].logp_ref) for key in shared])
    size = np.array([abs(texts[0][key].logp_ref) for key in shared])
    if len(gaps) < LEAST or float(np.median(gaps)) < max(LEAST_GAP, ROUNDING * float(np.median(size))):
        return []
    rows = [[said[key].row for key in shared] for said in texts]
    colder = sharper(pair.sides, (rows[0], rows[1]), ("logp_ref", "logp_ref"))
    if colder is not None:
        # A trainer that divides its logits by the temperature does so for the reference too.
        summary = (
            f"{len(gaps)} texts that both runs sampled have other reference log-probs in B, and "
            f"{colder.told}: the same reference at a temperature {colder.factor:.2f} times lower in "
            f"{'AB'[colder.colder]}, in sampling or in scoring."
        )
        evidence = {
            "texts": len(gaps),
            "tokens": colder.tokens,
            "pairs": colder.pairs,
            "factor": colder.factor,
        }
        return [finding("sampling.temperature", colder.sure(0.9), summary, evidence)]
    summary = (
        f"{len(gaps)} texts that both runs sampled have other reference log-probs in B (median gap "
        f"{np.median(gaps):.3g} nats per response): another reference model, template or tokeniser."
    )
    evidence = {"texts": len(gaps), "median_gap": float(np.median(gaps))}
    return [finding("model.reference", 0.9, summary, evidence)]


def _texts(rows: RunRows, said: np.ndarray, given: np.ndarray, *, other: np.ndarray) -> Texts:
    """Scorable texts of the first inner pass that came up again, here or in the other run.

    By prompt and tokens (or text, where there are no ids); a text that came up once says nothing.
    """
    reward, use = rows.numpy("reward"), first_pass(rows) & given
    use &= ~np.isnan(reward)
    _, place, times = np.unique(said, return_inverse=True, return_counts=True)
    use &= (times[place] > 1) | np.isin(said, other)
    prompts = rows.table["prompt_id"].to_pylist()
    by_ref = "logp_ref" in rows.run.columns and rows.facts is not None
    ref = rows.facts["logp_ref"] if by_ref and rows.facts is not None else np.full(rows.num_rows, np.nan)
    if by_ref and rows.facts is not None:
        # Sums run over loss tokens: under another mask they say nothing of the reference.
        ref = np.where(rows.facts["loss_tokens"] == rows.facts["tokens"], ref, np.nan)
    found: Texts = {}
    for row in np.flatnonzero(use).tolist():
        entry = found.setdefault((prompts[row], said[row]), Said())
        entry.rewards.append(float(reward[row]))
        if not np.isnan(ref[row]):
            entry.logp_ref, entry.row = float(ref[row]), row
    return found


def _said(rows: RunRows) -> tuple[np.ndarray, np.ndarray]:
    """What tells the texts apart, and which rows have one."""
    if "token_ids" in rows.run.columns and rows.facts is not None:
        keys = rows.facts["text_key"]
        return keys, keys != NO_TEXT
    column = rows.run.responses(["response"])["response"]
    return np.array([text or "" for text in column.to_pylist()], dtype=object), valid(column)
