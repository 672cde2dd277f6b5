"""The response as one action: ratios and trust regions of whole responses."""

from __future__ import annotations

from audit.objectives.catalogue.entry import Entry
from audit.objectives.catalogue.groups import GROUP_MEAN, GROUP_STD, OLD, REWARD, ROW_MEAN, UNSTATED
from audit.objectives.objective import Aggregation, Objective, Ratio
from audit.objectives.surrogates import GMPO, VESPO, PPOClip

_CLIP = PPOClip(epsilon_low=3e-4, epsilon_high=4e-4)
_GSPO = Objective(
    name="gspo",
    baseline=GROUP_MEAN,
    scale=GROUP_STD,
    ratio=Ratio(denominator="old", level="sequence"),
    clip=_CLIP,
    aggregation=ROW_MEAN,
)

ENTRIES = (
    Entry(
        objective=_GSPO,
        meaning="Ratio and clip of the whole response: the geometric mean of its token ratios.",
        formula="w = s_i A [not clipped] / (B L_i),  s_i = exp(mean_t log rho)",
        paper="arXiv:2507.18071 (Zheng et al. 2025)",
        lineage="importance-sampled policy gradient with a trust region on the whole action",
        fixes="one-sample ratios per token, whose noise adds up over long responses",
        weight="s_i (r - mean) / std, over |o|",
        stability="clip of the response's ratio",
        target=REWARD,
        choices=UNSTATED,
    ),
    Entry(
        objective=_GSPO.replace(name="gspo_token", ratio=Ratio(denominator="old", level="sequence_token")),
        meaning="GSPO written per token: the same number, with room for one advantage per token.",
        formula="w = s_i A_t [not clipped] / (B L_i)",
        paper="arXiv:2507.18071 (Zheng et al. 2025)",
        lineage="importance-sampled policy gradient with a trust region on the whole action",
        fixes="GSPO cannot tell tokens of a response apart",
        weight="s_i A_t, over |o|",
        stability="clip of the response's ratio",
        target=REWARD,
        choices=UNSTATED,
    ),
    Entry(
        objective=_GSPO.replace(name="luspo", aggregation=Aggregation(kind="seq-mean-token-sum")),
        meaning="GSPO without 1/|o|: the row's sum, so that length does not change a token's weight.",
        formula="w = s_i A [not clipped] / B",
        paper="arXiv:2602.05261",
        lineage="whole-response importance weight, summed over the row",
        fixes="GSPO's length bias",
        weight="s_i (r - mean) / std",
        stability="clip of the response's ratio",
        target=REWARD,
        choices=f"GSPO's clip range stands here. {UNSTATED}",
    ),
    Entry(
        objective=Objective(
            name="gmpo",
            baseline=GROUP_MEAN,
            scale=GROUP_STD,
            ratio=OLD,
            clip=GMPO(epsilon_low=0.4, epsilon_high=0.4),
            aggregation=ROW_MEAN,
        ),
        meaning="The geometric mean of clipped token ratios in place of their arithmetic mean.",
        formula="w = A exp(mean_t clip(log rho)) [token not clipped] / (B L_i)",
        paper="arXiv:2507.20673 (Zhao et al. 2025)",
        lineage="geometric instead of arithmetic mean of per-token ratios",
        fixes="single tokens of extreme ratio that dominate a response",
        weight="gmean(rho) (r - mean) / std, over |o|",
        stability="clip per token in log space, ± 0.4",
        target=REWARD,
        choices=UNSTATED,
    ),
    Entry(
        objective=Objective(
            name="vespo",
            baseline=GROUP_MEAN,
            scale=GROUP_STD,
            ratio=OLD,
            clip=VESPO(),
            aggregation=Aggregation(kind="token-mean"),
        ),
        meaning="A smooth, gamma-shaped weight of the whole response's ratio; no token is removed.",
        formula="w = A W^k exp(lambda (1 - W)) / N,  W = prod_t rho",
        paper="arXiv:2602.10693",
        lineage="whole-response importance weight, tempered by a gamma-shaped kernel",
        fixes="hard clips and length-normalised ratios of responses from stale samplers",
        weight="phi(W) (r - mean) / std, over N",
        stability="the kernel itself, 1 at W = 1",
        target=REWARD,
        choices="k and lambda (2, 3 where A >= 0; 3, 2 where A < 0) and the clamps of log W are TRL's. "
        f"{UNSTATED}",
    ),
)
