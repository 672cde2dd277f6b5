"""Whether the optimiser moved at all."""

from __future__ import annotations

from collections.abc import Iterator

from audit.analyses.checks.look import Entry, Look, problem
from audit.schema import Problem


def _find(look: Look) -> Iterator[Problem]:
    logged = look.metric("learning_rate", "lr", "actor_lr")
    config = look.run.manifest.config or {}
    if logged is not None:
        name, steps, values = logged
        zero = values == 0.0
        later = zero[1:] if len(zero) > 1 else zero
        if later.all():
            yield problem(
                look,
                "optimiser.rate-zero",
                None,
                f"{name} is 0 at {int(zero.sum())} of {len(zero)} logged steps: the weights never change.",
                "error",
                steps=tuple(int(s) for s in steps[zero][:5]),
                hint="A schedule that does not know the total number of steps stays at 0.",
            )
    elif any(config.get(key) in (0, 0.0, "0", "0.0") for key in ("learning_rate", "lr")):
        yield problem(
            look, "optimiser.rate-zero", None, "run.json sets a learning rate of 0: nothing is learned."
        )


CHECK = Entry(
    "the learning rate",
    {"optimiser.rate-zero": "the learning rate is 0, in the scalars or in run.json"},
    _find,
)
