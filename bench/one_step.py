"""How long What if and Tokens take on a step of 4 M tokens: ``python -m bench.one_step``.

The log has two such steps, so that reading one means passing the other over, and every column that an
objective of the catalogue can ask for. Each change is measured on a step that is at hand, as the dashboard
holds it: what a person waits for after a click. Processor time counts all threads.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from audit.analyses.fitted import fitted
from audit.analyses.one_step import one_step
from audit.analyses.token_view import token_view
from audit.errors import AuditError
from audit.facts.declared import declared_objective
from audit.facts.rows import RunRows
from audit.facts.step_rows import step_rows, steps_of
from audit.logs import open_run
from audit.logs.writer import RolloutWriter
from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.changes import changed
from audit.objectives.objective import from_dict
from bench.logs import GROUP, manifest
from bench.logs import step_rows as rows_of_step
from bench.sizes import FOLDER, Size

CHANGES = (
    ("scale.kind=none",),
    ("aggregation.kind=token-mean",),
    ("clip.epsilon_high={:.3f}",),
    ("clip.epsilon_low={:.3f}", "kl.loss.coefficient=0.01"),
    ("ratio.level=sequence", "clip.epsilon_high={:.5f}"),
    ("kl.loss.estimator=k2", "kl.loss.input_clamp={:.3f}"),
    ("filter.top_entropy={:.3f}",),
)
"""Each with a number that no measurement before has used: nothing is at hand from the last one."""


def make(size: Size) -> Path:
    """Return a log of ``size`` with every column that the catalogue needs; written unless it is there."""
    run = FOLDER / f"every-column-{size.name}"
    if run.is_dir():
        return run
    unfinished = FOLDER / f".{run.name}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    (unfinished / "run.json").write_text(json.dumps(manifest(size)), encoding="utf-8")
    for step in range(size.steps):
        with RolloutWriter(unfinished, prefix=f"step{step}") as writer:
            writer.write(_with_more(rows_of_step(size, step), step))
    unfinished.rename(run)
    return run


def _with_more(batch: pa.RecordBatch, step: int) -> pa.RecordBatch:
    """Entropies, critic values, reward components, and a greedy response in every group."""
    rng = np.random.default_rng(step)
    lists = batch["logp_old"]
    surprise = -np.asarray(lists.flatten())
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, values in (
        ("entropy", surprise * rng.random(len(surprise), dtype=np.float32)),
        ("value", rng.random(len(surprise), dtype=np.float32)),
    ):
        columns[name] = pa.ListArray.from_arrays(lists.offsets, pa.array(values))
    parts = [[("accuracy", r), ("format", float(r > 0))] for r in np.asarray(batch["reward"])]
    columns["reward_components"] = pa.array(parts, pa.map_(pa.string(), pa.float64()))
    columns["is_greedy"] = pa.array(np.arange(batch.num_rows) % GROUP == 0)
    return pa.RecordBatch.from_pydict(columns)


def shown(task: Callable[[int], object], repeats: int) -> str:
    """Wall and processor seconds of the fastest of some repeats, or why it cannot be done."""
    found = []
    for repeat in range(repeats):
        start = time.perf_counter(), time.process_time()
        try:
            task(repeat)
        except AuditError as error:
            return str(error).splitlines()[0]
        found.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, processor = min(found)
    return f"{wall:.2f} s, processor {processor:.2f} s"


def main() -> None:
    """Print one line a question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=4_000_000, help="Tokens of a step.")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = RunRows.read(open_run(make(Size(2 * options.tokens, 2))), tokens=False)
    number = steps_of(rows)[-1]
    print("read a step:", shown(lambda _: step_rows(rows, number), options.repeats))
    step = step_rows(rows, number)
    declared = declared_objective(rows.run)
    assert declared is not None
    own = declared.objective
    print("first weights:", shown(lambda _: one_step(step, own, own), 1))
    print(f"{int(step.loss_tokens.sum()):,} loss tokens, {int(step.here.sum()):,} responses")
    for at, change in enumerate(CHANGES):

        def other(repeat: int, at: int = at, change: tuple[str, ...] = change) -> object:
            value = 0.2 + 0.01 * at + 0.001 * repeat
            wanted = changed(own.to_dict(), [text.format(value) for text in change])
            return one_step(step, own, from_dict(wanted))

        print(f"{' '.join(change)}:", shown(other, options.repeats))
    for name in CATALOGUE:
        # Facts that one objective left at hand make the next of its kind fast: a fresh step each.
        fresh = step_rows(rows, number)
        one_step(fresh, own, own)
        print(f"{name}:", shown(lambda _, s=fresh, n=name: one_step(s, own, named(n)), 1))  # type: ignore[misc]
    objective, _ = fitted(step.rows, own)
    print("tokens of a response:", shown(lambda _: token_view(step, 0, objective), 1))


if __name__ == "__main__":
    main()
