"""The parts of an objective: one struct per question that an algorithm must answer.

Every part is a field of :class:`~audit.objectives.objective.Objective`, and its name is the suffix of the
cause id that a verdict uses (``objective.scale``, ``objective.aggregation``, …).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from audit.objectives.corrections import Correction
from audit.objectives.part import Estimator, Fraction, NonNegative, Part, Positive

PositiveInt = Annotated[int, msgspec.Meta(gt=0)]


class Overlong(Part, frozen=True, kw_only=True):
    """Soft penalty for long responses (DAPO, arXiv:2503.14476, eq. 13).

    With length L: 0 while L <= max_length - cache, falls linearly to -penalty at max_length, and stays there
    (or goes on falling, where not ``capped``). Lengths are in tokens.
    """

    max_length: PositiveInt
    cache: PositiveInt
    penalty: NonNegative = 1.0
    capped: bool = True
    """verl's DAPO reward manager has no cap."""

    def problems(self) -> list[str]:
        """The ramp must fit below the maximum."""
        return ["shaping.overlong.cache must not exceed max_length"] if self.cache > self.max_length else []


class Shaping(Part, frozen=True, kw_only=True):
    """What is done to the logged reward before the baseline: combine, clip, map, then overlong penalty."""

    weights: dict[str, float] | None = None
    """Recombine the reward from its components; null: the reward column as it stands. A component that did
    not apply (null, NaN) is left out; a response without any is unscorable."""
    per_component: bool = False
    """Baseline and scale are applied to each component, and the weighted sum is taken after (GDPO)."""
    clip: tuple[float, float] | None = None
    factor: Positive = 1.0
    """The clipped reward becomes factor · reward + offset."""
    offset: float = 0.0
    overlong: Overlong | None = None

    def problems(self) -> list[str]:
        """Bounds in order; components need weights."""
        found = []
        if self.clip is not None and self.clip[0] > self.clip[1]:
            found.append("shaping.clip must be [low, high] with low <= high")
        if self.per_component and not self.weights:
            found.append("shaping.per_component needs shaping.weights")
        whole = (self.clip, self.factor, self.offset, self.overlong) != (None, 1.0, 0.0, None)
        if self.per_component and whole:
            found.append("shaping.per_component leaves no whole reward to clip, map or penalise")
        return found


class Filter(Part, frozen=True, kw_only=True):
    """Which rows and tokens enter the loss."""

    dynamic_sampling: bool = False
    """Drop groups whose shaped rewards are all equal; they leave the row and token counts too."""
    zero_advantage: bool = False
    """Drop rows whose advantage is 0; they leave the row and token counts too."""
    mask_truncated: bool = False
    """Responses that ended by length take no loss; they stay in the baseline and in the row count."""
    top_entropy: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    """Share of the loss tokens of a micro-batch, those of highest entropy, that keeps its policy gradient;
    the others stay in the counts and in the KL (arXiv:2506.01939; TRL 1.16 ``top_entropy_quantile``)."""


class Baseline(Part, frozen=True, kw_only=True):
    """What is subtracted from the reward."""

    kind: Literal[
        "none",
        "group_mean",
        "leave_one_out",
        "greedy",
        "batch_mean",
        "length_weighted",
        "runner_up",
        "pass_at_k",
        "gae",
        "logged",
    ] = "none"
    """``length_weighted``: sum L r / sum L over the group (OPO). ``runner_up``: only the best response of a
    group has an advantage, its lead over the second best. ``pass_at_k``: advantages of the pass@k objective,
    for rewards that are positive or not. ``gae``: generalised advantage estimation on logged critic values.
    ``logged``: the advantage is taken from the log as it stands."""
    k: PositiveInt | None = None
    """k of ``pass_at_k``."""
    gamma: Fraction = 1.0
    lam: Fraction = 1.0
    singleton: Literal["zero", "raw"] = "zero"
    """Advantage in a group of one response where the baseline is its group's: 0, or the raw reward (verl,
    SkyRL)."""

    def problems(self) -> list[str]:
        """Parameters belong to their kind."""
        found = []
        if (self.k is not None) != (self.kind == "pass_at_k"):
            found.append("baseline.k belongs to baseline.kind 'pass_at_k', which needs it")
        if self.kind != "gae" and (self.gamma != 1.0 or self.lam != 1.0):
            found.append("baseline.gamma and baseline.lam belong to baseline.kind 'gae'")
        return found


