"""verl's advantage estimators. Where they depart from the papers:

- every estimator but ``rloo_vectorized`` and ``remax`` gives a group of one response its raw reward.
- ``grpo``: ddof 1 and 1e-6 added to the std; ``norm_adv_by_std_in_grpo`` switches the division off.
- ``reinforce_plus_plus``, ``reinforce_plus_plus_baseline``, ``gae`` and ``gdpo`` are whitened over loss
  tokens (ddof 1, 1e-8 added to the variance), so long responses weigh more.
- ``grpo_passk``: only the best response of a group, by its lead over the second; ties leave nothing.
- ``gpg``: the factor is B / number of nonzero rewards; the paper has B / (B - responses of dead groups).
- ``gdpo``: components by ``gdpo_reward_keys``; a KL in the reward does not reach them.
- ``grpo_vectorized``: as ``grpo``; through 0.7.1 the std was at least 1e-3 (in float32).

Read: verl/trainer/ppo/core_algos.py ``compute_*_advantage``; versions as in
:mod:`~audit.objectives.dialects.verl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from audit.errors import BadObjective
from audit.objectives.dialects.verl_config import require_since
from audit.objectives.objective import Baseline, Scale, Shaping, Whiten

WHITEN = Whiten(level="token", ddof=1, epsilon=1e-8, epsilon_in="variance")
_STD = Scale(kind="group_std", ddof=1, epsilon=1e-6)


class Advantage(NamedTuple):
    """The parts of an objective that make the advantage."""

    baseline: Baseline
    scale: Scale = Scale()
    shaping: Shaping = Shaping()


def advantage(config: Mapping[str, Any], version: str) -> Advantage:
    """Return the advantage of a completed config.

    Raises
    ------
    BadObjective
        The estimator is unknown to ``version``, or cannot be expressed.
    """
    name = str(config["algorithm.adv_estimator"]).lower()
    require_since("estimators", name, version)
    std = _STD if config.get("algorithm.norm_adv_by_std_in_grpo", True) else Scale()
    if name == "gae":
        gamma, lam = float(config["algorithm.gamma"]), float(config["algorithm.lam"])
        return Advantage(Baseline(kind="gae", gamma=gamma, lam=lam), Scale(whiten=WHITEN))
    if name == "reinforce_plus_plus":
        if config["algorithm.gamma"] != 1.0:
            msg = (
                f"verl's algorithm.gamma={config['algorithm.gamma']} with reinforce_plus_plus is not "
                "expressible as an objective (a reward discounted by its distance)."
            )
            raise BadObjective(msg)
        return Advantage(Baseline(), Scale(whiten=WHITEN))
    if name == "gdpo":
        return _gdpo(config, std)
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name in ("grpo", "grpo_vectorized"):
        return Advantage(Baseline(kind="group_mean", singleton="raw"), std)
    if name == "grpo_passk":
        return Advantage(Baseline(kind="runner_up"), std)
    msg = (
        f"verl's algorithm.adv_estimator={name!r} is not expressible as an objective (a baseline per token "
        "place)."
    )
    raise BadObjective(msg)


_SIMPLE = {
    "rloo": Advantage(Baseline(kind="leave_one_out", singleton="raw")),
    "rloo_vectorized": Advantage(Baseline(kind="leave_one_out")),
    "opo": Advantage(Baseline(kind="length_weighted", singleton="raw")),
    "remax": Advantage(Baseline(kind="greedy")),
    "gpg": Advantage(Baseline(kind="group_mean", singleton="raw"), Scale(kind="nonzero_share")),
    "reinforce_plus_plus_baseline": Advantage(
        Baseline(kind="group_mean", singleton="raw"), Scale(whiten=WHITEN)
    ),
}


def _gdpo(config: Mapping[str, Any], std: Scale) -> Advantage:
    keys = config.get("algorithm.gdpo_reward_keys")
    if not keys:
        raise BadObjective(
            "verl's algorithm.adv_estimator='gdpo' needs algorithm.gdpo_reward_keys, the reward components."
        )
    weights = config.get("algorithm.gdpo_reward_weights") or [1.0] * len(keys)
    if len(weights) != len(keys):
        msg = f"verl's algorithm.gdpo_reward_weights has {len(weights)} entries for {len(keys)} keys."
        raise BadObjective(msg)
    named = dict(zip(map(str, keys), map(float, weights), strict=True))
    scale = Scale(kind=std.kind, ddof=std.ddof, epsilon=std.epsilon, whiten=WHITEN)
    shaping = Shaping(per_component=True, weights=named)
    return Advantage(Baseline(kind="group_mean", singleton="raw"), scale, shaping)
