"""GRPO and the fixes of one bias each: scale, normaliser, band."""

from __future__ import annotations

from audit.objectives.catalogue.entry import Entry
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Objective,
    Overlong,
    Ratio,
    Scale,
    Shaping,
)
from audit.objectives.surrogates import PPOClip

GROUP_MEAN = Baseline(kind="group_mean")
GROUP_STD = Scale(kind="group_std")
OLD = Ratio(denominator="old")
CLIP = PPOClip(epsilon_low=0.2, epsilon_high=0.2)
ROW_MEAN = Aggregation(kind="seq-mean-token-mean")
REWARD = "the reward objective"
AS_GRPO = "as GRPO"
LINEAGE = "REINFORCE with a Monte Carlo baseline + PPO's trust region"
UNSTATED = "ddof 0 and epsilon 0 of the std are chosen here."

GRPO = Objective(
    name="grpo",
    baseline=GROUP_MEAN,
    scale=GROUP_STD,
    ratio=OLD,
    clip=CLIP,
    aggregation=ROW_MEAN,
    kl=KL(loss=LossKL(coefficient=0.04)),
)
_DR_GRPO = Objective(
    name="dr_grpo",
    baseline=GROUP_MEAN,
    ratio=OLD,
    clip=CLIP,
    aggregation=Aggregation(kind="seq-mean-token-sum-norm"),
)
_DR = "arXiv:2503.20783 (Liu et al. 2025)"

