"""The prompts that carry most of the gradient, one by one."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.prompt_texts import text_of_prompts
from audit.analyses.prompt_weights import Weighed
from audit.analyses.samples import Samples
from audit.facts.rows import RunRows
from audit.objectives.arrays import silent


class PromptRow(msgspec.Struct, frozen=True):
    """One prompt: a count of what happened to it, not an estimate."""

    prompt_id: str
    prompt: str | None
    visits: int
    samples: int
    share: float | None
    """Of the sum of |policy weight| of the run, or of the samples where there is no objective."""
    samples_share: float
    success: float | None
    reward: float
    length: float | None
    """Mean tokens per sample."""
    zero_signal: float
    """Share of its groups whose rewards are all equal."""


@silent
def heaviest(rows: RunRows, samples: Samples, weighed: Weighed, top: int) -> list[PromptRow]:
    """List the ``top`` prompts with the largest share, heaviest first; equals in order of appearance."""
    known = np.unique(samples.cluster[samples.prompt >= 0])
    order = known[np.argsort(-weighed.of_prompt[known], kind="stable")][:top]
    of_sample = samples.cluster[samples.group]
    _, first = np.unique(samples.cluster, return_index=True)
    names = text_of_prompts(rows, samples, first[order])
    total = float(weighed.of_prompt[known].sum())
    everything = int((samples.prompt[samples.group] >= 0).sum())
    made = []
    for (name, text), code in zip(names, order.tolist(), strict=True):
        of_prompt, groups = of_sample == code, samples.cluster == code
        made.append(
            PromptRow(
                prompt_id=name,
                prompt=text,
                visits=int(groups.sum()),
                samples=int(of_prompt.sum()),
                share=float(weighed.of_prompt[code]) / total if total > 0 else None,
                samples_share=int(of_prompt.sum()) / everything,
                success=None if samples.correct is None else _mean(samples.correct[of_prompt]),
                reward=float(samples.reward[of_prompt].mean()),
                length=_mean(samples.tokens[of_prompt]),
                zero_signal=float(samples.alike[groups].mean()),
            )
        )
    return made


def _mean(values: np.ndarray) -> float | None:
    held = values[np.isfinite(values)]
    return float(held.mean()) if len(held) else None
