"""A temperature in the log-probs of equal texts, against softmax itself; another model is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Rows, rollouts, write

from audit.analyses.explain import explain
from audit.analyses.sharper import sharper
from audit.facts.rows import RunRows

VOCABULARY = 6


def logits_of(prompt: str, place: int, model: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(hash((sum(map(ord, prompt)), place, model)) % 2**31)
    return 2.5 * torch.randn(VOCABULARY, generator=generator, dtype=torch.float64)


def scored(rows: Rows, columns: tuple[str, ...], *, temperature: float = 1.0, model: int = 0) -> Rows:
    """The same rows, log-probs exact: of a policy whose logits depend on the prompt and the place."""
    tables: dict[tuple[str, int], list[float]] = {}
    made = []
    for row in rows:
        values = []
        for place, token in enumerate(row["token_ids"]):
            key = (row["prompt_id"], place)
            if key not in tables:
                tables[key] = (logits_of(*key, model) / temperature).log_softmax(-1).tolist()
            values.append(tables[key][token])
        made.append(row | dict.fromkeys(columns, values))
    return made


ALL = ("logp_theta", "logp_old", "logp_ref")


def base(seed: int = 0) -> Rows:
    return rollouts(seed=seed, steps=4, prompts=4, groups=16, size=32, longest=3, epochs=1)


@given(
    logits=st.lists(st.floats(-6, 6), min_size=3, max_size=8),
    factor=st.floats(1.05, 4.0),
)
def test_no_likely_token_gains_less_than_the_factor(logits: list[float], factor: float) -> None:
    # The inequality that the analysis rests on, on enumerated distributions.
    warm = torch.tensor(logits, dtype=torch.float64).softmax(-1)
    cold = (torch.tensor(logits, dtype=torch.float64) * factor).softmax(-1)
    for p, q in zip(warm.tolist(), cold.tolist(), strict=True):
        if 0.5 < p < 0.999 and q < 1 - 1e-9:
            assert np.log(q / (1 - q)) >= factor * np.log(p / (1 - p)) - 1e-6


@pytest.mark.parametrize("temperature", [0.6, 0.9, 1.4])
def test_a_temperature_is_found_with_its_factor(tmp_path, temperature: float) -> None:
    rows = base()
    a = RunRows.read(write(tmp_path / "a", scored(rows, ALL)))
    b = RunRows.read(write(tmp_path / "b", scored(rows, ALL, temperature=temperature)))
    at = list(range(len(rows)))
    found = sharper((a, b), (at, at), ("logp_ref", "logp_ref"))
    assert found is not None
    assert found.colder == int(temperature < 1)
    factor = max(temperature, 1 / temperature)
    assert factor * (1 - 1e-3) <= found.factor <= factor * 1.2
    mirrored = sharper((b, a), (at, at), ("logp_ref", "logp_ref"))
    assert mirrored is not None
    assert mirrored.colder == 1 - found.colder
    assert mirrored.factor == pytest.approx(found.factor, rel=1e-9)
    # Exact but for float32: the pairs of one place, not the inequality, were asked.
    assert found.factor == pytest.approx(factor, rel=1e-4)
    assert found.pairs >= 8


def each_place_sharper(rows: Rows, *, alike: bool) -> Rows:
    """Every likely token likelier: by one factor, or by another one at each place."""
    made = []
    for row in rows:
        values = []
        for place, token in enumerate(row["token_ids"]):
            own = np.random.default_rng(sum(map(ord, row["prompt_id"])) + place).uniform(1.05, 3.0)
            logits = logits_of(row["prompt_id"], place, 0) * (1.5 if alike else own)
            values.append(logits.log_softmax(-1)[token].item())
        made.append(row | {"logp_ref": values})
    return made


@pytest.mark.parametrize("alike", [True, False])
def test_a_model_that_is_sharper_by_another_factor_at_each_place(tmp_path, alike: bool) -> None:
    rows = base()
    a = RunRows.read(write(tmp_path / "a", scored(rows, ALL)))
    b = RunRows.read(write(tmp_path / "b", each_place_sharper(rows, alike=alike)))
    at = list(range(len(rows)))
    found = sharper((a, b), (at, at), ("logp_ref", "logp_ref"))
    assert (found is not None) is alike


def test_without_ids_the_likely_tokens_are_asked_and_told_less_surely(tmp_path) -> None:
    rows = [
        [{k: v for k, v in r.items() if k != "token_ids"} for r in scored(base(), ALL, temperature=t)]
        for t in (1.0, 0.6)
    ]
    a, b = (RunRows.read(write(tmp_path / name, side)) for name, side in zip("ab", rows, strict=True))
    at = list(range(len(rows[0])))
    found = sharper((a, b), (at, at), ("logp_ref", "logp_ref"))
    assert found is not None
    assert (found.colder, found.pairs, found.sure(0.9)) == (1, 0, 0.6)
    assert 1 / 0.6 * (1 - 1e-3) <= found.factor <= 1 / 0.6 * 1.2


def test_another_model_is_no_temperature(tmp_path) -> None:
    rows = base()
    a = RunRows.read(write(tmp_path / "a", scored(rows, ALL)))
    b = RunRows.read(write(tmp_path / "b", scored(rows, ALL, model=1)))
    at = list(range(len(rows)))
    assert sharper((a, b), (at, at), ("logp_ref", "logp_ref")) is None
    assert sharper((a, a), (at, at), ("logp_ref", "logp_ref")) is None


@pytest.mark.parametrize("reference", [True, False])
def test_a_trainer_that_scores_at_a_temperature_is_named(tmp_path, reference: bool) -> None:
    columns = ALL if reference else ALL[:2]
    rows = [scored(base(seed), columns, temperature=t) for seed, t in ((1, 1.0), (2, 0.6))]
    if not reference:
        rows = [[{k: v for k, v in row.items() if k != "logp_ref"} for row in side] for side in rows]
    found = explain(write(tmp_path / "a", rows[0], "grpo"), write(tmp_path / "b", rows[1], "grpo"))
    named = [cause.id for cause in found.verdict.causes]
    assert "sampling.temperature" in named
    assert not {"model.reference", "model.init"} & set(named)


def test_another_reference_and_start_is_named_as_that(tmp_path) -> None:
    rows = [scored(base(seed), ALL, model=model) for seed, model in ((1, 0), (2, 1))]
    found = explain(write(tmp_path / "a", rows[0], "grpo"), write(tmp_path / "b", rows[1], "grpo"))
    named = [cause.id for cause in found.verdict.causes]
    assert "model.reference" in named
    assert "sampling.temperature" not in named


# P31
def test_old_and_new_log_probs_at_two_temperatures_are_named(tmp_path) -> None:
    rows = [scored(base(seed), ALL) for seed in (1, 2)]
    rows[1] = scored(rows[1], ("logp_theta",), temperature=0.6)
    found = explain(write(tmp_path / "a", rows[0], "grpo"), write(tmp_path / "b", rows[1], "grpo"))
    cause = found.verdict.causes[0]
    assert cause.id == "sampling.temperature"
    assert "B's new log-probs are those of a temperature 1." in cause.summary
