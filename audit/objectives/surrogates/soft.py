"""Surrogates that damp instead of cutting: SAPO, VESPO, quadratic regression."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from audit.objectives.part import NonNegative, Positive
from audit.objectives.surrogates.base import Step, Surrogate, nothing

if TYPE_CHECKING:
    from torch import Tensor


class SAPO(Surrogate, frozen=True, kw_only=True, tag="sapo"):
    """A sigmoid gate around ratio 1: (4 / tau) sigmoid(tau (rho - 1)) A.

    arXiv:2511.20347; TRL 1.16 grpo_trainer.py, verl 0.9.1 core_algos.py.
    """

    tau_positive: Positive = 1.0
    tau_negative: Positive = 1.05

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """c = 4 s (1 - s) rho with s = sigmoid(tau (rho - 1)); 1 at rho = 1, never 0."""
        tau = step.ratio.new_full(step.ratio.shape, self.tau_negative)
        tau = tau.masked_fill(step.advantage > 0, self.tau_positive)
        gate = (tau * (step.ratio - 1.0)).sigmoid()
        return step.advantage * 4.0 * gate * (1.0 - gate) * step.ratio, nothing(gate)


class VESPO(Surrogate, frozen=True, kw_only=True, tag="vespo"):
    """A gamma-shaped weight of the whole response's ratio W: W^k exp(lambda (1 - W)), gradient stopped.

    Log-ratios are clamped to ±20 per token and log W to [log 1e-8, 20], as in TRL 1.16 ``get_gamma_weights``.
    Sampler corrections of ``ratio.corrections`` multiply into W. arXiv:2602.10693.
    """

    stops_ratio: ClassVar[bool] = True
    absorbs_corrections: ClassVar[bool] = True

    k_positive: NonNegative = 2.0
    lambda_positive: NonNegative = 3.0
    k_negative: NonNegative = 3.0
    lambda_negative: NonNegative = 2.0

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """c = phi(W), 1 at W = 1."""
        layout = step.tokens.layout
        log_weight = step.log_ratio.clamp(-20.0, 20.0) + step.log_correction
        log_weight = layout.sum(step.tokens.unmasked(log_weight))
        log_weight = layout.spread(log_weight.clamp(math.log(1e-8), 20.0))
        positive = step.advantage >= 0
        k = log_weight.new_full(positive.shape, self.k_negative).masked_fill(positive, self.k_positive)
        decay = log_weight.new_full(positive.shape, self.lambda_negative)
        decay = decay.masked_fill(positive, self.lambda_positive).clamp(min=1e-4)
        phi = (decay + k * log_weight - decay * log_weight.exp()).exp()
        return step.advantage * phi.nan_to_num(0.0, 0.0, 0.0), nothing(phi)


class Regression(Surrogate, frozen=True, kw_only=True, tag="regression"):
    """-(A - tau log rho)² / (2 tau): regress the log-ratio on the advantage instead of clipping it.

    Kimi k1.5, arXiv:2501.12599 sec. 2.3; verl 0.9.1 ``dro``; the scale is that of slope A at ratio 1.
    """

    proportional: ClassVar[bool] = False

    tau: NonNegative

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """A - tau log rho: pulls back to the old policy, not of the form A c."""
        return step.advantage - self.tau * step.log_ratio, nothing(step.log_ratio)
