"""An algorithm as a value: a frozen record of orthogonal choices.

Two objectives are compared field by field, and the effect of a field is found by swapping it
(:mod:`audit.analyses.effect`). Every part below is one such field; its name is also the suffix of
the cause id that a verdict uses (``objective.scale``, ``objective.aggregation``, …).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from audit.errors import BadObjective, closest

NonNegative = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every part: frozen, keyword-only, unknown fields refused."""


class Overlong(Part, frozen=True, kw_only=True):
    """Soft penalty for long responses (DAPO, arXiv:2503.14476, eq. 13).

    With length L: 0 while L <= max_length - cache, falls linearly to -penalty at max_length, stays there.
    Lengths are in tokens.
    """

    max_length: Annotated[int, msgspec.Meta(gt=0)]
    cache: Annotated[int, msgspec.Meta(gt=0)]
    penalty: NonNegative = 1.0


class Shaping(Part, frozen=True, kw_only=True):
    """What is done to the logged reward before the baseline: clip, then overlong penalty."""

    clip: tuple[float, float] | None = None
    overlong: Overlong | None = None


class Filter(Part, frozen=True, kw_only=True):
    """Which rows and tokens enter the loss."""

    dynamic_sampling: bool = False
    """Drop groups whose shaped rewards are all equal; they leave the row and token counts too."""
    mask_truncated: bool = False
    """Responses that ended by length take no loss; they stay in the baseline and in the row count."""


class Baseline(Part, frozen=True, kw_only=True):
    """What is subtracted from the reward."""

    kind: Literal["none", "group_mean", "leave_one_out", "greedy", "batch_mean", "logged"] = "none"
    """``logged``: the advantage is taken from the log as it stands (PPO with a critic)."""


class Scale(Part, frozen=True, kw_only=True):
    """What the centred reward is divided by: std + epsilon; nothing also where no two rewards differ."""

    kind: Literal["none", "group_std", "batch_std"] = "none"
    ddof: Literal[0, 1] = 0
    epsilon: NonNegative = 0.0


class Ratio(Part, frozen=True, kw_only=True):
    """The policy ratio: which denominator, and over what unit it is formed.

    ``token``: exp(log-ratio of the token). ``sequence``: exp(mean log-ratio of the response), the geometric
    mean (GSPO). ``product``: exp(sum of log-ratios of the response), the whole-response importance weight;
    the response is then one action, and its surrogate enters the loss once, not once per token (RLOO).
    ``theta``: the denominator is the policy itself with its gradient stopped, so the ratio is 1.
    """

    denominator: Literal["old", "sampler", "theta"] = "theta"
    level: Literal["token", "sequence", "product"] = "token"


class Clip(Part, frozen=True, kw_only=True):
    """The trust region on the ratio.

    ``ppo``: min(rho A, clip(rho, 1 - epsilon_low, 1 + epsilon_high) A); ``delta`` caps rho from above first
    (two-sided clip), ``dual`` bounds the objective from below at dual * A when A < 0.
    ``cispo``: the clipped ratio is a weight whose gradient is stopped; no token is ever removed.
    An epsilon of null means: no bound on that side.
    """

    kind: Literal["none", "ppo", "cispo"] = "none"
    epsilon_low: float | None = None
    epsilon_high: float | None = None
    delta: Positive | None = None
    dual: Positive | None = None


class Aggregation(Part, frozen=True, kw_only=True):
    """How per-token losses become one number; sets the coefficient nu of every token.

    With L the loss tokens of a response, B the responses and N the loss tokens of the scope:

    - ``seq-mean-token-mean``: 1 / (B L)
    - ``token-mean``: 1 / N
    - ``seq-mean-token-sum``: 1 / B
    - ``seq-mean-token-sum-norm``: 1 / (B C), C = constant
    - ``token-sum``: 1;  ``token-sum-norm``: 1 / C

    scope ``micro_batch``: B and N count one micro-batch, and micro-batches are averaged;
    ``update``: one optimiser step; ``generation_batch``: N counts the batch that was sampled together,
    times the share of it that one update consumes (TRL's ``dapo``).
    """

    kind: Literal[
        "seq-mean-token-mean",
        "token-mean",
        "seq-mean-token-sum",
        "seq-mean-token-sum-norm",
        "token-sum",
        "token-sum-norm",
    ] = "seq-mean-token-mean"
    scope: Literal["micro_batch", "update", "generation_batch"] = "update"
    constant: Positive | None = None
    """C of the ``-norm`` kinds; null: the run's generation budget."""


class RewardKL(Part, frozen=True, kw_only=True):
    """KL in the reward: reward - coefficient * sum over loss tokens of k(old, ref), before the baseline."""

    coefficient: NonNegative
    estimator: Literal["k1", "k2", "k3"] = "k1"


class LossKL(Part, frozen=True, kw_only=True):
    """KL in the loss: + coefficient * k(theta, ref), aggregated like the surrogate.

    ``gradient``: ``pathwise`` differentiates k alone; ``ratio`` multiplies k by the policy ratio and
    differentiates both (k3 then has the reverse-KL gradient).
    """

    coefficient: NonNegative
    estimator: Literal["k1", "k2", "k3"] = "k3"
    gradient: Literal["pathwise", "ratio"] = "pathwise"


