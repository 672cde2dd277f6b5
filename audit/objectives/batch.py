"""What an objective is applied to: responses (one value each) and their tokens (ragged)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from audit.errors import MissingColumn
from audit.objectives.arrays import Array, as_tensors, library

if TYPE_CHECKING:
    from torch import Tensor

    from audit.ragged import Layout


@dataclass(frozen=True)
class Responses:
    """Per-response arrays, all of NumPy or all of torch, shape (R,); indices are dense int64 codes.

    ``group`` codes (group_id, epoch), so each sample of a group counts once; ``update`` one optimiser step;
    ``micro_batch`` one accumulation slice of one update (None: not logged); ``generation_batch`` what was
    sampled together, per epoch (equal to ``update`` where it is not logged).
    """

    reward: Array
    """float64; NaN is an unscorable response: it leaves the statistics and gets advantage 0."""
    length: Array
    """Tokens of the response, int64, masked ones included."""
    loss_tokens: Array
    """Tokens that take loss, int64."""
    group: Array
    update: Array
    generation_batch: Array
    micro_batch: Array | None = None
    greedy: Array | None = None
    """bool; the greedy decode of the group, not trained on."""
    truncated: Array | None = None
    """bool; ended by length."""
    sample_weight: Array | None = None
    """float64; 1 / rows of the trajectory, so that a multi-turn trajectory counts as one sample."""
    advantage: Array | None = None
    """float64, as logged."""
    reference_kl: Array | None = None
    """Sum over loss tokens of k(old, ref), float64, in the estimator that the objective asks for."""
    components: Mapping[str, Array] | None = None
    """Reward components by name, float64; NaN where a component did not apply."""
    token_moments: Array | None = None
    """Of the per-token advantages before whitening, float64, shape (R, 5): their count, their sum, the sum of
    their squared deviations from the response's mean, the least and the greatest."""

    @property
    def num_rows(self) -> int:
        """Number of responses R."""
        return int(self.reward.shape[0])

    def component(self, name: str) -> Array:
        """Reward component ``name``, shape (R,).

        Raises
        ------
        MissingColumn
            It was not logged.
        """
        known = self.components or {}
        if name not in known:
            hint = f"Logged components: {', '.join(sorted(known)) or 'none'}."
            raise MissingColumn.needed_for(f"reward_components[{name}]", "combining the reward", hint=hint)
        return known[name]

    def tensors(self) -> Responses:
        """The same as torch tensors."""
        return as_tensors(self)

    @cached_property
    def trained(self) -> Array:
        """bool, shape (R,): every response but the greedy ones."""
        if self.greedy is None:
            return library(self.group).ones_like(self.group) > 0
        return ~self.greedy


@dataclass(frozen=True)
class Tokens:
    """Per-token tensors, shape (N,), float64 unless said otherwise; None: not logged.

    Values at masked tokens never reach a result, whatever they are (NaN, inf, 0).
    """

    layout: Layout
    mask: Tensor
    """bool; True where the token takes loss."""
    logp_theta: Tensor | None = None
    logp_old: Tensor | None = None
    logp_ref: Tensor | None = None
    logp_sampler: Tensor | None = None
    token_advantage: Tensor | None = None
    value: Tensor | None = None
    """Critic values."""
    logged: Tensor | None = None
    """bool, shape (R,); False where neither token lists nor a length of the response were logged."""
    entropy: Tensor | None = None
    """Entropy of the policy at the token, nats."""

    def unmasked(self, values: Tensor) -> Tensor:
        """Return ``values`` with 0 at masked tokens, so that 0 · inf cannot arise."""
        return values.where(self.mask, values.new_zeros(()))


def mean_over_loss_tokens(tokens: Tokens, values: Tensor) -> Tensor:
    """Mean of ``values``, shape (N,), over the loss tokens of each response: shape (R,); 0 where none."""
    count = tokens.layout.sum(tokens.mask.to(values.dtype)).clamp(min=1.0)
    return tokens.layout.sum(tokens.unmasked(values)) / count
