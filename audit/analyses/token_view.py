"""The tokens of one response: what each weighs under an objective, and every factor of that weight."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from audit.errors import AuditError, MissingColumn
from audit.facts.step_rows import StepRows
from audit.facts.tokenpass.lists import TOKEN_COLUMNS
from audit.facts.weigh import coefficients_of, weigh
from audit.logs.run import Run
from audit.objectives.corrections import correction_weight
from audit.objectives.kl import kl_value
from audit.objectives.objective import Objective
from audit.objectives.surrogates import CISPOClip, PPOClip
from audit.objectives.surrogates.clip import band

if TYPE_CHECKING:
    from torch import Tensor

    from audit.objectives.batch import Tokens
    from audit.objectives.coefficients import Coefficients
    from audit.objectives.weights import TokenWeights

Measure = Literal["weight", "ratio", "gap", "kl", "entropy", "sampler_gap"]
Branch = Literal["masked", "no advantage", "removed", "bounded", "kept outside", "inside", "kept"]
"""What the trust region does to a token. ``inside`` and ``kept outside`` its band; ``bounded``: the ratio
counts as the end of the band; ``kept``: a surrogate without a band leaves it a weight."""


@dataclass(frozen=True)
class TokenView:
    """T tokens of one response under one objective; arrays of shape (T,), float64 unless said otherwise.

    weight = nu · advantage · factor + kl, at every token; 0 where masked.
    """

    ids: np.ndarray | None
    """int64; None where not logged."""
    mask: np.ndarray
    """bool; the token takes loss."""
    weight: np.ndarray
    policy: np.ndarray
    """nu · advantage · factor."""
    kl: np.ndarray
    """What the KL in the loss adds."""
    zeroed: np.ndarray
    """bool; the trust region removed the token."""
    nu: float
    """Z: coefficient of the aggregation, the same for every token of the response."""
    advantage: np.ndarray
    factor: np.ndarray
    """c: ratio, trust region and corrections; NaN where the advantage is 0, so that it cannot be told."""
    ratio: np.ndarray
    """NaN where the objective has none."""
    correction: np.ndarray
    """Product of the corrections for the sampler; 1 without any."""
    branch: list[Branch]
    measures: dict[Measure, np.ndarray] = field(default_factory=dict)
    """Values of each measure that the log holds; NaN where a token has none."""


def token_view(step: StepRows, row: int, objective: Objective) -> TokenView:
    """Weigh the tokens of one response, with the statistics and normalisers of its whole step.

    Parameters
    ----------
    row : int
        Place among the rows of the step, 0 to R - 1.
    objective : Objective
        Complete, as :func:`audit.analyses.fitted.fitted` makes it.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what the objective needs.
    """
    from audit.objectives.coefficients import token_advantage
    from audit.objectives.ratios import policy_ratio
    from audit.objectives.weights import token_weights

    given = coefficients_of(step.rows, objective)
    tokens, ids = tokens_of(step, row)
    one = given.tensors().slice(row, row + 1)
    if objective.batch_wide:
        weights = _out_of_its_batch(step, row, objective, given)
    else:
        weights = token_weights(tokens, one, objective)
    takes = bool((given.kept & ~given.masked)[row])
    mask = tokens.mask & takes
    active = replace(tokens, mask=mask)
    nu = float(given.nu[row])
    advantage = token_advantage(active, one, objective)
    ratio = policy_ratio(active, objective.ratio)
    correction = _corrections(active, objective, advantage)
    arrays = [x.numpy() for x in (weights.policy, advantage, ratio, correction)]
    policy, advantages, ratios, kappa = arrays
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(nu * advantages != 0, policy / (nu * advantages), np.nan)
    zeroed = weights.zeroed.numpy()
    return TokenView(
        ids=ids,
        mask=mask.numpy(),
        weight=weights.weight.numpy(),
        policy=policy,
        kl=weights.kl.numpy(),
        zeroed=zeroed,
        nu=nu,
        advantage=advantages,
        factor=factor,
        ratio=ratios if objective.ratio.denominator != "theta" else np.full(len(ratios), np.nan),
        correction=kappa,
        branch=_branches(objective, mask.numpy(), advantages, ratios, zeroed),
        measures=_measures(tokens, weights.weight, ratio, objective),
    )


def tokens_of(step: StepRows, row: int) -> tuple[Tokens, np.ndarray | None]:
    """Tokens of one response, and their ids.

    Raises
    ------
    MissingColumn
        The log has neither token lists nor lengths in tokens.
    """
    from audit.facts.tokens import to_tokens

    run = step.rows.run
    present = [name for name in TOKEN_COLUMNS if name in run.columns]
    in_tokens = "length" in run.columns and run.manifest.length_unit == "tokens"
    if not present and not in_tokens:
        raise MissingColumn.needed_for(
            "token_ids", "token weights", run.columns, hint="Or length, in tokens."
        )
    alone = Run.from_table(run.path, run.run_id, run.manifest, step.table.slice(row, 1), format=run.format)
    batch = next(alone.batches([*present, "length"] if in_tokens else present, max_tokens=1))
    ids = batch["token_ids"][0] if "token_ids" in present else None
    held = None if ids is None or not ids.is_valid else np.array(ids.as_py(), dtype=np.float64)
    return to_tokens(batch, present), None if held is None else np.nan_to_num(held, nan=-1).astype(np.int64)


def root_mean_square(step: StepRows, square: np.ndarray) -> float:
    """Size of a typical weight of the step, from the sums of squares of each response, shape (R,)."""
    tokens = float(step.loss_tokens.sum())
    total = float(np.nansum(np.where(step.here, square, 0.0)))
    return float(np.sqrt(total / tokens)) if tokens and total > 0 else 1.0


def _out_of_its_batch(step: StepRows, row: int, objective: Objective, given: Coefficients) -> TokenWeights:
    """Weights of one response where they depend on the other tokens of its batch."""
    for batch in weigh(step.rows, objective, coefficients=given):
        place = row - batch.first
        if 0 <= place < batch.tokens.layout.num_rows:
            offsets = batch.tokens.layout.offsets
            here = slice(int(offsets[place]), int(offsets[place + 1]))
            w = batch.weights
            return replace(
                w, weight=w.weight[here], policy=w.policy[here], kl=w.kl[here], zeroed=w.zeroed[here]
            )
    msg = f"the step has no row {row}."
    raise AuditError(msg)


def _corrections(tokens: Tokens, objective: Objective, advantage: Tensor) -> Tensor:
    import torch

    made = torch.ones_like(advantage)
    for correction in objective.ratio.corrections:
        made = made * correction_weight(tokens, correction, advantage)
    return made


def _branches(
    objective: Objective,
    mask: np.ndarray,
    advantage: np.ndarray,
    ratio: np.ndarray,
    zeroed: np.ndarray,
) -> list[Branch]:
    clip = objective.clip
    bounds = band(clip.epsilon_low, clip.epsilon_high) if isinstance(clip, (PPOClip, CISPOClip)) else None
    made: list[Branch] = []
    for takes, a, rho, gone in zip(mask, advantage, ratio, zeroed, strict=True):
        if not takes:
            made.append("masked")
        elif a == 0:
            made.append("no advantage")
        elif gone:
            made.append("removed")
        elif bounds is None:
            made.append("kept")
        elif bounds[0] <= rho <= bounds[1]:
            made.append("inside")
        else:
            made.append("bounded" if isinstance(clip, CISPOClip) else "kept outside")
    return made


def _measures(
    tokens: Tokens, weight: Tensor, ratio: Tensor, objective: Objective
) -> dict[Measure, np.ndarray]:
    """Values of each measure that the log holds; NaN at masked tokens."""
    theta, old, ref, sampler = tokens.logp_theta, tokens.logp_old, tokens.logp_ref, tokens.logp_sampler
    now, before = theta if theta is not None else old, old if old is not None else theta
    estimator = objective.kl.loss.estimator if objective.kl.loss is not None else "k1"
    found: dict[Measure, Tensor] = {"weight": weight}
    if objective.ratio.denominator != "theta":
        found["ratio"] = ratio.log()
    if theta is not None and old is not None:
        found["gap"] = theta - old
    if now is not None and ref is not None:
        found["kl"] = kl_value(now - ref, estimator)
    if tokens.entropy is not None:
        found["entropy"] = tokens.entropy
    if before is not None and sampler is not None:
        found["sampler_gap"] = before - sampler
    mask = tokens.mask.numpy()
    return {name: np.where(mask, values.numpy(), np.nan) for name, values in found.items()}
