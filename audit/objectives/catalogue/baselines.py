"""REINFORCE and the question of what to subtract: no critic, no trust region unless one is named."""

from __future__ import annotations

from audit.objectives.catalogue.entry import Entry
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    LossKL,
    Objective,
    Ratio,
    RewardKL,
    Scale,
    Whiten,
)
from audit.objectives.surrogates import PPOClip

_SUM = Aggregation(kind="seq-mean-token-sum")
_TOKENS = Aggregation(kind="token-mean")
_CLIP = PPOClip(epsilon_low=0.2, epsilon_high=0.2)
_REWARD = "the reward objective"

ENTRIES = (
    Entry(
        objective=Objective(name="reinforce", aggregation=_SUM),
        meaning="The plain policy gradient: every token carries the reward of its response.",
        formula="w = r / B",
        paper="Williams 1992",
        lineage="the ancestor of all the others",
        fixes="nothing: it is unbiased, and its variance is what the others reduce",
        weight="r",
        stability="none",
        target=_REWARD,
    ),
    Entry(
        objective=Objective(name="rloo", baseline=Baseline(kind="leave_one_out"), aggregation=_SUM),
        meaning="REINFORCE with the mean reward of the other responses of the group as baseline; unbiased.",
        formula="w = (r_i - mean_{j != i} r_j) / B",
        paper="arXiv:2402.14740 (Ahmadian et al. 2024); Kool et al. 2019",
        lineage="REINFORCE with a Monte Carlo leave-one-out baseline",
        fixes="variance, without a critic and without bias",
        weight="r - mean of the other G - 1",
        stability="none, or KL in the reward",
        target="the reward objective, or the KL-regularised one",
        choices="The paper takes a KL off the reward, with a coefficient of the user's; none stands here.",
    ),
    Entry(
        objective=Objective(name="remax", baseline=Baseline(kind="greedy"), aggregation=_SUM),
        meaning="REINFORCE with the reward of the greedy response as baseline.",
        formula="w = (r - r_greedy) / B",
        paper="arXiv:2310.10505 (Li et al. 2023)",
        lineage="self-critical sequence training (Rennie et al. 2017)",
        fixes="the memory of a critic: one greedy decode is the baseline",
        weight="r - r of the greedy response",
        stability="none, or KL in the reward",
        target="the reward objective, or the KL-regularised one",
        choices="The paper takes a KL off the reward, with a coefficient of the user's; none stands here.",
    ),
    Entry(
        objective=Objective(name="opo", baseline=Baseline(kind="length_weighted"), aggregation=_TOKENS),
        meaning="REINFORCE, strictly on-policy, with the baseline of least variance.",
        formula="w = (r - sum L r / sum L) / N",
        paper="arXiv:2505.23585 (Hao et al. 2025)",
        lineage="the variance-optimal baseline (Weaver & Tao 2001; Greensmith et al. 2004)",
        fixes="the group mean is not the baseline of least variance when lengths differ",
        weight="r - mean of r weighted by length",
        stability="none: one exact on-policy step per batch",
        target=_REWARD,
        choices="The token mean over the batch is that of verl's implementation.",
    ),
    Entry(
        objective=Objective(
            name="gpg",
            baseline=Baseline(kind="group_mean"),
            scale=Scale(kind="alive_share"),
            aggregation=_TOKENS,
        ),
        meaning="The group-mean policy gradient alone, scaled up for the groups without signal.",
        formula="w = alpha (r - mean) / N,  alpha = B / (B - responses of dead groups)",
        paper="arXiv:2504.02546 (Chu et al. 2025)",
        lineage="REINFORCE with a sample-mean baseline",
        fixes="dead groups thin out the gradient; std and clip are shown not to be needed",
        weight="alpha (r - mean)",
        stability="none",
        target=_REWARD,
        choices="The paper's further divisor F_norm is 1 here; verl counts nonzero rewards instead "
        "(scale.kind=nonzero_share).",
    ),
    Entry(
        objective=Objective(
            name="reinforce_pp",
            scale=Scale(whiten=Whiten(level="token")),
            ratio=Ratio(denominator="old"),
            clip=_CLIP,
            aggregation=_TOKENS,
            kl=KL(reward=RewardKL(coefficient=0.01, stage="after_scale", form="to_go")),
        ),
        meaning="Reward minus KL-to-go on each token, standardised over the whole batch, with PPO's clip.",
        formula="w = rho (A - mean A) / std A [not clipped] / N,  A_t = r - beta sum_{s >= t} k1_s",
        paper="arXiv:2501.03262 (Hu et al. 2025)",
        lineage="PPO's batch advantage normalisation (Andrychowicz et al. 2021) without a critic",
        fixes="a std per group is a biased scale: one for the whole batch treats all prompts alike",
        weight="rho (r - KL to go), whitened",
        stability="PPO clip; KL in the reward, k1",
        target="the KL-regularised objective",
        choices="KL coefficient 0.01, clip range 0.2 and the token mean are those of common "
        "implementations; the std has no epsilon here.",
    ),
    Entry(
        objective=Objective(
            name="reinforce_pp_baseline",
            baseline=Baseline(kind="group_mean"),
            scale=Scale(whiten=Whiten(level="token")),
            ratio=Ratio(denominator="old"),
            clip=_CLIP,
            aggregation=_TOKENS,
            kl=KL(loss=LossKL(coefficient=0.01, estimator="k2")),
        ),
        meaning="REINFORCE++ for groups: group mean first, then one std for the batch; k2 in the loss.",
        formula="w = (rho (A - mean A) / std A [not clipped] - beta d) / N,  A = r - mean",
        paper="arXiv:2501.03262 (Hu et al. 2025)",
        lineage="PPO's batch advantage normalisation (Andrychowicz et al. 2021) without a critic",
        fixes="the prompt weights of a std per group",
        weight="rho (r - mean), whitened",
        stability="PPO clip; KL in the loss, k2",
        target="the KL-regularised objective",
        choices="KL coefficient 0.01, clip range 0.2 and the token mean are those of common "
        "implementations; groups without signal get the token mean's opposite, not 0.",
    ),
)