class Whiten(Part, frozen=True, kw_only=True):
    """Standardise the advantages over the batch, last of all.

    ``token``: moments over loss tokens, so that long responses count more; ``sequence``: over responses.
    """

    level: Literal["token", "sequence"] = "token"
    centre: bool = True
    ddof: Literal[0, 1] = 0
    epsilon: NonNegative = 0.0
    epsilon_in: Literal["std", "variance", "floor"] = "std"
    """Added to the std, added to the variance, or the least variance."""


class Scale(Part, frozen=True, kw_only=True):
    """What the centred reward is divided by: divisor + epsilon; nothing where no two rewards differ."""

    kind: Literal[
        "none",
        "group_std",
        "leave_one_out_std",
        "batch_std",
        "group_mean",
        "alive_share",
        "nonzero_share",
        "pass_at_k_std",
    ] = "none"
    """``leave_one_out_std``: of the other responses of the group; not applied where it is 0. ``group_mean``:
    the group's mean reward (MaxRL); advantage 0 where mean + epsilon is not positive. ``alive_share``: share
    of the batch's responses in groups with signal (GPG); ``nonzero_share``: with a reward that is not 0
    (verl's GPG). ``pass_at_k_std``: sqrt(R (1 - R)) of the group's pass@k."""
    ddof: Literal[0, 1] = 0
    epsilon: NonNegative = 0.0
    reward_clip: tuple[float, float] | None = None
    """Bounds applied right after the division, before a KL of stage ``after_scale`` and before whitening: the
    reward clip of OpenRLHF and ROLL."""
    whiten: Whiten | None = None
    clip: tuple[float, float] | None = None
    """Bounds of the finished advantage, applied last."""

    def problems(self) -> list[str]:
        """Bounds in order."""
        bounds = {"reward_clip": self.reward_clip, "clip": self.clip}
        return [
            f"scale.{name} must be [low, high] with low <= high"
            for name, pair in bounds.items()
            if pair is not None and pair[0] > pair[1]
        ]


class Ratio(Part, frozen=True, kw_only=True):
    """The policy ratio: which denominator, over what unit, and corrected for which sampler.

    ``token``: exp(log-ratio of the token). ``sequence``: exp(mean log-ratio of the response), the geometric
    mean (GSPO). ``sequence_token``: the same number, with the gradient of the token alone (GSPO-token).
    ``product``: exp(sum of log-ratios of the response), the whole-response importance weight; the response is
    then one action, and its surrogate enters the loss once, not once per token (RLOO).
    ``theta``: the denominator is the policy itself with its gradient stopped, so the ratio is 1.
    """

    denominator: Literal["old", "sampler", "theta"] = "theta"
    level: Literal["token", "sequence", "sequence_token", "product"] = "token"
    clamp: Positive | None = None
    """Bound of |log-ratio| per token, nats; beyond it the policy gradient is 0."""
    corrections: tuple[Correction, ...] = ()

    def problems(self) -> list[str]:
        """A ratio of 1 has no level."""
        flat = self.denominator == "theta" and self.level != "token"
        return ["ratio.denominator 'theta' makes every ratio 1: ratio.level must be 'token'"] if flat else []


