"""Every entry of the catalogue: complete, unlike the others, and its weights those of its paper's loss."""

from __future__ import annotations

import catalogue_losses as papers
import msgspec
import pytest
import torch

from audit.errors import UnknownName
from audit.objectives.batch import Responses, Tokens
from audit.objectives.catalogue import CATALOGUE, CORE, FAMILIES, ROWS, named
from audit.objectives.objective import Objective, Overlong, Shaping, differing_fields
from audit.objectives.weights import effective_weights
from audit.ragged import Layout

NAMES = list(CATALOGUE)


def batch(seed: int) -> papers.Batch:
    """Groups with signal, a dead one, binary and graded rewards; ratios on both sides of every bound."""
    generator = torch.Generator().manual_seed(seed)

    def noise(scale: float) -> torch.Tensor:
        shape = (papers.GROUPS * papers.G, papers.WIDTH)
        return scale * torch.randn(shape, generator=generator, dtype=torch.float64)

    rows = papers.GROUPS * papers.G
    length = torch.randint(2, papers.WIDTH + 1, (rows, 1), generator=generator)
    length[0] = papers.WIDTH
    inside = torch.arange(papers.WIDTH) < length
    inside[3, 0] = False
    old = -(noise(0.8).abs()) - 0.05
    # Whole-response ratios reach GSPO's narrow band only where a response hardly moved.
    moved = torch.tensor([1.0, 1e-4, 2.0, 0.3, 1e-5] * papers.GROUPS, dtype=torch.float64)[:, None]
    reward = torch.tensor([1, 0, 0.5, 1, 0, 1, 1, 1, 1, 1, 0, 0.5, 0, 0, 0], dtype=torch.float64)[:, None]
    shuffled = torch.randperm(rows, generator=generator)
    return papers.Batch(
        theta=(old + noise(0.4) * moved).clamp(max=-1e-3).requires_grad_(True),
        old=old,
        ref=old + noise(0.5),
        sampler=(old + noise(0.4)).clamp(max=-1e-3),
        value=noise(0.5),
        mask=inside.double(),
        length=length,
        reward=reward,
        accuracy=reward.clone(),
        format=reward[shuffled].clone(),
        logged=noise(1.0)[:, :1],
        greedy=torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64).repeat_interleave(papers.G)[:, None],
    )


def tensors(b: papers.Batch, *, greedy: bool, micro: bool) -> tuple[Tokens, Responses]:
    """The same batch, ragged; a greedy response has no tokens here, for none of them trains."""
    rows, extra = len(b.reward), papers.GROUPS if greedy else 0
    inside = torch.arange(papers.WIDTH) < b.length
    none = torch.zeros(extra)
    group = torch.arange(papers.GROUPS)

    def flat(values: torch.Tensor) -> torch.Tensor:
        return values.detach()[inside]

    tokens = Tokens(
        layout=Layout.from_lengths(torch.cat([b.length.flatten(), none.long()])),
        mask=flat(b.mask) > 0,
        logp_theta=flat(b.theta),
        logp_old=flat(b.old),
        logp_ref=flat(b.ref),
        logp_sampler=flat(b.sampler),
        value=flat(b.value),
    )
    one_update = torch.zeros(rows + extra, dtype=torch.int64)
    responses = Responses(
        reward=torch.cat([b.reward.flatten(), b.greedy.flatten()[:: papers.G][:extra]]),
        length=torch.cat([b.length.flatten(), none.long()]),
        loss_tokens=torch.cat([b.tokens.flatten().long(), none.long()]),
        group=torch.cat([group.repeat_interleave(papers.G), group[:extra]]),
        update=one_update,
        generation_batch=one_update,
        micro_batch=(torch.arange(rows) >= 7).long() if micro else None,
        greedy=torch.arange(rows + extra) >= rows,
        advantage=torch.cat([b.logged.flatten(), none.double()]),
        components={"accuracy": b.accuracy.flatten(), "format": b.format.flatten()},
    )
    return tokens, responses


