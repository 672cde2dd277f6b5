"""Other trust regions than PPO's clip on the token: bounded weights, gates, masks, penalties."""

from __future__ import annotations

from audit.objectives.catalogue.entry import Entry
from audit.objectives.catalogue.groups import GROUP_MEAN, GROUP_STD, OLD, REWARD, ROW_MEAN, UNSTATED
from audit.objectives.objective import Aggregation, Objective, Ratio
from audit.objectives.surrogates import DPPO, SAPO, AnySurrogate, CISPOClip, ClipCov, KLCov, Regression

_TOKENS = Aggregation(kind="token-mean")


def _grpo_like(name: str, clip: AnySurrogate, aggregation: Aggregation, ratio: Ratio = OLD) -> Objective:
    return Objective(
        name=name, baseline=GROUP_MEAN, scale=GROUP_STD, ratio=ratio, clip=clip, aggregation=aggregation
    )


ENTRIES = (
    Entry(
        objective=_grpo_like("cispo", CISPOClip(epsilon_high=4.0), _TOKENS),
        meaning="The clipped ratio is a weight with its gradient stopped; no token is removed.",
        formula="w = min(rho, 1 + epsilon_high) A / N",
        paper="arXiv:2506.13585 (MiniMax-M1, 2025); cap 5 from arXiv:2510.13786 (ScaleRL)",
        lineage="truncated importance sampling (IMPALA's V-trace) on a REINFORCE gradient",
        fixes="the clip drops rare reflective tokens for the rest of an iteration",
        weight="min(rho, cap) (r - mean) / std, over N",
        stability="bounded importance weight, never 0",
        target=REWARD,
        choices=f"The cap of 5 is ScaleRL's. {UNSTATED}",
    ),
    Entry(
        objective=_grpo_like("sapo", SAPO(tau_positive=1.0, tau_negative=1.05), ROW_MEAN),
        meaning="A smooth sigmoid gate around ratio 1 in place of the hard clip.",
        formula="w = A 4 s (1 - s) rho / (B L_i),  s = sigmoid(tau (rho - 1))",
        paper="arXiv:2511.20347",
        lineage="a smooth surrogate in place of PPO's clip",
        fixes="the clip's all or nothing: a token a little outside counts like one far outside",
        weight="gate(rho) (r - mean) / std, over |o|",
        stability="soft gate, faster for A < 0",
        target=REWARD,
        choices=UNSTATED,
    ),
    Entry(
        objective=_grpo_like("dppo_tv", DPPO(divergence="tv"), _TOKENS, Ratio(denominator="sampler")),
        meaning="A token drops out when its probability, not its ratio, has moved too far.",
        formula="w = rho A [not |p_theta - p_sampler| > delta, pushed outwards] / N",
        paper="arXiv:2602.04879 (Qi et al. 2026)",
        lineage="TRPO's total-variation trust region, as a mask per token",
        fixes="ratio clips over-punish rare tokens and under-constrain frequent ones",
        weight="rho (r - mean) / std, over N",
        stability="mask at a change of probability",
        target=REWARD,
        choices=f"delta = 0.2 on both sides is prime-rl's; rho is not capped (verl: at 3). {UNSTATED}",
    ),
    Entry(
        objective=_grpo_like(
            "dppo_kl",
            DPPO(divergence="kl", delta_low=0.05, delta_high=0.05),
            _TOKENS,
            Ratio(denominator="sampler"),
        ),
        meaning="DPPO with a KL between the two coins 'this token or another' as distance.",
        formula="w = rho A [not KL(p_sampler, p_theta) > delta, pushed outwards] / N",
        paper="arXiv:2602.04879 (Qi et al. 2026)",
        lineage="TRPO's KL trust region, as a mask per token",
        fixes="ratio clips over-punish rare tokens and under-constrain frequent ones",
        weight="rho (r - mean) / std, over N",
        stability="mask at a KL of the token",
        target=REWARD,
        choices=f"delta = 0.05 nats stands here as an example; rho is not capped. {UNSTATED}",
    ),
    Entry(
        objective=_grpo_like("clip_cov", ClipCov(), _TOKENS),
        meaning="PPO's clip, and a few random tokens of high covariance lose their gradient.",
        formula="w = rho A [not clipped, not drawn] / N",
        paper="arXiv:2505.22617 (Cui et al. 2025)",
        lineage="entropy change of the natural policy gradient, -cov(log pi, A)",
        fixes="entropy collapse, which few tokens carry",
        weight="rho (r - mean) / std, over N",
        stability="PPO clip; random mask at high covariance",
        target=REWARD,
        choices="Share 2e-4 and window (1, 5) are the published ones. The draw is not in a log: "
        f"weights are its expectation. {UNSTATED}",
    ),
    Entry(
        objective=_grpo_like("kl_cov", KLCov(), _TOKENS),
        meaning="No clip; the tokens of highest covariance pay for every move away from the old policy.",
        formula="w = (rho A - beta sign(log rho) [chosen]) / N",
        paper="arXiv:2505.22617 (Cui et al. 2025)",
        lineage="entropy change of the natural policy gradient, -cov(log pi, A)",
        fixes="entropy collapse, which few tokens carry",
        weight="rho (r - mean) / std, over N",
        stability="KL penalty on the chosen tokens",
        target=REWARD,
        choices=f"The share 2e-4 is the published one; coefficient 1 stands here. {UNSTATED}",
    ),
    Entry(
        objective=Objective(
            name="kimi",
            baseline=GROUP_MEAN,
            ratio=OLD,
            clip=Regression(tau=0.1),
            aggregation=Aggregation(kind="seq-mean-token-sum"),
        ),
        meaning="Regress the log-ratio on the advantage: the old policy pulls back instead of clipping.",
        formula="w = (r - mean - tau log rho) / B",
        paper="arXiv:2501.12599 (Kimi k1.5, 2025), sec. 2.3",
        lineage="mirror descent and path-consistency regression (Nachum et al. 2017)",
        fixes="off-policy data without importance weights",
        weight="r - mean - tau log rho",
        stability="quadratic pull to the old policy",
        target="reward, KL-regularised to the last policy",
        choices="tau = 0.1 stands here as an example. The paper's log-ratio is that of the whole "
        "response; codes (verl's dro, ROLL) take the token's, as here.",
    ),
)
