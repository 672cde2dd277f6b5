"""GRPO with a correction for an inference engine that is not the trainer's policy."""

from __future__ import annotations

from audit.objectives.catalogue.entry import Entry
from audit.objectives.catalogue.groups import AS_GRPO, GRPO, UNSTATED
from audit.objectives.objective import Correction, Objective, Ratio

_FIXES = "log-probs of the inference engine differ from the trainer's: off-policy from the start"
_NOTE = f"Shown on GRPO; any objective takes it. {UNSTATED}"


def _with(name: str, correction: Correction) -> Objective:
    return GRPO.replace(name=name, ratio=Ratio(denominator="old", corrections=(correction,)))


ENTRIES = (
    Entry(
        objective=_with("grpo_tis", Correction(action="truncate", high=2.0)),
        meaning="GRPO whose tokens are weighted by trainer over sampler, truncated from above.",
        formula="w = GRPO's policy term · min(pi_old / pi_sampler, C)",
        paper="Yao et al. 2025 (Your Efficient RL Framework Secretly Brings You Off-Policy RL Training)",
        lineage="truncated importance sampling (Ionides 2008)",
        fixes=_FIXES,
        weight="GRPO's · min(pi_old / pi_sampler, 2)",
        stability="PPO clip; truncated sampler weight; k3 in the loss",
        target=AS_GRPO,
        choices=f"C = 2 is the usual cap. {_NOTE}",
    ),
    Entry(
        objective=_with("grpo_mis", Correction(action="mask", level="product", high=3.0)),
        meaning="GRPO whose responses are weighted by trainer over sampler, or dropped beyond a bound.",
        formula="w = GRPO's policy term · W [W <= C],  W = prod_t pi_old / pi_sampler",
        paper="TRL 1.16, vllm_importance_sampling_mode sequence_mask",
        lineage="importance sampling with rejection of the tail",
        fixes=f"{_FIXES}; the truncated tail is biased, so it is dropped",
        weight="GRPO's · W, 0 where W > 3",
        stability="PPO clip; masked sampler weight; k3 in the loss",
        target=AS_GRPO,
        choices="Whole-response weight and C = 3 are TRL's defaults; long responses are dropped more "
        f"often. {_NOTE}",
    ),
    Entry(
        objective=_with("grpo_icepop", Correction(action="mask", low=0.5, high=5.0)),
        meaning="GRPO whose tokens count only where trainer and sampler nearly agree.",
        formula="w = GRPO's policy term · u [a <= u <= b],  u = pi_old / pi_sampler",
        paper="arXiv:2510.18855 (IcePop, Ling team 2025)",
        lineage="importance sampling with rejection on both sides",
        fixes=f"{_FIXES}; worst in mixtures of experts",
        weight="GRPO's · u, 0 outside [0.5, 5]",
        stability="PPO clip; two-sided mask; k3 in the loss",
        target=AS_GRPO,
        choices=f"The window [0.5, 5] is the usual one. {_NOTE}",
    ),
)
