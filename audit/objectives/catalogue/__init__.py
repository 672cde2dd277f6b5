"""The named algorithms: entries that differ in a few fields of an objective."""

from __future__ import annotations

from typing import NamedTuple

from audit.errors import UnknownName
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
from audit.objectives.surrogates import CISPOClip, PPOClip


class Entry(NamedTuple):
    """One algorithm of the catalogue."""

    objective: Objective
    meaning: str
    formula: str
    paper: str
    lineage: str


_GROUP_STD = Scale(kind="group_std")
_OLD = Ratio(denominator="old")

CATALOGUE: dict[str, Entry] = {
    "reinforce": Entry(
        Objective(name="reinforce", aggregation=Aggregation(kind="seq-mean-token-sum")),
        "The plain policy gradient: every token carries the reward of its response.",
        "w = r / B",
        "Williams 1992",
        "the ancestor of all the others",
    ),
    "rloo": Entry(
        Objective(
            name="rloo",
            baseline=Baseline(kind="leave_one_out"),
            aggregation=Aggregation(kind="seq-mean-token-sum"),
        ),
        "REINFORCE with the mean reward of the other responses of the group as baseline; unbiased.",
        "w = (r_i - mean_{j != i} r_j) / B",
        "arXiv:2402.14740 (Ahmadian et al. 2024); Kool et al. 2019",
        "REINFORCE with a Monte Carlo leave-one-out baseline",
    ),
    "remax": Entry(
        Objective(
            name="remax",
            baseline=Baseline(kind="greedy"),
            aggregation=Aggregation(kind="seq-mean-token-sum"),
        ),
        "REINFORCE with the reward of the greedy response as baseline.",
        "w = (r - r_greedy) / B",
        "arXiv:2310.10505 (Li et al. 2023)",
        "self-critical sequence training (Rennie et al. 2017)",
    ),
    "ppo": Entry(
        Objective(
            name="ppo",
            baseline=Baseline(kind="logged"),
            ratio=_OLD,
            clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
            aggregation=Aggregation(kind="token-mean"),
        ),
        "The clipped surrogate on the advantages that the log holds (from a critic, by GAE).",
        "w = A rho [not clipped] / N",
        "arXiv:1707.06347 (Schulman et al. 2017), eq. 7",
        "TRPO's trust region, as a clip",
    ),
    "grpo": Entry(
        Objective(
            name="grpo",
            baseline=Baseline(kind="group_mean"),
            scale=_GROUP_STD,
            ratio=_OLD,
            clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
            aggregation=Aggregation(kind="seq-mean-token-mean"),
            kl=KL(loss=LossKL(coefficient=0.04)),
        ),
        "Group-standardised rewards, PPO's clip, mean over the tokens of each response, k3 in the loss.",
        "w = (rho A [not clipped] - beta (1 - exp(log pi_ref - log pi_theta))) / (B L_i)",
        "arXiv:2402.03300 (Shao et al. 2024), eq. 3-4",
        "REINFORCE with a Monte Carlo baseline + PPO's trust region",
    ),
    "dr_grpo": Entry(
        Objective(
            name="dr_grpo",
            baseline=Baseline(kind="group_mean"),
            ratio=_OLD,
            clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
            aggregation=Aggregation(kind="seq-mean-token-sum-norm"),
        ),
        "GRPO without the division by the std and without 1/|o|: a constant divides instead.",
        "w = rho (r - mean) [not clipped] / (B C)",
        "arXiv:2503.20783 (Liu et al. 2025)",
        "REINFORCE with a Monte Carlo baseline + PPO clip",
    ),
    "dapo": Entry(
        Objective(
            name="dapo",
            shaping=Shaping(overlong=Overlong(max_length=20480, cache=4096)),
            filter=Filter(dynamic_sampling=True),
            baseline=Baseline(kind="group_mean"),
            scale=_GROUP_STD,
            ratio=_OLD,
            clip=PPOClip(epsilon_low=0.2, epsilon_high=0.28),
            aggregation=Aggregation(kind="token-mean"),
        ),
        "Clip-higher, dynamic sampling, token-level loss, overlong penalty; no KL.",
        "w = rho A [not clipped] / N",
        "arXiv:2503.14476 (Yu et al. 2025)",
        "REINFORCE with a Monte Carlo baseline + an asymmetric trust region",
    ),
    "gspo": Entry(
        Objective(
            name="gspo",
            baseline=Baseline(kind="group_mean"),
            scale=_GROUP_STD,
            ratio=Ratio(denominator="old", level="sequence"),
            clip=PPOClip(epsilon_low=3e-4, epsilon_high=4e-4),
            aggregation=Aggregation(kind="seq-mean-token-mean"),
        ),
        "Ratio and clip of the whole response: the geometric mean of its token ratios.",
        "w = s_i A [not clipped] / (B L_i),  s_i = exp(mean_t log rho)",
        "arXiv:2507.18071 (Zheng et al. 2025)",
        "importance-sampled policy gradient with a trust region on the whole action",
    ),
    "cispo": Entry(
        Objective(
            name="cispo",
            baseline=Baseline(kind="group_mean"),
            scale=_GROUP_STD,
            ratio=_OLD,
            clip=CISPOClip(epsilon_high=4.0),
            aggregation=Aggregation(kind="token-mean"),
        ),
        "The clipped ratio is a weight with its gradient stopped; no token is removed.",
        "w = min(rho, 1 + epsilon_high) A / N",
        "arXiv:2506.13585 (MiniMax-M1, 2025); cap 5 from arXiv:2510.13786 (ScaleRL)",
        "truncated importance sampling (IMPALA's V-trace) on a REINFORCE gradient",
    ),
}


def named(name: str) -> Objective:
    """Return the catalogue objective ``name``.

    Raises
    ------
    UnknownName
        No such entry; the message lists the closest names.
    """
    key = name.lower().replace("-", "_").replace(". ", "_").replace(".", "").replace(" ", "_")
    if key not in CATALOGUE:
        raise UnknownName.of("objective", name, CATALOGUE)
    return CATALOGUE[key].objective