ENTRIES = (
    Entry(
        objective=GRPO,
        meaning="Group-standardised rewards, PPO's clip, mean over the tokens of each response, "
        "k3 in the loss.",
        formula="w = (rho A [not clipped] - beta (1 - exp(log pi_ref - log pi_theta))) / (B L_i)",
        paper="arXiv:2402.03300 (Shao et al. 2024), eq. 3-4",
        lineage=LINEAGE,
        fixes="PPO's critic: a second model only to supply baselines",
        weight="rho (r - mean) / std, over |o|",
        stability="PPO clip; k3 in the loss",
        target="approximately the KL-regularised objective: k3's gradient is that of the forward KL",
        choices="The paper states neither ddof nor epsilon of the std, nor the clip range: 0, 0 and 0.2 "
        "stand here.",
    ),
    Entry(
        objective=_DR_GRPO,
        meaning="GRPO without the division by the std and without 1/|o|: a constant divides instead.",
        formula="w = rho (r - mean) [not clipped] / (B C)",
        paper=_DR,
        lineage="REINFORCE with a Monte Carlo baseline + PPO clip",
        fixes="GRPO's weights by difficulty (std) and by length (1/|o|)",
        weight="rho (r - mean), over C",
        stability="PPO clip",
        target="the reward objective, without weights by difficulty or length",
        choices="C is the run's generation budget, as in the authors' code; so is the clip range 0.2.",
    ),
    Entry(
        objective=_DR_GRPO.replace(
            name="dr_grpo_longest",
            aggregation=Aggregation(kind="seq-mean-token-sum-norm", constant="longest"),
        ),
        meaning="Dr. GRPO as verl has it by default: C is the longest response of the batch.",
        formula="w = rho (r - mean) [not clipped] / (B max L)",
        paper=f"{_DR}; divisor: verl 0.9.1",
        lineage="REINFORCE with a Monte Carlo baseline + PPO clip",
        fixes="as Dr. GRPO, but one long response shrinks the step of its whole batch",
        weight="rho (r - mean), over the longest |o|",
        stability="PPO clip",
        target="the reward objective, with a step size that varies by batch",
        choices="The divisor is an implementation's, not the paper's.",
    ),
    Entry(
        objective=_DR_GRPO.replace(
            name="dr_grpo_sum", aggregation=Aggregation(kind="token-sum-norm", constant="longest")
        ),
        meaning="Dr. GRPO as ROLL has it: over the padded width alone, not over the responses.",
        formula="w = rho (r - mean) [not clipped] / max L",
        paper=f"{_DR}; divisor: ROLL, and verl before 0.8",
        lineage="REINFORCE with a Monte Carlo baseline + PPO clip",
        fixes="as Dr. GRPO, but the step grows with the batch size",
        weight="rho (r - mean), over the longest |o|",
        stability="PPO clip",
        target="the reward objective, with a step size that grows with the batch",
        choices="The divisor is an implementation's, not the paper's.",
    ),
    Entry(
        objective=Objective(
            name="dapo",
            shaping=Shaping(overlong=Overlong(max_length=20480, cache=4096)),
            filter=Filter(dynamic_sampling=True),
            baseline=GROUP_MEAN,
            scale=GROUP_STD,
            ratio=OLD,
            clip=PPOClip(epsilon_low=0.2, epsilon_high=0.28),
            aggregation=Aggregation(kind="token-mean"),
        ),
        meaning="Clip-higher, dynamic sampling, token-level loss, overlong penalty; no KL.",
        formula="w = rho A [not clipped] / N",
        paper="arXiv:2503.14476 (Yu et al. 2025)",
        lineage="REINFORCE with a Monte Carlo baseline + an asymmetric trust region",
        fixes="entropy collapse, dead groups, 1/|o|, and hard punishment of cut-off responses",
        weight="rho (r - mean) / std, over N",
        stability="asymmetric clip; no KL",
        target="reward on prompts neither solved nor hopeless",
        signal="verifiable reward per response, with an overlong penalty",
        choices="The token mean spans the batch, as in every code; the paper prints it inside each "
        f"prompt's group (prompt-mean-token-mean). {UNSTATED}",
    ),
    Entry(
        objective=Objective(
            name="bnpo",
            baseline=GROUP_MEAN,
            scale=GROUP_STD,
            ratio=OLD,
            clip=CLIP,
            aggregation=Aggregation(kind="token-mean", scope="micro_batch"),
        ),
        meaning="GRPO with a token mean over each micro-batch instead of over each response.",
        formula="w = rho A [not clipped] / (N of the micro-batch · micro-batches)",
        paper="TRL 1.16, loss_type bnpo",
        lineage=LINEAGE,
        fixes="1/|o|; but a token then weighs more in a micro-batch of short responses",
        weight="rho (r - mean) / std, over N of slice",
        stability="PPO clip",
        target=REWARD,
        choices="Not the Beta normalisation of arXiv:2506.02864, which has the same name. TRL's std has "
        "ddof 1 and epsilon 1e-4; 0 and 0 stand here.",
    ),
    Entry(
        objective=GRPO.replace(
            name="grpo_dual_clip", clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=3.0)
        ),
        meaning="GRPO whose punished tokens also drop out once their ratio exceeds a bound.",
        formula="w = GRPO's, with rho = 0 where A < 0 and rho > c",
        paper="arXiv:1912.09729 (Ye et al. 2020), eq. 5; on GRPO: verl 0.9.1",
        lineage=LINEAGE,
        fixes="an unbounded push where A < 0 and the ratio is large",
        weight="rho (r - mean) / std, over |o|",
        stability="PPO clip; rho bounded where A < 0; k3 in the loss",
        target=AS_GRPO,
        choices=f"c = 3 is verl's default, where it is always on. {UNSTATED}",
    ),
    Entry(
        objective=GRPO.replace(
            name="grpo_two_sided", clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, delta=4.0), kl=KL()
        ),
        meaning="GRPO with an upper bound on the ratio for both signs of the advantage.",
        formula="w = rho A [not clipped; not rho > delta] / (B L_i)",
        paper="arXiv:2505.07291 (INTELLECT-2, 2025)",
        lineage=LINEAGE,
        fixes="loss spikes from punished tokens with a very large ratio",
        weight="rho (r - mean) / std, over |o|",
        stability="PPO clip, and rho of at most delta",
        target=REWARD,
        choices=f"delta = 4 is the paper's; no KL stands here. {UNSTATED}",
    ),
)
