"""Factors on the tokens of a chunk: the common ones in a few array operations, the others as weights.

Both routes give the same numbers (tests/facts/tokenpass/test_factor_values.py holds them together); the short
one needs neither torch nor a mask per sign.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from audit.facts.tokenpass.arrays import Array
from audit.facts.tokenpass.chunk import Chunk, Policy
from audit.facts.tokenpass.factors import Factor, KLFactor, PolicyFactor, alone
from audit.objectives.surrogates.clip import CISPOClip, NoClip, PPOClip, band

if TYPE_CHECKING:
    from audit.objectives.batch import Tokens
    from audit.objectives.coefficients import Coefficients


class Value(NamedTuple):
    """A factor on a chunk: one value per token, or one per response where all its loss tokens share it."""

    values: Array
    """Shape (N,), 0 at masked tokens; or shape (R,)."""
    per_row: bool
    zeroed: Array | None
    """bool, of the same shape: the trust region removed the token. None: none was."""
    name: str = ""
    """Under which the chunk keeps the sum of the values, where other facts ask for it too."""


def value_of(chunk: Chunk, factor: Factor) -> Value:
    """Evaluate a factor on a chunk that has the columns of :func:`columns_of`."""
    short = _policy(chunk, factor) if isinstance(factor, PolicyFactor) else _kl(chunk, factor)
    return _by_objective(chunk, factor) if short is None else short


def columns_of(factor: Factor) -> tuple[str, ...]:
    """Token columns that a factor needs, beyond the mask."""
    wanted: list[str] = []
    ratio = factor.ratio
    if isinstance(factor, KLFactor):
        wanted += ["logp_theta", f"logp_{factor.kl.against or 'ref'}"]
    if ratio.denominator != "theta":
        wanted += ["logp_theta", f"logp_{ratio.denominator}"]
    for correction in ratio.corrections:
        wanted += [f"logp_{correction.numerator}", f"logp_{correction.against}"]
    return tuple(dict.fromkeys(wanted))


def _policy(chunk: Chunk, factor: PolicyFactor) -> Value | None:
    ratio, clip = factor.ratio, factor.clip
    if ratio.corrections or ratio.clamp is not None or not isinstance(clip, (NoClip, PPOClip, CISPOClip)):
        return None
    if isinstance(clip, CISPOClip) and clip.masked:
        return None
    if ratio.denominator == "theta":
        rho, per_row = chunk.segments.lengths * 0.0 + 1.0, True
    elif ratio.level == "token":
        rho, per_row = chunk.ratio("theta", ratio.denominator), False
    else:
        below: Policy = ratio.denominator
        total = chunk.sum_of(("log_ratio", below), lambda: chunk.gap("theta", below))
        if ratio.level != "product":
            total = total / chunk.loss_tokens.clip(1.0, None)
        rho, per_row = chunk.segments.exp(total), True
    bare = Value(
        _masked(chunk, rho, per_row), per_row, None, "" if per_row else f"ratio_theta_{ratio.denominator}"
    )
    if isinstance(clip, NoClip):
        return bare
    if isinstance(clip, CISPOClip):
        low, high = band(clip.epsilon_low, clip.epsilon_high)
        if low == -math.inf and chunk.segments.all_within(rho, high):
            return bare
        return Value(_masked(chunk, rho.clip(low, high), per_row), per_row, None)
    zeroed = beyond(rho, clip, factor.sign)
    # inf · 0 is NaN: the clip removes an infinite ratio, it does not make it one.
    finite = chunk.once(("finite", str(ratio)), lambda: chunk.segments.finite(rho))
    kept = rho * ~zeroed if finite else chunk.segments.where(~zeroed, rho)
    return Value(_masked(chunk, kept, per_row), per_row, zeroed)


def beyond(rho: Array, clip: PPOClip, sign: int) -> Array:
    """Tokens that PPO's clip removes; see :class:`audit.objectives.surrogates.clip.PPOClip`."""
    low, high = band(clip.epsilon_low, clip.epsilon_high)
    delta = math.inf if clip.delta is None else clip.delta
    if sign > 0:
        return rho > min(high, delta)
    bound = min(max(high, delta), math.inf if clip.dual is None else clip.dual)
    return rho < low if bound == math.inf else (rho < low) | (rho > bound)


