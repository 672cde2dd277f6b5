"""The surrogates: one file per idea. A new one is a file, its test, and its line in :data:`AnySurrogate`."""

from audit.objectives.surrogates.base import Step, Surrogate
from audit.objectives.surrogates.clip import CISPOClip, NoClip, PPOClip
from audit.objectives.surrogates.covariance import ClipCov, KLCov
from audit.objectives.surrogates.divergence import DPPO, ProbabilityMask
from audit.objectives.surrogates.geometric import GMPO
from audit.objectives.surrogates.soft import SAPO, VESPO, Regression

AnySurrogate = (
    NoClip | PPOClip | CISPOClip | SAPO | VESPO | Regression | GMPO | DPPO | ProbabilityMask | ClipCov | KLCov
)

__all__ = [
    "DPPO",
    "GMPO",
    "SAPO",
    "VESPO",
    "AnySurrogate",
    "CISPOClip",
    "ClipCov",
    "KLCov",
    "NoClip",
    "PPOClip",
    "ProbabilityMask",
    "Regression",
    "Step",
    "Surrogate",
]
