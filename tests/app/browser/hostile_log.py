"""A run whose every text tries to be more than text."""

from __future__ import annotations

from pathlib import Path

from synthetic import centred, rollouts, with_advantages, write

TEXT = (
    "<img src=x onerror=alert(1)> <script>alert(2)</script> **bold** $x^2$ :red[red] "
    "[link](javascript:alert(3)) ![p](http://example.org/p.png) \u202eright to left\u2066 \x00null \x1b[2J"
    "\n# head\n</pre></code><svg onload=alert(4)> {{1+1}}"
)
LONG = "A" * 1_000_000
"""What one token may say."""


def write_hostile(path: Path) -> None:
    """Write the run."""
    rows = with_advantages(rollouts(steps=2, prompts=2, groups=2, size=4, epochs=1), centred)
    for number, row in enumerate(rows):
        row |= {
            "response": LONG if number == 1 else TEXT,
            "prompt": f"{TEXT} {row['prompt']}",
            "prompt_id": f"{TEXT}{row['prompt_id']}",
            "group_id": f"{TEXT}{row['group_id']}",
            "finish_reason": TEXT,
        }
        if number == 1:
            only = ("token_ids", "loss_mask", "logp_old", "logp_ref", "logp_theta")
            row.update({name: row[name][:1] for name in only}, length=1)
    write(path, rows, "grpo", run_id=f"{TEXT} hostile", model=TEXT)
