"""From rewards to advantages: shaping, baseline, scale, whitening, clip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from audit.errors import MissingColumn
from audit.objectives.arrays import Array, as_float, at_least, library, silent
from audit.objectives.baselines import Rewards, centred
from audit.objectives.batch import Responses
from audit.objectives.objective import Baseline, Objective, Scale
from audit.objectives.pools import Pool
from audit.objectives.scales import scaled
from audit.objectives.shaping import combined_reward, shaped_reward
from audit.objectives.whitening import whitening


@dataclass(frozen=True)
class Advantages:
    """Advantages of the responses, and how a per-token advantage is finished; tensors of shape (R,), float64.

    The finished advantage of a token is clip((raw - shift) · factor), with raw the response's own or, for
    objectives with one advantage per token, what :mod:`audit.objectives.token_advantages` gives.
    """

    raw: Array
    """Before whitening and clip."""
    shift: Array
    factor: Array
    final: Array
    """After them; for objectives with one advantage per token, the mean over loss tokens where known."""
    scored: Array
    """bool; the row has an advantage (neither greedy nor unscorable)."""
    some: Array
    """bool; the advantage, or that of any token, is not 0."""


@silent
def objective_reward(responses: Responses, objective: Objective) -> Array:
    """Reward as the baseline sees it: combined, shaped, minus the KL in the reward; shape (R,), float64."""
    reward = _shaped(responses, objective)
    kl = objective.kl.reward
    if kl is not None and kl.coefficient > 0.0 and kl.stage == "before_baseline":
        reward = reward - kl.coefficient * _reference_kl(responses, objective)
    return reward


def sample_weights(responses: Responses, reward: Array) -> Array:
    """Weight of each row in group statistics: 0 if unscorable or greedy, else 1 / rows of its trajectory."""
    xp, weight = library(reward), responses.sample_weight
    if weight is None:
        weight = xp.ones_like(reward)
    return xp.where(responses.trained & ~xp.isnan(reward), weight, 0.0)


@silent
def dead_groups(responses: Responses, objective: Objective) -> Array:
    """Return bool, shape (R,): the row's group has no two different shaped rewards (KL left out)."""
    reward = _shaped(responses, objective)
    pool = Pool.of(reward, responses.group, sample_weights(responses, reward))
    return pool.rows(pool.dead)


def advantages(responses: Responses, objective: Objective) -> Array:
    """Finished advantage of each response; shape (R,), float64; see :func:`advantages_of`."""
    return advantages_of(responses, objective).final


def advantages_under(
    responses: Responses, objective: Objective, choices: Iterable[tuple[Baseline, Scale]]
) -> Iterator[Array]:
    """What :func:`advantages` gives under each baseline and scale, all else as in ``objective``.

    Statistics of the rewards are formed once: a grid of candidates costs little more than one.

    Yields
    ------
    Array, shape (R,), float64

    Raises
    ------
    MissingColumn
        As :func:`advantages_of`.
    """
    plain = objective.replace(baseline=Baseline(), scale=Scale())
    if objective.shaping.per_component or objective.kl.reward is not None:
        for baseline, scale in choices:
            yield advantages(responses, objective.replace(baseline=baseline, scale=scale))
        return
    reward = objective_reward(responses, plain)
    weight = sample_weights(responses, reward)
    rewards = Rewards.of(responses, reward, weight)
    centres: dict[Baseline, Array] = {}
    for baseline, scale in choices:
        if scale.whiten is not None or scale.clip is not None or scale.reward_clip is not None:
            yield advantages(responses, objective.replace(baseline=baseline, scale=scale))
            continue
        if baseline not in centres:
            centres[baseline] = centred(rewards, baseline)
        raw = scaled(centres[baseline], rewards, scale, baseline)
        yield library(weight).where(weight > 0, raw, 0.0)