def _kl(chunk: Chunk, factor: KLFactor) -> Value | None:
    kl = factor.kl
    bare = factor.ratio.corrections == () and kl.input_clamp is None and kl.output_clamp is None
    if not bare or kl.ratio_cap is not None:
        return None
    other: Policy = kl.against or "ref"
    d = chunk.gap("theta", other)
    if kl.gradient == "straight_through":
        return Value(-d, False, None)
    if kl.gradient != "pathwise":
        return None
    made = {
        "k1": lambda: Value(chunk.segments.lengths * 0.0 - 1.0, True, None),
        "k2": lambda: Value(-d, False, None),
        "k3": lambda: Value(chunk.ratio(other, "theta") - 1.0, False, None),
    }
    return made[kl.estimator]() if kl.estimator in made else None


def _masked(chunk: Chunk, values: Array, per_row: bool) -> Array:
    return values if per_row else chunk.loss_only(values)


def _by_objective(chunk: Chunk, factor: Factor) -> Value:
    """The factor as the weights of an objective of its own, with nu = 1 and A = ±1."""
    import torch

    from audit.objectives.weights import token_weights

    if torch.get_num_threads() > 1:
        # A pass has a worker for each core. Threads of torch beside them would wait for each other at the
        # end of every operation on a chunk: thirty times as long on a machine that is busy otherwise.
        torch.set_num_threads(1)
    tokens = as_tokens(chunk)
    sign = -1.0 if factor.sign < 0 else 1.0
    made = token_weights(tokens, _unit(tokens, sign), alone(factor))
    values = made.policy * sign if isinstance(factor, PolicyFactor) else made.kl
    zeroed = made.zeroed if isinstance(factor, PolicyFactor) else None
    if isinstance(chunk.loss_tokens, type(tokens.mask)):
        return Value(values, False, zeroed)
    return Value(values.numpy(), False, None if zeroed is None else zeroed.numpy())


def as_tokens(chunk: Chunk) -> Tokens:
    """The chunk as the token tensors that objectives take."""
    import torch

    from audit.objectives.batch import Tokens
    from audit.ragged import Layout

    def tensor(values: Array) -> torch.Tensor:
        return values if isinstance(values, torch.Tensor) else torch.from_numpy(values)

    lengths = tensor(chunk.segments.lengths)
    count = int(chunk.offsets[-1])
    held = [name for name in ("logp_theta", "logp_old", "logp_ref", "logp_sampler") if chunk.has(name)]
    mask = torch.ones(count, dtype=torch.bool, device=lengths.device) if chunk.mask is None else chunk.mask
    return Tokens(
        layout=Layout.from_lengths(lengths.to(torch.int64)),
        mask=tensor(mask),
        **{name: tensor(chunk.column(name)) for name in held},
    )


def _unit(tokens: Tokens, advantage: float) -> Coefficients:
    import torch

    from audit.objectives.coefficients import Coefficients

    rows, device = tokens.layout.num_rows, tokens.mask.device
    one = torch.ones(rows, dtype=torch.float64, device=device)
    yes = torch.ones(rows, dtype=torch.bool, device=device)
    given = one * advantage
    return Coefficients(
        advantage=given,
        nu=one,
        nu_kl=one,
        kept=yes,
        masked=~yes,
        scored=yes,
        raw=given,
        shift=torch.zeros_like(one),
        factor=one,
        reward=torch.full_like(one, torch.nan),
        mean_kl=torch.zeros_like(one),
        batch=torch.zeros(rows, dtype=torch.int64, device=device),
    )