def fitted(name: str) -> Objective:
    """The entry, with lengths and constants that bite on short responses."""
    objective = named(name)
    if name == "dr_grpo":
        constant = msgspec.structs.replace(objective.aggregation, constant=papers.CONSTANT)
        return objective.replace(aggregation=constant)
    if name == "dapo":
        overlong = Overlong(max_length=papers.MAX_LENGTH, cache=papers.CACHE)
        return objective.replace(shaping=Shaping(overlong=overlong))
    return objective


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_weights_are_the_gradient_of_the_paper_s_loss(name: str, seed: int) -> None:
    b = batch(seed)
    (gradient,) = torch.autograd.grad(papers.GAINS[name](b), b.theta)
    tokens, responses = tensors(b, greedy=name == "remax", micro=name == "bnpo")
    computed = effective_weights(tokens, responses, fitted(name)).weight
    expected = gradient[torch.arange(papers.WIDTH) < b.length]
    assert computed.abs().max() > 0
    torch.testing.assert_close(computed, expected, rtol=1e-9, atol=1e-13)


def test_every_entry_has_a_loss_to_hold_it_against() -> None:
    assert set(papers.GAINS) == set(CATALOGUE)


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_is_complete(name: str) -> None:
    entry = CATALOGUE[name]
    said = (entry.meaning, entry.formula, entry.paper, entry.fixes, entry.source, *entry.rows.values())
    assert all(said)
    assert tuple(entry.rows) == ROWS
    assert entry.formula.startswith("w = ")
    assert "arXiv:" in entry.paper or entry.source in ("Williams 1992", "TRL 1.16", "Yao et al. 2025")
    assert entry.meaning.endswith(".")
    assert not entry.choices or entry.choices.endswith(".")
    assert max(len(entry.weight), len(entry.source)) <= 50


def test_no_two_entries_are_the_same() -> None:
    alike = [
        (a, b)
        for a in NAMES
        for b in NAMES
        if a < b and not differing_fields(CATALOGUE[a].objective, CATALOGUE[b].objective)
    ]
    assert alike == []


def test_names_are_unique_and_the_core_is_among_them() -> None:
    assert len(NAMES) == sum(len(family) for family in FAMILIES.values())
    assert CORE == ("reinforce", "rloo", "remax", "ppo", "grpo", "dr_grpo", "dapo", "gspo", "cispo")
    assert set(CORE) <= set(NAMES)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("REINFORCE++", "reinforce_pp"),
        ("REINFORCE++-baseline", "reinforce_pp_baseline"),
        ("pass@k", "pass_at_k"),
        ("Clip-Cov", "clip_cov"),
        ("GSPO-token", "gspo_token"),
    ],
)
def test_algorithms_are_found_as_their_papers_spell_them(spelling: str, name: str) -> None:
    assert named(spelling).name == name
    with pytest.raises(UnknownName):
        named(f"{spelling}!")


def test_what_an_entry_needs_comes_from_its_fields() -> None:
    assert CATALOGUE["rloo"].needs == {}
    assert set(CATALOGUE["grpo_tis"].needs) == {"logp_theta", "logp_old", "logp_ref", "logp_sampler"}
    assert "value" in CATALOGUE["ppo_gae"].needs


def test_rows_follow_the_fields() -> None:
    rows = {name: entry.rows for name, entry in CATALOGUE.items()}
    assert rows["dapo"]["samples from"].endswith("only groups whose rewards differ are kept")
    assert "greedy decode" in rows["remax"]["samples from"]
    assert "reference" in rows["grpo"]["models in memory"]
    assert "reference" not in rows["dapo"]["models in memory"]
    assert "critic" in rows["ppo_gae"]["models in memory"]
    assert "one ratio per response" in rows["gspo"]["credit"]
    assert "one ratio per token" in rows["grpo"]["credit"]
    assert "corrected" in rows["grpo_tis"]["samples from"]
    assert "inference engine" in rows["vtrace"]["samples from"]
