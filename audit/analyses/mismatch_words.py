"""What the mismatch comes to, in words."""

from __future__ import annotations

from collections.abc import Sequence

from audit.analyses.bucket_shares import Trend
from audit.analyses.mismatch_gap import Gap
from audit.analyses.mismatch_storage import Grid
from audit.analyses.mismatch_tail import Tail
from audit.analyses.mismatch_weights import Weights

FOLLOWS = 0.5
"""|r| between gap and log-prob from which temperature is suspected; heuristic."""


def hints(gap: Gap, spread: Tail, found: Sequence[Grid], filled: int) -> list[str]:
    """Name causes that the numbers suggest."""
    said = []
    if filled:
        said.append(
            f"{filled} tokens have a sampler log-prob of exactly 0 where the trainer's is below -1: a value "
            "was filled in, and the ratios there are wrong"
        )
    r = gap.follows_logp.value
    if r is not None and abs(r) >= FOLLOWS and gap.follows_logp.excludes(0.0):
        said.append(
            f"the gap follows the token's log-prob (r = {r:.2f}): a sampling temperature may be in only "
            "one of the two"
        )
    for grid in found:
        if grid.format is not None and grid.error is not None:
            said.append(
                f"{grid.column} is rounded to {grid.format}: that alone can make a gap of "
                f"{grid.error:.2g} nats a token"
            )
    if spread.identical == 1.0:
        said.append(
            "logp_old is logp_sampler: the trainer took the engine's log-probs for the old policy's own"
        )
    elif spread.identical > 0.5:
        said.append(f"both log-probs are equal on every token of {spread.identical:.0%} of the responses")
    return said


def verdict(gap: Gap, spread: Tail, found: Weights | None, steps: Trend | None) -> str:
    """Say how large the mismatch is and what it does."""
    if spread.identical == 1.0:
        return "Sampler and trainer agree on every token: nothing to correct, or old is the sampler's own."
    said = [f"Sampler and trainer differ by {gap.size.value or 0.0:.3g} nats a token (mean |g|)"]
    if steps is not None and steps.slope.value is not None and steps.slope.excludes(0.0):
        said[0] += ", growing over the run" if steps.slope.value > 0 else ", shrinking over the run"
    said[0] += "."
    if found is not None and found.ess.value is not None:
        text = f"As weights of whole responses that leaves {found.ess.value:.0%} of them"
        if found.pareto_k is not None:
            text += (
                f"; Pareto k = {found.pareto_k:.2f}: "
                + {
                    "reliable": "averages under the weights can be trusted",
                    "unreliable": "averages under the weights cannot be trusted at this size",
                    "no mean": "the weights have no mean, and no average under them means anything",
                    "unknown": "",
                }[found.state]
            )
        said.append(f"{text}.")
    if spread.held is not None and spread.held > 0.5:
        said.append(f"{spread.head:.0%} of the responses hold {spread.held:.0%} of it.")
    return " ".join(said)
