"""Other goals than mean reward: pass@k, likelihood of success, several rewards at once."""

from __future__ import annotations

from audit.objectives.catalogue.entry import Entry
from audit.objectives.catalogue.groups import CLIP, GROUP_MEAN, OLD, ROW_MEAN
from audit.objectives.objective import Aggregation, Baseline, Objective, Scale, Shaping, Whiten

_SUM = Aggregation(kind="seq-mean-token-sum")

ENTRIES = (
    Entry(
        objective=Objective(
            name="gdpo",
            shaping=Shaping(weights={"accuracy": 1.0, "format": 1.0}, per_component=True),
            baseline=GROUP_MEAN,
            scale=Scale(kind="group_std", whiten=Whiten(level="sequence")),
            ratio=OLD,
            clip=CLIP,
            aggregation=ROW_MEAN,
        ),
        meaning="Each reward component is standardised in its group alone; the sum then over the batch.",
        formula="w = rho whiten(sum_n w_n (r_n - mean r_n) / std r_n) [not clipped] / (B L_i)",
        paper="arXiv:2601.05242 (Liu et al. 2026)",
        lineage="GRPO, per reward component",
        fixes="sums of rewards that coincide erase what tells responses apart",
        weight="rho sum_n w_n A_n, over |o|",
        stability="PPO clip",
        target="a mixture of the components, each at equal spread",
        signal="several scalar rewards per response",
        choices="The components 'accuracy' and 'format' stand as examples: set shaping.weights. Codes "
        "whiten the sum in three ways; over responses, with ddof 0, here.",
    ),
    Entry(
        objective=Objective(
            name="pass_at_k",
            baseline=Baseline(kind="pass_at_k", k=4),
            scale=Scale(kind="pass_at_k_std"),
            ratio=OLD,
            clip=CLIP,
            aggregation=ROW_MEAN,
        ),
        meaning="Advantages of pass@k in closed form: how a response changes the best of k.",
        formula="w = rho A [not clipped] / (B L_i),  A of pass@k over its std",
        paper="arXiv:2508.10751 (Chen et al. 2025)",
        lineage="policy gradient of the best-of-k objective",
        fixes="mean reward spends effort on prompts that best-of-k already solves",
        weight="rho A_pass@k / std, over |o|",
        stability="PPO clip",
        target="pass@k, weighted by difficulty through its std",
        choices="k = 4, clip range and row mean stand here as examples.",
    ),
    Entry(
        objective=Objective(name="pass_at_k_best", baseline=Baseline(kind="runner_up"), aggregation=_SUM),
        meaning="Only the best response of a group is reinforced, by its lead over the second best.",
        formula="w = (r_best - r_second) / B on the best response",
        paper="arXiv:2503.19595 (Tang et al. 2025)",
        lineage="policy gradient of the best-of-n objective, leave-one-out",
        fixes="mean reward, where the best of n is what counts",
        weight="lead of the best, 0 for the others",
        stability="none",
        target="the expected best of G",
        choices="On-policy, with the row mean of sums; verl also offers a std.",
    ),
    Entry(
        objective=Objective(
            name="maxrl", baseline=GROUP_MEAN, scale=Scale(kind="group_mean"), aggregation=_SUM
        ),
        meaning="Rewards over their group mean: the gradient of the log-likelihood of success.",
        formula="w = (r - mean) / (mean B)",
        paper="arXiv:2602.02710",
        lineage="maximum likelihood of success: weight 1/p",
        fixes="hard prompts are learned last under mean reward",
        weight="(r - mean) / mean",
        stability="none",
        target="log-likelihood of success (as G grows)",
        choices="On-policy, with the row mean of sums; a group whose mean is not positive gets nothing, "
        "as in prime-rl.",
    ),
)
