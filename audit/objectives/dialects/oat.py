"""oat, and understand-r1-zero on top of it: PPOArgs to an objective.

Read: oat/algorithms/ppo.py, oat/args.py and oat/utils/ops.py at c1a074c32 (2025-10-31, 0.2.3), and
train_zero_math.py of understand-r1-zero at dfca49dd4 (2025-08-27) [read only: no released package]. Where it
departs from the papers:

- ``critic_type`` names the algorithm: ``drgrpo`` divides by generate_max_length and not by a std.
- rows are averaged per device micro-batch.
- PPO's term is weighted by the ratio of trainer to sampler, at most ``tis_c`` = 2 (not ``reinforce_update``).
- ``kl_penalty_coef`` enters the reward before the group mean; ``beta`` (0.1 in oat's arguments, 0 in the
  scripts of R1-zero) is k3 in the loss, log-ratios clamped to ±40.
- responses without an end are masked by ``ignore_no_eos`` but stay in the count of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.objectives.dialects.config import Options
from audit.objectives.dialects.declared import Declared
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Correction,
    Filter,
    LossKL,
    Objective,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import NoClip, PPOClip

_WHITEN = Whiten(ddof=1, epsilon=1e-8, epsilon_in="variance")


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read recorded arguments as oat would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express.
    """
    del trainer
    o = Options.pinned("oat", "oat", config, version)
    critic = o["critic_type"]
    baselines = {
        "drgrpo": Baseline(kind="group_mean"),
        "grpo": Baseline(kind="group_mean"),
        "ppo": Baseline(kind="gae", gamma=o["gamma"], lam=o["lam"]),
    }
    baseline = o.one_of("critic_type", baselines)
    ppo = critic == "ppo"
    if ppo:
        o.need_off(whiten_rewards="rewards are standardised before GAE")
    scale = Scale(kind="group_std", ddof=1, epsilon=1e-8) if critic == "grpo" else Scale()
    aggregation = Aggregation(scope="micro_batch")
    if critic == "drgrpo":
        aggregation = Aggregation(
            kind="seq-mean-token-sum-norm", scope="micro_batch", constant=o["generate_max_length"]
        )
    pays, beta = o["kl_penalty_coef"], o["beta"]
    reward = RewardKL(coefficient=pays)
    if ppo:
        reward = RewardKL(coefficient=pays, stage="after_scale", form="token")
    plain = o["reinforce_update"]
    corrected = () if o["tis_c"] is None else (Correction(high=o["tis_c"]),)
    objective = Objective(
        name=f"oat-{critic}",
        shaping=Shaping(factor=o["reward_scale"]),
        filter=Filter(mask_truncated=o["ignore_no_eos"]),
        baseline=baseline,
        scale=Scale(whiten=_WHITEN) if ppo and o["whiten_adv"] else scale,
        ratio=Ratio() if plain else Ratio(denominator="old", corrections=corrected),
        clip=NoClip() if plain else PPOClip(epsilon_low=o["cliprange"], epsilon_high=o["cliprange"]),
        aggregation=aggregation,
        kl=KL(
            reward=reward if pays else None,
            loss=LossKL(coefficient=beta, input_clamp=40.0) if beta > 0 else None,
        ),
    )
    return o.declared(objective)
