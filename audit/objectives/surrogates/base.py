"""What every surrogate is: a struct of its settings, and the slope it gives to each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from audit.objectives.part import Part

if TYPE_CHECKING:
    from torch import Tensor

    from audit.objectives.batch import Tokens


@dataclass(frozen=True)
class Step:
    """What a surrogate sees: N tokens of R responses, float64, 0 or False where masked."""

    tokens: Tokens
    log_ratio: Tensor
    """log pi_theta - log pi_denominator of the token, nats, shape (N,)."""
    ratio: Tensor
    """The ratio at the level that the objective asks for, shape (N,)."""
    denominator: Tensor | None
    """log pi_denominator of the token, shape (N,); None where it is the policy itself."""
    advantage: Tensor
    """Shape (N,)."""
    log_correction: Tensor
    """log of the sampler corrections, 0 where there are none, shape (N,)."""
    batch: Tensor
    """Micro-batch (else update) of each response, int64, shape (R,): what batch-wide surrogates rank over."""


class Surrogate(Part, frozen=True, kw_only=True, tag_field="kind", tag="?"):
    """Base of the surrogates; the tag is the ``kind`` by which JSON names one."""

    stops_ratio: ClassVar[bool] = False
    """The ratio is a weight without gradient: what it is made of does not spread over the response."""
    absorbs_corrections: ClassVar[bool] = False
    """Sampler corrections enter the surrogate itself instead of multiplying it."""
    spreads: ClassVar[bool] = False
    """The surrogate is one number per response: tokens that keep their gradient have the response's mean."""
    batch_wide: ClassVar[bool] = False
    """A token's slope depends on the other tokens of its batch."""
    proportional: ClassVar[bool] = True
    """The slope is |A| times something that A enters by its sign alone."""

    @property
    def kind(self) -> str:
        """Name of the surrogate."""
        return str(self.__struct_config__.tag)

    @property
    def sign_blind(self) -> bool:
        """Whether c is the same for both signs of the advantage."""
        return False

    def for_sign(self, sign: int) -> Self:
        """The surrogate for advantages of one sign, without the settings that only the other sign meets."""
        del sign
        return self

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """Derivative of the surrogate with respect to log pi_theta, and which tokens lost it.

        Returns
        -------
        slope : Tensor, shape (N,), float64
            A · c for surrogates of that form; with a whole-response ratio, what is spread over its tokens.
        zeroed : Tensor, shape (N,), bool
            The trust region removed the token's gradient.
        """
        raise NotImplementedError


def nothing(like: Tensor) -> Tensor:
    """No token, as a mask of the shape of ``like``."""
    return like.new_zeros(like.shape).bool()