class Aggregation(Part, frozen=True, kw_only=True):
    """How per-token losses become one number; sets the coefficient nu of every token.

    With L the loss tokens of a response, B the responses, N the loss tokens of the scope, P its prompts:

    - ``seq-mean-token-mean``: 1 / (B L)
    - ``token-mean``: 1 / N
    - ``prompt-mean-token-mean``: 1 / (P sum of L over the group)
    - ``seq-mean-token-sum``: 1 / B
    - ``seq-mean-token-sum-norm``: 1 / (B C), C = constant
    - ``token-sum``: 1;  ``token-sum-norm``: 1 / C

    scope ``micro_batch``: counts span one micro-batch, and micro-batches are averaged;
    ``update``: one optimiser step; ``generation_batch``: N counts the batch that was sampled together,
    times the share of it that one update consumes (TRL's ``dapo``).
    """

    kind: Literal[
        "seq-mean-token-mean",
        "token-mean",
        "prompt-mean-token-mean",
        "seq-mean-token-sum",
        "seq-mean-token-sum-norm",
        "token-sum",
        "token-sum-norm",
    ] = "seq-mean-token-mean"
    scope: Literal["micro_batch", "update", "generation_batch"] = "update"
    constant: Positive | Literal["longest"] | None = None
    """C of the ``-norm`` kinds; ``longest``: the longest response of the scope (a padded width); null: the
    run's generation budget."""
    rows: Literal["all", "nonempty"] = "all"
    """Whether responses without loss tokens count in B."""
    epsilon: NonNegative = 0.0
    """Added to every token count that divides."""
    factor: Positive = 1.0
    """A common factor on the whole loss."""

    def problems(self) -> list[str]:
        """The constant belongs to the kinds that use it."""
        stray = self.constant is not None and not self.kind.endswith("-norm")
        return ["aggregation.constant belongs to the '-norm' kinds"] if stray else []


class RewardKL(Part, frozen=True, kw_only=True):
    """KL of the old policy, or of the sampler, to the reference, taken off the reward.

    ``before_baseline``: reward - coefficient · sum over loss tokens of k. ``after_scale``: taken off the
    finished advantage, so it is not divided by a std. ``to_go``: each token pays for itself and the tokens
    after it; ``token``: for itself only; ``centred``: each token earns coefficient · (batch mean of k - k).
    """

    coefficient: NonNegative
    estimator: Estimator = "k1"
    stage: Literal["before_baseline", "after_scale"] = "before_baseline"
    form: Literal["sum", "to_go", "token", "centred"] = "sum"
    policy: Literal["old", "sampler"] = "old"
    """Whose log-probs the KL is of."""

    def problems(self) -> list[str]:
        """A per-token penalty cannot enter a scalar baseline."""
        stray = self.form != "sum" and self.stage == "before_baseline"
        return ["kl.reward.form other than 'sum' needs stage 'after_scale'"] if stray else []


class LossKL(Part, frozen=True, kw_only=True):
    """KL in the loss: + coefficient · k(theta, ref).

    gradient ``pathwise`` differentiates k alone; ``ratio`` multiplies k by the policy ratio and
    differentiates both (k3 then has the reverse-KL gradient); ``unit_ratio`` does so with a ratio whose
    value is 1; ``straight_through`` shows k and has the gradient of k2.
    """

    coefficient: NonNegative
    estimator: Estimator = "k3"
    gradient: Literal["pathwise", "ratio", "unit_ratio", "straight_through"] = "pathwise"
    against: Literal["old", "sampler"] | None = None
    """Null: the KL is to the reference."""
    input_clamp: Positive | None = None
    """Bound of |log pi_theta - log pi_ref|; beyond it the gradient is 0."""
    output_clamp: Positive | None = None
    """Bound of |k|; beyond it the gradient is 0."""
    ratio_cap: Positive | None = None
    """With ``straight_through``: the gradient carries min(rho, ratio_cap)."""
    aggregation: Aggregation | None = None
    """Null: aggregated like the surrogate."""

    def problems(self) -> list[str]:
        """A capped ratio belongs to one gradient."""
        stray = self.ratio_cap is not None and self.gradient != "straight_through"
        return ["kl.loss.ratio_cap belongs to gradient 'straight_through'"] if stray else []


class KL(Part, frozen=True, kw_only=True):
    """Where the KL to the reference enters; both null: not at all."""

    reward: RewardKL | None = None
    loss: LossKL | None = None
