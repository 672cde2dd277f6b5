"""How the mismatch between sampler and trainer is spread: over rows, over steps, over lengths."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, correlation, problem
from audit.logs.arrays import to_numpy
from audit.schema import Problem


def _find(look: Look) -> Iterator[Problem]:
    total = look.fact("mismatch", "logp_old", "logp_sampler")
    loss = look.loss_tokens
    if total is None or loss is None:
        return
    use = look.first & np.isfinite(total) & (loss > 0)
    if use.sum() < 20 or not total[use].any():
        return
    yield from _tail(look, use, total, loss)
    yield from _growth(look, use, total, loss)
    yield from _product(look, use, loss)


HEAVY = 5.0
"""Times the median mismatch per token from which a row is extreme; heuristic."""


def _tail(look: Look, use: np.ndarray, total: np.ndarray, loss: np.ndarray) -> Iterator[Problem]:
    """A few rows that hold most of the mismatch."""
    per_token = np.where(use, total / np.maximum(loss, 1), 0.0)
    heavy = use & (per_token > HEAVY * np.median(per_token[use]))
    held = float(total[heavy].sum() / total[use].sum())
    share = float(heavy.sum() / use.sum())
    if share > 0.4 or share == 0.0 or held < max(0.5, 2 * share) or heavy.sum() < 3:
        return
    prompts = np.unique(look.rows.prompt[heavy])
    _steps, step = np.unique(look.rows.step[use], return_inverse=True)
    of = look.rows.prompt[use]
    again = [p for p in prompts if _every_visit(of, heavy[use], step, p)]
    same = f"; {len(again)} of their {len(prompts)} prompts are extreme in every step in which they occur"
    yield problem(
        look,
        "mismatch.few-rows",
        heavy,
        f"{share:.0%} of rows hold {held:.0%} of the mismatch between sampler and trainer (mean "
        f"{total[heavy].sum() / loss[heavy].sum():.3g} nats a token there, "
        f"{total[use & ~heavy].sum() / max(loss[use & ~heavy].sum(), 1):.3g} elsewhere)"
        f"{same if again else ''}: the mean hides it.",
        column="logp_sampler",
        hint="rlaudit mismatch RUN shows the tail.",
    )


def _every_visit(prompt: np.ndarray, heavy: np.ndarray, step: np.ndarray, one: int) -> bool:
    at = prompt == one
    visits = np.unique(step[at])
    return len(np.unique(step[at & heavy])) == len(visits)


def _growth(look: Look, use: np.ndarray, total: np.ndarray, loss: np.ndarray) -> Iterator[Problem]:
    steps, at = np.unique(look.rows.step[use], return_inverse=True)
    if len(steps) < 5:
        return
    level = np.bincount(at, weights=total[use]) / np.bincount(at, weights=loss[use])
    r = correlation(steps.astype(float), level)
    slope, start = np.polyfit(steps - steps[0], level, 1)
    end = start + slope * (steps[-1] - steps[0])
    if not (r > 0.8 and end > 1.5 * max(start, 1e-9)):
        return
    constant = _constant_weights(look)
    yield problem(
        look,
        "mismatch.grows",
        None,
        f"The mismatch between sampler and trainer grows by {slope:.2g} nats a token per step, from "
        f"{max(start, 0.0):.3g} to {end:.3g} over {len(steps)} steps (r = {r:.2f})"
        + (f", although {constant}: this is no policy lag." if constant else "."),
        "warning",
        column="logp_sampler",
        steps=(int(steps[0]), int(steps[-1])),
        certainty="certain" if constant else "likely",
        hint="A stale cache of the engine, or weights that it did not take over.",
    )


def _constant_weights(look: Look) -> str:
    rate = look.metric("learning_rate", "lr")
    if rate is not None and not np.nan_to_num(rate[2]).any():
        return f"{rate[0]} is 0 throughout"
    config = look.run.manifest.config or {}
    if any(config.get(key) in (0, 0.0) for key in ("learning_rate", "lr")):
        return "run.json sets a learning rate of 0"
    if look.rows.has("policy_version") and np.ptp(policy_versions(look)) == 0:
        return "policy_version never changes"
    return ""


def policy_versions(look: Look) -> np.ndarray:
    """Version of each row's policy, float64, shape (R,); NaN where null."""
    column = look.run.responses(["policy_version"])["policy_version"]
    return np.asarray(to_numpy(column), dtype=np.float64)


def _product(look: Look, use: np.ndarray, loss: np.ndarray) -> Iterator[Problem]:
    """A sequence weight that is a product shrinks with length, whatever the policy."""
    gap = look.fact("sampler_gap", "logp_old", "logp_sampler")
    ratio = look.fact("sampler_ratio", "logp_old", "logp_sampler")
    if gap is None or ratio is None:
        return
    product = float(np.median(np.exp(np.minimum(gap[use], 50.0))))
    r = correlation(gap[use], look.rows.length[use])
    token = float(ratio[use].sum() / loss[use].sum())
    if product > 0.5 or r > -0.5 or abs(token - 1.0) > 0.05:
        return
    corrections = look.declared.ratio.corrections if look.declared is not None else ()
    used = any(each.level == "product" for each in corrections)
    yield problem(
        look,
        "mismatch.product-shrinks",
        use,
        f"The product of ratios old / sampler over a response is {product:.2g} at the median (weighed "
        f"down {1 / max(product, 1e-12):.3g} times) and its logarithm falls with length (r = {r:.2f}), while "
        f"the mean ratio of a token is {token:.4f}: it is the sum over tokens, not the policy.",
        "warning" if used else "info",
        column="logp_sampler",
        hint="The geometric mean over the response does not fall with length.",
    )


CHECK = Entry(
    "how the mismatch is spread",
    {
        "mismatch.few-rows": "a few rows hold most of the mismatch; whether it is always the same prompts",
        "mismatch.grows": "the mismatch grows over steps",
        "mismatch.product-shrinks": "the product of ratios falls with length",
    },
    _find,
    ("logp_old", "logp_sampler"),
)