@silent
def advantages_of(responses: Responses, objective: Objective) -> Advantages:
    """Advantage of each response under ``objective``.

    0 for unscorable and greedy rows, and exactly 0 in a dead group whose baseline is its own mean; logged
    advantages are used as they stand.

    Raises
    ------
    MissingColumn
        ``logged`` without advantages, ``greedy`` without a greedy row, components or logp_ref not logged.

    Notes
    -----
    GRPO: arXiv:2402.03300 sec. 4.1.2. RLOO: arXiv:2402.14740 eq. 3; leave-one-out is G/(G-1) times the
    group-mean advantage. TRL's rule for unscorable rows (grpo_trainer.py 1.16: left out of the statistics,
    advantage 0) is used throughout.
    """
    raw, weight = _raw(responses, objective)
    xp = library(raw)
    shift, factor = xp.zeros_like(raw), xp.ones_like(raw)
    whiten, moments = objective.scale.whiten, responses.token_moments
    of_row = raw
    if moments is not None:
        of_row = xp.where(moments[:, 0] > 0, moments[:, 1] / at_least(moments[:, 0], 1.0), raw)
    if whiten is not None:
        if moments is None or whiten.level == "sequence":
            count = weight if whiten.level == "sequence" else as_float(responses.loss_tokens)
            sums = xp.stack([count, count * of_row, xp.zeros_like(raw)], -1)
        else:
            sums = moments[:, :3]
        counted = weight > 0
        if whiten.level == "token" and objective.filter.mask_truncated and responses.truncated is not None:
            counted = counted & ~responses.truncated
        if objective.filter.dynamic_sampling:
            counted = counted & ~dead_groups(responses, objective)
        sums = xp.where(counted[:, None], sums, 0.0)
        shift, factor = whitening(sums, responses.generation_batch, whiten)
    scored = weight > 0
    final = xp.where(scored, finished(of_row, shift, factor, objective), 0.0)
    some = final != 0
    if moments is not None:
        low, high = (finished(moments[:, column], shift, factor, objective) for column in (3, 4))
        logged = objective.baseline.kind == "logged"
        some = scored & xp.where(moments[:, 0] > 0, (low != 0) | (high != 0), some & logged)
    return Advantages(raw, shift, factor, final, scored, some)


def finished(raw: Array, shift: Array, factor: Array, objective: Objective) -> Array:
    """Whiten and clip raw advantages; tensors of one shape."""
    value = (raw - shift) * factor
    return value if objective.scale.clip is None else library(value).clip(value, *objective.scale.clip)


def _raw(responses: Responses, objective: Objective) -> tuple[Array, Array]:
    """Advantage before whitening, and the weight of each row in the statistics; shape (R,)."""
    kind = objective.baseline.kind
    if kind in ("logged", "gae"):
        if responses.advantage is None:
            column = "advantage" if kind == "logged" else "value"
            raise MissingColumn.needed_for(column, f"objective '{objective.name}'")
        weight = as_float(responses.trained)
        if kind == "gae":
            weight = sample_weights(responses, objective_reward(responses, objective))
        return library(weight).where(weight > 0, responses.advantage, 0.0), weight
    reward = objective_reward(responses, objective)
    weight = sample_weights(responses, reward)
    if objective.shaping.per_component:
        raw = _per_component(responses, objective)
    else:
        rewards = Rewards.of(responses, reward, weight)
        raw = scaled(centred(rewards, objective.baseline), rewards, objective.scale, objective.baseline)
    if objective.scale.reward_clip is not None:
        raw = library(raw).clip(raw, *objective.scale.reward_clip)
    kl = objective.kl.reward
    if kl is not None and kl.coefficient > 0.0 and kl.stage == "after_scale" and kl.form == "sum":
        raw = raw - kl.coefficient * _reference_kl(responses, objective)
    return library(raw).where(weight > 0, raw, 0.0), weight


def _per_component(responses: Responses, objective: Objective) -> Array:
    """GDPO, arXiv:2601.05242: baseline and scale per component, then the weighted sum."""
    xp = library(responses.reward)
    total = xp.zeros_like(responses.reward)
    for name, weight in (objective.shaping.weights or {}).items():
        value = responses.component(name)
        rewards = Rewards.of(responses, value, sample_weights(responses, value))
        made = scaled(centred(rewards, objective.baseline), rewards, objective.scale, objective.baseline)
        total = total + weight * xp.where(xp.isnan(value), 0.0, made)
    return total


def _shaped(responses: Responses, objective: Objective) -> Array:
    reward = combined_reward(responses, objective.shaping)
    return shaped_reward(reward, responses.length, objective.shaping)


def _reference_kl(responses: Responses, objective: Objective) -> Array:
    if responses.reference_kl is None:
        raise MissingColumn.needed_for("logp_ref", f"KL in the reward ({objective.name})")
    return responses.reference_kl
