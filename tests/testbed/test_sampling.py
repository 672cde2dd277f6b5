"""Draws follow the policy, and say of every response what its tokens are."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from scipy.stats import chisquare
from testbed_small import SMALL, is_correct, prefix_number, random_policy, spelled_out

from audit.objectives.objective import Objective, Shaping
from audit.testbed import exact
from audit.testbed.sampling import responses_of, sample


def drawn(policy: torch.Tensor, group: int, seed: int = 0, *, greedy: bool = False):
    shape = (policy.shape[0], SMALL.prompts, group, SMALL.budget)
    uniforms = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return sample(SMALL, policy, uniforms, greedy=greedy)


def texts(draw) -> list[tuple[int, ...]]:
    bounds = draw.layout.offsets.tolist()
    return [tuple(draw.token[a:b].tolist()) for a, b in pairwise(bounds)]


def test_frequencies_are_the_exact_probabilities() -> None:
    policy = random_policy(SMALL, 3, runs=2)
    draw = drawn(policy, 4000)
    chance = exact.response_probability(SMALL, policy)
    every = spelled_out(SMALL)
    found = texts(draw)
    for run in range(2):
        for prompt in range(SMALL.prompts):
            mine = ((draw.run == run) & (draw.prompt == prompt)).nonzero().flatten().tolist()
            counts = dict.fromkeys(every, 0)
            for i in mine:
                counts[found[i]] += 1
            expected = 4000 * chance[run, prompt]
            assert chisquare(list(counts.values()), expected.numpy()).pvalue > 1e-3


def test_what_a_draw_says_of_its_responses() -> None:
    policy = random_policy(SMALL, 4, runs=2)
    draw = drawn(policy, 16, greedy=True)
    found = texts(draw)
    seen = []
    for i, y in enumerate(found):
        run, prompt = int(draw.run[i]), int(draw.prompt[i])
        letters = [token for token in y if token < SMALL.letters]
        assert int(draw.length[i]) == len(y)
        assert bool(draw.cut[i]) == (y[-1] != SMALL.letters)
        assert (int(draw.first[i]), int(draw.last[i])) == (letters[0], letters[-1])
        assert bool(draw.correct(SMALL)[i]) == is_correct(SMALL, prompt, y)
        base = (run * SMALL.prompts + prompt) * SMALL.prefixes
        seen += [base + prefix_number(SMALL, y[:t]) for t in range(len(y))]
        if bool(draw.greedy[i]):
            table = policy[run, prompt]
            assert all(int(table[prefix_number(SMALL, y[:t])].argmax()) == token for t, token in enumerate(y))
    assert draw.row.tolist() == seen
    assert draw.greedy.tolist() == ([False] * 16 + [True]) * 4
    assert draw.sample.tolist() == list(range(17)) * 4
    flat = policy.reshape(-1, SMALL.tokens)
    torch.testing.assert_close(draw.at_tokens(policy), flat[draw.row, draw.token])


def test_the_first_letter_may_be_the_answer() -> None:
    language = replace(SMALL, answer="first")
    draw = drawn(random_policy(SMALL, 5), 16)
    expected = [is_correct(language, int(p), y) for p, y in zip(draw.prompt, texts(draw), strict=True)]
    assert draw.correct(language).tolist() == expected
    assert draw.correct(SMALL).tolist() != expected


def test_a_combined_reward_leaves_its_components_alone() -> None:
    draw = drawn(random_policy(SMALL, 6), 16)
    shaped = Objective(shaping=Shaping(weights={"accuracy": 1.0, "format": 0.5}))
    made = responses_of(SMALL, draw, shaped)
    accuracy = draw.correct(SMALL).double()
    assert torch.equal(made.components["accuracy"], accuracy)
    assert torch.equal(made.reward, accuracy + 0.5 * (draw.first == 0))