class KL(Part, frozen=True, kw_only=True):
    """Where the KL to the reference enters; both null: not at all."""

    reward: RewardKL | None = None
    loss: LossKL | None = None


PARTS = ("shaping", "filter", "baseline", "scale", "ratio", "clip", "aggregation", "kl")
"""The fields of an :class:`Objective` that can be swapped, in the order in which a token meets them."""


class Objective(Part, frozen=True, kw_only=True):
    """What one training algorithm does to every token, as orthogonal choices."""

    name: str = "custom"
    shaping: Shaping = Shaping()
    filter: Filter = Filter()
    baseline: Baseline = Baseline()
    scale: Scale = Scale()
    ratio: Ratio = Ratio()
    clip: Clip = Clip()
    aggregation: Aggregation = Aggregation()
    kl: KL = KL()

    def replace(self, **parts: Any) -> Objective:
        """Return a copy with some parts exchanged."""
        return msgspec.structs.replace(self, **parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain nested dicts: what ``rlaudit objectives NAME --json`` prints and FILE.json holds."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


def from_dict(fields: dict[str, Any], *, where: str = "objective") -> Objective:
    """Build an objective from plain dicts.

    Raises
    ------
    BadObjective
        A field is unknown (with the closest valid one) or a value has the wrong type or range.
    """
    try:
        objective = msgspec.convert(fields, Objective)
    except msgspec.ValidationError as error:
        raise BadObjective(f"{where}: {error}{_hint(str(error))}") from None
    _check(objective, where)
    return objective


def differing_parts(a: Objective, b: Objective) -> tuple[str, ...]:
    """Return the names of the parts in which two objectives differ, in the order of :data:`PARTS`."""
    return tuple(part for part in PARTS if getattr(a, part) != getattr(b, part))


def differing_fields(a: Objective, b: Objective) -> list[tuple[str, Any, Any]]:
    """Return (dotted field, value in a, value in b) for every leaf in which two objectives differ.

    Where a part is switched off on one side (its kind is ``none``), only its kind is named: the other fields
    do nothing there.
    """
    rows: list[tuple[str, Any, Any]] = []
    for part in differing_parts(a, b):
        _leaves(part, msgspec.to_builtins(getattr(a, part)), msgspec.to_builtins(getattr(b, part)), rows)
    return rows


def _leaves(path: str, a: Any, b: Any, rows: list[tuple[str, Any, Any]]) -> None:
    if isinstance(a, dict) and isinstance(b, dict):
        switched = a.get("kind") != b.get("kind") and "none" in (a.get("kind"), b.get("kind"))
        for key in ["kind"] if switched else a:
            _leaves(f"{path}.{key}", a[key], b[key], rows)
    elif a != b:
        rows.append((path, a, b))


def _check(objective: Objective, where: str) -> None:
    shaping, baseline, scale, ratio, clip = (
        objective.shaping,
        objective.baseline,
        objective.scale,
        objective.ratio,
        objective.clip,
    )
    problems = []
    if shaping.clip is not None and shaping.clip[0] > shaping.clip[1]:
        problems.append("shaping.clip must be [low, high] with low <= high")
    if shaping.overlong is not None and shaping.overlong.cache > shaping.overlong.max_length:
        problems.append("shaping.overlong.cache must not exceed max_length")
    if baseline.kind == "logged" and scale.kind != "none":
        problems.append("baseline.kind 'logged' takes the advantage as it stands: scale.kind must be 'none'")
    if ratio.denominator == "theta" and ratio.level != "token":
        problems.append("ratio.denominator 'theta' makes every ratio 1: ratio.level must be 'token'")
    if clip.kind != "ppo" and (clip.delta is not None or clip.dual is not None):
        problems.append("clip.delta and clip.dual belong to clip.kind 'ppo'")
    if clip.kind == "none" and (clip.epsilon_low is not None or clip.epsilon_high is not None):
        problems.append("clip.kind 'none' has no epsilon")
    if (
        clip.epsilon_low is not None
        and clip.epsilon_high is not None
        and clip.epsilon_low < -clip.epsilon_high
    ):
        problems.append("clip.epsilon_low and clip.epsilon_high leave no band: 1 - low exceeds 1 + high")
    if objective.aggregation.constant is not None and not objective.aggregation.kind.endswith("-norm"):
        problems.append("aggregation.constant belongs to the '-norm' kinds")
    if problems:
        raise BadObjective(f"{where}: {'; '.join(problems)}.")


_STRUCTS: tuple[type[Part], ...] = (
    *(Objective, Shaping, Overlong, Filter, Baseline, Scale),
    *(Ratio, Clip, Aggregation, KL, RewardKL, LossKL),
)
_NAMES = sorted({name for struct in _STRUCTS for name in struct.__struct_fields__})


def _hint(message: str) -> str:
    if "unknown field" not in message:
        return ""
    return closest(message.split("`")[1], _NAMES)
