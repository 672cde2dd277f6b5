"""Queries to begin with."""

from __future__ import annotations

EXAMPLES: dict[str, str] = {
    "By step": (
        "select step, count(*) as responses, avg(reward) as reward, avg(length) as length\n"
        "from rollouts\ngroup by step\norder by step"
    ),
    "Hard prompts": (
        "select prompt_id, any_value(prompt) as prompt, count(*) as n, avg(reward) as reward\n"
        "from rollouts\ngroup by prompt_id\nhaving n >= 8\norder by reward, prompt_id\nlimit 100"
    ),
    "Longest": (
        "select step, group_id, sample_index, length, finish_reason, reward, response\n"
        "from rollouts\norder by length desc\nlimit 50"
    ),
    "Logged scalars": (
        "select name, count(*) as n, min(value) as least, avg(value) as mean, max(value) as most\n"
        "from metrics\ngroup by name\norder by name"
    ),
    "Columns": "describe rollouts",
}
"""Label → query; each runs on every log of the schema."""
