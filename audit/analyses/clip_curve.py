"""What PPO's clip would have removed from a run's tokens at other widths of its band."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.clipping_counts import without_loss_kl
from audit.analyses.clipping_facts import source_of
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.tokenpass import factor_facts
from audit.facts.tokenpass.factors import Factors, factors_of
from audit.objectives.objective import Objective
from audit.objectives.surrogates import CISPOClip, PPOClip
from audit.stats import Estimate, ratio_of_sums

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6)
"""For the ratio of a token."""
RESPONSE_EPSILONS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""For the ratio of a response, which is far closer to 1 where it is a mean over tokens."""


class ClipAt(msgspec.Struct, frozen=True):
    """The share at one width."""

    epsilon: float
    share: Estimate
    """Removed loss tokens over loss tokens; n counts responses."""


class ClipCurve(msgspec.Struct, frozen=True):
    """Clip-zeroed share by epsilon: the band [1 - epsilon, 1 + epsilon] on the run's own ratio."""

    run: str
    level: str
    """Of the ratio: ``token``, ``sequence`` or another."""
    points: list[ClipAt]
    own_low: float | None
    """The run's own epsilon_low and epsilon_high; None where its trust region has no band."""
    own_high: float | None
    schema: str = "rlaudit.clip_curve.v1"


def clip_curve(rows: RunRows, objective: Objective) -> ClipCurve:
    """Measure it, with the run's own advantages, aggregation and corrections.

    Parameters
    ----------
    objective : Objective
        Usually the run's own, on the advantages that the trainer used.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what the ratio needs.
    AuditError
        The ratio is 1 by definition, or advantages differ by token: facts do not tell then.

    Notes
    -----
    Tokens, not updates, are counted again: a run with another band would have sampled other rollouts.
    """
    own = without_loss_kl(objective)
    if own.ratio.denominator == "theta":
        msg = "the ratio of this objective is 1 by definition: no band removes anything."
        raise AuditError(msg)
    wanted = EPSILONS if own.ratio.level == "token" else RESPONSE_EPSILONS
    factors = [_factors(rows, own, epsilon) for epsilon in wanted]
    names = [factor_facts.zeroed(each).name for f in factors for each in (f.positive, f.negative)]
    counts = source_of(rows, own, names).counts
    assert rows.facts is not None
    rows.facts.read(names)
    weighed, negative = counts.use & (counts.multiple != 0), counts.advantage < 0
    prompt, n = rows.prompt[counts.use], int(counts.use.sum())
    points = []
    for at, epsilon in enumerate(wanted):
        rises, falls = (rows.facts[name] for name in names[2 * at : 2 * at + 2])
        zeroed = np.where(weighed, np.where(negative, falls, rises), 0.0)
        points.append(
            ClipAt(epsilon, ratio_of_sums(zeroed[counts.use], counts.tokens[counts.use], prompt, n))
        )
    clip = own.clip
    low, high = None, None
    if isinstance(clip, (PPOClip, CISPOClip)):
        low, high = clip.epsilon_low, clip.epsilon_high
    return ClipCurve(rows.run.run_id, own.ratio.level, points, low, high)


def _factors(rows: RunRows, own: Objective, epsilon: float) -> Factors:
    candidate = own.replace(clip=PPOClip(epsilon_low=epsilon, epsilon_high=epsilon))
    found = factors_of(candidate, token_advantages=rows.has("token_advantage"))
    if rows.facts is None or found is None:
        msg = "advantages differ by token, or the log has no tokens: other widths cannot be counted then."
        raise AuditError(msg)
    return found
