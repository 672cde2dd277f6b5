"""One way to make advantages, in words and as parts of an objective."""

from __future__ import annotations

from typing import Any

import msgspec

from audit.objectives.objective import KL, Baseline, Objective, Overlong, RewardKL, Scale, Shaping, Whiten

FIRST = "first_response"
"""Baseline that no objective has: the reward of the first response of the group."""
GROUPED_BY_ID = "group_id"
LEFT_OUT = "left out"
IN_REWARD, OUTSIDE, BASELINE_ONLY, AFTER_SCALE = "reward", "outside", "baseline", "after_scale"
_ENTERS = {
    IN_REWARD: "",
    OUTSIDE: ", which the baseline and the std do not see",
    BASELINE_ONLY: ", which the baseline alone sees",
    AFTER_SCALE: ", after the scale",
}


class Penalty(msgspec.Struct, frozen=True):
    """A soft penalty of length: 0 up to ``start`` tokens, then linear to ``-penalty`` at ``full``, capped."""

    start: int
    full: int
    penalty: float


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One way to make advantages, with its misfit."""

    baseline: str
    scale: str
    ddof: int | None
    epsilon: float | None
    reward_kl: float | None
    """Coefficient of the KL to the reference that is taken off the reward, or off the advantage."""
    residual: float
    """RMS(logged - recomputed) / RMS(logged)."""
    k: int | None = None
    """k of a ``pass_at_k`` baseline."""
    kl: str | None = None
    """Policy and estimator of that KL, as ``old k1``."""
    weights: dict[str, float] | None = None
    """The reward is this sum of reward components, not the reward column."""
    per_component: bool = False
    """Each component has its own baseline and scale, and the weighted sum is taken after."""
    overlong: Penalty | None = None
    length: float | None = None
    """Added to the reward per token, or per character."""
    length_unit: str | None = None
    enters: str = IN_REWARD
    """Where the KL or the term of length enters: ``reward``, before the baseline; ``outside``: scaled, but
    the baseline and the std are those of the reward without it; ``baseline``: only the baseline sees it;
    ``after_scale``: added to the finished advantage."""
    missing: str = LEFT_OUT
    """What a null reward is: ``left out`` of the statistics, ``0``, or ``poisons``: the group has none."""
    not_counted: str | None = None
    """Further rows that are left out of the statistics."""
    singleton: str = "zero"
    """Advantage in a group of one response: ``zero`` or ``raw`` reward."""
    grouping: str = GROUPED_BY_ID
    """What the statistics are formed over."""
    whiten: Whiten | None = None
    """Standardised over the batch, last of all."""
    shaped: bool = True
    """False: of the reward column as it stands, although the run declares a shaping of it."""

    def describe(self) -> str:
        """One phrase for people: 'group_mean / (group_std, ddof 1, + 0.0001)'."""
        text = self.baseline + (f" (k = {self.k})" if self.k else "")
        if self.scale != "none":
            text += f" / ({self.scale}, ddof {self.ddof}, + {self.epsilon:g})"
        return ", ".join([text, *self._terms(), *self._rules()])

    def _terms(self) -> list[str]:
        said = []
        where = _ENTERS.get(self.enters, "")
        if self.weights is not None:
            apiece = " each with its own baseline and scale" if self.per_component else ""
            total = " + ".join(f"{weight:g} {name}" for name, weight in self.weights.items())
            said.append(f"of {total}{apiece}{where}")
        if self.reward_kl:
            form = f" ({self.kl})" if self.kl not in (None, "old k1") else ""
            place = "" if self.enters == AFTER_SCALE else " in reward"
            said.append(f"KL{place} x {self.reward_kl:g}{form}{where}")
        if self.overlong is not None:
            o = self.overlong
            said.append(f"penalty up to {o.penalty:g} from {o.start} to {o.full} tokens{where}")
        if self.length is not None:
            said.append(f"reward + {self.length:g} per {self.length_unit}{where}")
        return said

    def _rules(self) -> list[str]:
        said = []
        if self.missing != LEFT_OUT:
            said.append(
                "a null reward counts as 0" if self.missing == "0" else "a null reward empties its group"
            )
        if self.not_counted is not None:
            said.append(f"without {self.not_counted} in the statistics")
        if self.singleton == "raw":
            said.append("the raw reward in groups of one")
        if self.grouping != GROUPED_BY_ID:
            said.append(f"over {self.grouping}")
        if self.whiten is not None:
            said.append(f"whitened by {self.whiten.level}")
        if not self.shaped:
            said.append("without the declared shaping of the reward")
        return said

    @property
    def oddities(self) -> int:
        """How many of its choices are beyond baseline, scale, ddof and epsilon: fewer is simpler."""
        return len(self._terms()) + len(self._rules()) + (self.enters != IN_REWARD)

    def objective(self, known: Objective) -> Objective | None:
        """``known`` with the parts that advantages show; None where no objective can say it."""
        if self.baseline == FIRST or self.enters in (OUTSIDE, BASELINE_ONLY) or self.length is not None:
            return None
        baseline = Baseline(kind=self.baseline, k=self.k, singleton=self.singleton)  # type: ignore[arg-type]
        scale = Scale(
            kind=self.scale,  # type: ignore[arg-type]
            ddof=self.ddof or 0,  # type: ignore[arg-type]
            epsilon=self.epsilon or 0.0,
            whiten=self.whiten,
        )
        return known.replace(baseline=baseline, scale=scale, kl=self._kl(known), shaping=self._shaping(known))

    def _kl(self, known: Objective) -> KL:
        reward = None
        if self.reward_kl:
            policy, estimator = (self.kl or "old k1").split()
            stage: Any = "after_scale" if self.enters == AFTER_SCALE else "before_baseline"
            reward = RewardKL(
                coefficient=self.reward_kl,
                policy=policy,  # type: ignore[arg-type]
                estimator=estimator,  # type: ignore[arg-type]
                stage=stage,
            )
        return KL(reward=reward, loss=known.kl.loss)

    def _shaping(self, known: Objective) -> Shaping:
        shaping = known.shaping if self.shaped else Shaping()
        if self.weights is not None:
            shaping = Shaping(weights=self.weights, per_component=self.per_component)
        if self.overlong is not None:
            o = self.overlong
            overlong = Overlong(max_length=o.full, cache=o.full - o.start, penalty=o.penalty)
            shaping = msgspec.structs.replace(shaping, overlong=overlong)
        return shaping


def candidate_of(objective: Objective, residual: float, **traits: Any) -> Candidate:
    """Write the parts of an objective that make advantages as a candidate."""
    scale, baseline, kl = objective.scale, objective.baseline, objective.kl.reward
    scaled = scale.kind != "none"
    fields: dict[str, Any] = {
        "baseline": baseline.kind,
        "scale": scale.kind,
        "ddof": scale.ddof if scaled else None,
        "epsilon": scale.epsilon if scaled else None,
        "reward_kl": kl.coefficient if kl is not None else None,
        "residual": residual,
        "k": baseline.k,
        "singleton": baseline.singleton,
        "whiten": scale.whiten,
    }
    return Candidate(**(fields | traits))
