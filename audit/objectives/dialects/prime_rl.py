"""prime-rl: ``trainer.loss`` and ``orchestrator.algo`` to an objective.

Read: src/prime_rl/trainer/rl/loss.py, orchestrator/algo/{grpo,max_rl,rae}.py, orchestrator/train_sink.py and
packages/prime-rl-configs at 559b44772 (2026-08-21, 0.8.0) [read only: no released package]. Where it departs
from the papers:

- the ratio is against the sampler: there is no recomputed old policy.
- the trust region is DPPO's on the probability of the token; nothing bounds the ratio.
- advantages are not divided by a std.
- the KL of the loss is kl_tau · (log pi_theta - log pi_sampler)², 2 kl_tau times k2, on every loss token.
- tokens of advantage 0 leave the loss and its count.
- ``adv_tau`` multiplies the policy term alone: a factor on the loss, taken out of the KL again.
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
    Filter,
    LossKL,
    Objective,
    Ratio,
    Scale,
)
from audit.objectives.surrogates import DPPO, AnySurrogate, ProbabilityMask

_REFUSED = {
    "rae": "the baseline is a running mean per agent",
    "hierarchical_grpo": "groups are formed within proposals and across them",
    "echo": "a likelihood term on the environment's tokens",
    "opd": "the teacher's KL is the signal",
    "opsd": "the teacher's KL is the signal",
    "sft": "a likelihood, not a policy gradient",
}


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read recorded trainer and orchestrator configs, together or flat, as prime-rl would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express.
    """
    del trainer
    o = Options.pinned("prime-rl", "prime_rl", config, version)
    if o["algo.type"] in _REFUSED:
        raise o.refuse("algo.type", _REFUSED[o["algo.type"]])
    own = [env["algo"] for env in o["train.source"] or () if env.get("algo")]
    if any(algo.get("type", "grpo") != o["algo.type"] or algo.get("length_penalty") for algo in own):
        raise o.refuse("train.source", "an environment trains with an algorithm of its own")
    o.need_off(algo__length_penalty="a penalty relative to the longest response of the group")
    if o["loss.type"] == "custom":
        raise o.refuse("loss.type", "a loss of the run's own")
    clips: dict[str, AnySurrogate] = {
        "default": DPPO(delta_low=o["loss.dppo_mask_low"], delta_high=o["loss.dppo_mask_high"]),
        "ipo": ProbabilityMask(delta=o["loss.ipo_threshold"]),
    }
    clip = o.one_of("loss.type", clips)
    tau = o["loss.adv_tau"]
    if not tau:
        raise o.refuse("loss.adv_tau", "no policy term is left")
    kl = 2.0 * o["loss.kl_tau"] / tau
    objective = Objective(
        name=f"prime-rl-{o['algo.type']}" + ("-ipo" if o["loss.type"] == "ipo" else ""),
        filter=Filter(zero_advantage=o["train.filter_zero_advantages"]),
        baseline=Baseline(kind="group_mean"),
        scale=o.one_of("algo.type", {"grpo": Scale(), "max_rl": Scale(kind="group_mean")}),
        ratio=Ratio(denominator="sampler"),
        clip=clip,
        aggregation=Aggregation(kind="token-mean", factor=tau),
        kl=KL(loss=LossKL(coefficient=kl, estimator="k2", against="sampler") if kl else None),
    )
    return o.declared(objective)
