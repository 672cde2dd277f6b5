"""With which weights do the components make the reward, and do two runs weigh them alike?"""

from __future__ import annotations

import numpy as np

from audit.analyses.pair import Pair
from audit.facts.rows import RunRows
from audit.facts.tokenpass.text_key import NO_TEXT
from audit.objectives.arrays import silent
from audit.objectives.objective import Objective, Shaping

EXACT = 1e-6
"""Rewards closer than this are the same (float32 rounding)."""
FEW = 3
"""Texts whose components must differ before their reward function is called another; heuristic."""

Weights = dict[str, float]


def components_of(rows: RunRows) -> dict[str, np.ndarray]:
    """Logged reward components by name, float64, shape (R,); NaN where one did not apply."""
    if not rows.has("reward_components"):
        return {}
    # Any weights: responses carry their components only where an objective asks for them.
    asked = Objective(shaping=Shaping(weights={"": 1.0}))
    found = rows.responses(asked).components or {}
    return {name: np.asarray(values) for name, values in found.items()}


def reward_weights(pair: Pair) -> tuple[Weights, Weights] | None:
    """Weights of the components in A and in B, where these differ.

    None where one set of weights makes the rewards of both runs, where either reward is no weighted sum of
    its components, and where the runs log other components.
    """
    parts = [components_of(rows) for rows in pair.sides]
    if not parts[0] or parts[0].keys() != parts[1].keys():
        return None
    names = sorted(parts[0])
    tables = [np.stack([part[name] for name in names], axis=1) for part in parts]
    rewards = [rows.numpy("reward") for rows in pair.sides]
    if _solved(np.concatenate(tables), np.concatenate(rewards)) is not None:
        return None
    made = [_solved(table, reward) for table, reward in zip(tables, rewards, strict=True)]
    if made[0] is None or made[1] is None:
        return None
    a, b = (dict(zip(names, weights.tolist(), strict=True)) for weights in made if weights is not None)
    return a, b


def explained(pair: Pair, weights: tuple[Weights, Weights]) -> bool:
    """Whether texts that both runs sampled have the same reward once A's weights make it in both."""
    keys, values = [], []
    for rows, prompts in zip(pair.sides, pair.prompts, strict=True):
        if rows.facts is None or "token_ids" not in rows.run.columns:
            return False
        parts = components_of(rows)
        values.append(np.nansum([weights[0][name] * part for name, part in parts.items()], axis=0))
        text = rows.facts["text_key"]
        keys.append(np.stack([prompts, text, text != NO_TEXT], axis=1))
    _, code = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    code = code.ravel()
    given = np.concatenate(keys)[:, 2] == 1
    first = np.arange(len(code)) < pair.a.num_rows
    means = []
    for side in (first, ~first):
        use = side & given
        total = np.bincount(code[use], weights=np.concatenate(values)[use], minlength=int(code.max()) + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            means.append(total / np.bincount(code[use], minlength=int(code.max()) + 1))
    both = np.isfinite(means[0]) & np.isfinite(means[1])
    apart = int((np.abs(means[0] - means[1])[both] > EXACT).sum())
    return bool(both.any()) and apart < max(FEW, 0.01 * int(both.sum()))


def with_weights(
    objectives: tuple[Objective | None, Objective | None], weights: tuple[Weights, Weights] | None
) -> tuple[Objective | None, Objective | None]:
    """Put the weights into objectives that take the reward as it was logged."""
    a, b = objectives
    if weights is None or a is None or b is None or a.shaping.weights or b.shaping.weights:
        return objectives
    shapings = [Shaping(weights={name: float(f"{w:.6g}") for name, w in side.items()}) for side in weights]
    if a.shaping != Shaping() or b.shaping != Shaping():
        return objectives
    return a.replace(shaping=shapings[0]), b.replace(shaping=shapings[1])


@silent
def _solved(table: np.ndarray, reward: np.ndarray) -> np.ndarray | None:
    """Weights w with table @ w = reward on every scored row; a component that did not apply adds nothing."""
    use = np.isfinite(reward) & np.isfinite(table).any(axis=1)
    if not use.any():
        return None
    known = np.nan_to_num(table[use])
    weights = np.linalg.lstsq(known, reward[use], rcond=None)[0]
    miss = np.abs(known @ weights - reward[use]).max()
    weights = np.where(np.abs(weights) < EXACT, 0.0, weights)
    return weights if miss <= EXACT * max(1.0, float(np.abs(reward[use]).max())) else None
