"""Whether tokens were drawn from the logged policy: exact softmax policies, samplers set right and wrong."""

from __future__ import annotations

import random

import numpy as np
import pytest
from synthetic import Rows, write

from audit.analyses.explain import explain

VOCABULARY = 8


def policy(prompt: int, place: int) -> np.ndarray:
    logits = np.random.default_rng([7, prompt, place]).normal(0.0, 1.5, VOCABULARY)
    chances = np.exp(logits - logits.max())
    return chances / chances.sum()


def as_sampled(chances: np.ndarray, *, temperature: float = 1.0, top_k: int = VOCABULARY) -> np.ndarray:
    changed = chances ** (1.0 / temperature)
    changed[np.argsort(-chances)[top_k:]] = 0.0
    return changed / changed.sum()


def made(seed: int, *, entropy: bool = True, **sampler) -> Rows:
    rng = np.random.default_rng(seed)
    noise = random.Random(seed)
    rows: Rows = []
    for step in range(10):
        for prompt in range(12):
            for sample in range(8):
                ids, logp, uncertain = [], [], []
                for place in range(4):
                    chances = policy(prompt, place)
                    token = int(rng.choice(VOCABULARY, p=as_sampled(chances, **sampler)))
                    ids.append(token)
                    logp.append(float(np.log(chances[token])))
                    uncertain.append(float(-(chances * np.log(chances)).sum()))
                row = {
                    "step": step,
                    "update": step,
                    "prompt_id": f"p{prompt}",
                    "group_id": f"{step}-{prompt}",
                    "sample_index": sample,
                    "response": "".join("abcdefgh"[t] for t in ids),
                    "token_ids": ids,
                    "length": 4,
                    "reward": float(noise.random() < 0.5),
                    "logp_old": logp,
                    "logp_theta": logp,
                }
                rows.append(row | ({"entropy": uncertain} if entropy else {}))
    return rows


def told(tmp_path, a: Rows, b: Rows):
    return explain(write(tmp_path / "a", a), write(tmp_path / "b", b))


@pytest.mark.parametrize(
    ("sampler", "cause", "sign"),
    [
        ({"top_k": 3}, "sampling.support", -1),
        ({"temperature": 1.4}, "sampling.temperature", 1),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_a_sampler_that_is_not_the_policy_is_named(
    tmp_path, sampler, cause: str, sign: int, side: int
) -> None:
    rows = [made(1), made(2)]
    rows[side] = made(3, **sampler)
    found = told(tmp_path, *rows)
    first = next(c for c in found.verdict.causes if c.evidence.get("measure", "").startswith("surprisal"))
    assert first.id == cause
    # By enumeration: the expectation of -log pi - H(pi) under what sampled.
    expected = [
        (as_sampled(policy(p, t), **sampler) * -np.log(policy(p, t))).sum()
        + (policy(p, t) * np.log(policy(p, t))).sum()
        for p in range(12)
        for t in range(4)
    ]
    off = first.evidence["ab"[side]]
    assert np.sign(off) == sign
    assert off == pytest.approx(np.mean(expected), abs=0.05)


def test_a_right_sampler_and_one_wrong_in_both_runs_are_no_cause(tmp_path) -> None:
    assert told(tmp_path / "right", made(1), made(2)).verdict.causes == []
    both = told(tmp_path / "both", made(1, top_k=3), made(2, top_k=3))
    assert both.verdict.causes == []
    assert any("drawn otherwise than from the policy" in note for note in both.notes)


def test_without_entropy_the_support_is_said_to_be_unseen(tmp_path) -> None:
    found = told(tmp_path, made(1, entropy=False), made(2, entropy=False))
    needs = {unseen.cause: unseen.needs for unseen in found.verdict.not_identifiable}
    assert needs["sampling.support"] == "logp_sampler in both runs; or entropy in both runs"
