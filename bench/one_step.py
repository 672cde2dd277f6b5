"""How long What if and Tokens take on a step of 4 M tokens: ``python -m bench.one_step``.

The log has two such steps, so that reading one means passing the other over. Each change is measured on a
step that is at hand, as the dashboard holds it: what a person waits for after a click.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from audit.analyses.fitted import fitted
from audit.analyses.one_step import one_step
from audit.analyses.token_view import token_view
from audit.facts.declared import declared_objective
from audit.facts.rows import RunRows
from audit.facts.step_rows import step_rows, steps_of
from audit.logs import open_run
from audit.objectives.catalogue import named
from audit.objectives.changes import changed
from audit.objectives.objective import from_dict
from bench.logs import make
from bench.sizes import Size
from bench.timing import Spread

CHANGES = (
    ("scale.kind=none",),
    ("aggregation.kind=token-mean",),
    ("clip.epsilon_high={:.3f}",),
    ("clip.epsilon_low={:.3f}", "kl.loss.coefficient=0.01"),
    ("ratio.level=sequence", "clip.epsilon_high={:.5f}"),
    ("kl.loss.estimator=k2", "kl.loss.input_clamp={:.3f}"),
)
"""Each with a number that no measurement before has used: nothing is at hand from the last one."""
OTHERS = ("rloo", "dapo", "cispo", "gspo", "sapo")


def timed(task: Callable[[], object]) -> float:
    """Seconds that a task takes."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def main() -> None:
    """Print one line a question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=4_000_000, help="Tokens of a step.")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = RunRows.read(open_run(make(Size(2 * options.tokens, 2))), tokens=False)
    number = steps_of(rows)[-1]
    print("read a step:", Spread.of([timed(lambda: step_rows(rows, number)) for _ in range(3)]).text())
    step = step_rows(rows, number)
    declared = declared_objective(rows.run)
    assert declared is not None
    own = declared.objective
    print("first weights:", f"{timed(lambda: one_step(step, own, own)):.2f} s")
    print(f"{int(step.loss_tokens.sum()):,} loss tokens, {int(step.here.sum()):,} responses")
    for at, change in enumerate(CHANGES):
        found = []
        for repeat in range(options.repeats):
            value = 0.2 + 0.01 * at + 0.001 * repeat
            other = from_dict(changed(own.to_dict(), [text.format(value) for text in change]))
            found.append(timed(lambda other=other: one_step(step, own, other)))  # type: ignore[misc]
        print(f"{' '.join(change)}:", Spread.of(found).text())
    for name in OTHERS:
        print(f"{name}:", f"{timed(lambda name=name: one_step(step, own, named(name))):.2f} s")  # type: ignore[misc]
    objective, _ = fitted(step.rows, own)
    print("tokens of a response:", f"{timed(lambda: token_view(step, 0, objective)):.2f} s")


if __name__ == "__main__":
    main()
