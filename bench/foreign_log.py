"""A foreign log of any size: lines of JSON as a trainer writes them, with token ids and log-probs."""

from __future__ import annotations

import json
import random
from pathlib import Path

GROUP = 8
PROMPTS = 64
_WORDS = "so the sum of two even numbers is even and we find that the answer must be".split()


def write_lines(path: Path, size: int, seed: int = 0) -> int:
    """Write about ``size`` bytes; returns the number of rows.

    Lines are put together from parts that were encoded once: what is measured is the reading.
    """
    rng = random.Random(seed)
    parts = [_part(rng) for _ in range(512)]
    rows = written = step = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            for prompt in range(PROMPTS):
                for _ in range(GROUP):
                    line = (
                        f'{{"step": {step}, "question": "question {step * PROMPTS + prompt}", '
                        f'"score": {rng.random():.4f}, {rng.choice(parts)}}}\n'
                    )
                    written += file.write(line)
                    rows += 1
            step += 1
    return rows


def _part(rng: random.Random) -> str:
    length = rng.randint(50, 600)
    fields = {
        "completion": " ".join(rng.choices(_WORDS, k=length)),
        "response_ids": [rng.randrange(50_000) for _ in range(length)],
        "old_log_probs": [-rng.expovariate(2) for _ in range(length)],
        "rollout_log_probs": [-rng.expovariate(2) for _ in range(length)],
        "finish_reason": "stop",
    }
    return json.dumps(fields)[1:-1]
