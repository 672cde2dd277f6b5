"""Training runs as rollout logs: what a recorder in a real trainer writes, token by token."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from audit.errors import AuditError
from audit.logs import RolloutWriter
from audit.logs.output import check_output
from audit.recorders.metrics import MetricsWriter
from audit.testbed import exact
from audit.testbed.language import Language
from audit.testbed.rows import rows_of
from audit.testbed.training import Setup, Trainer


def write_runs(
    directory: Path,
    language: Language,
    setup: Setup,
    seeds: Sequence[int],
    steps: int,
    *,
    progress: Callable[[int], None] | None = None,
) -> list[Path]:
    """Train one run per seed and write each as ``directory/<objective>-seed<seed>``.

    Parameters
    ----------
    steps : int
        Batches; each makes ``setup.epochs`` optimiser steps.
    progress : callable, optional
        Called with the number of the batch after each one.

    Returns
    -------
    list of Path
        The run directories, in the order of ``seeds``.

    Raises
    ------
    AuditError
        A setting is out of range, the place is inside a log, or a run is already there.
    BadObjective
        The objective cannot be trained here.
    """
    if steps < 1:
        msg = f"--steps must be at least 1, not {steps}."
        raise AuditError(msg)
    name = setup.objective.name
    if not name or name.startswith(".") or not name.isprintable() or {"/", "\\"} & set(name):
        msg = f"objective name {name!r} cannot be the name of a directory: --set name=NAME gives another."
        raise AuditError(msg)
    trainer = Trainer(language, setup, seeds)
    folders = [directory / f"{name}-seed{seed}" for seed in seeds]
    check_new_runs(directory, folders)
    with ExitStack() as stack:
        writers, metrics = [], []
        for folder, seed in zip(folders, seeds, strict=True):
            manifest = manifest_of(trainer, steps, seed, folder.name)
            writers.append(stack.enter_context(RolloutWriter(folder, manifest=manifest)))
            metrics.append(MetricsWriter(folder))
        for batch in range(1, steps + 1):
            for update in trainer.batch():
                for k, writer in enumerate(writers):
                    writer.write(rows_of(trainer, update, k))
            _measure(trainer, batch * setup.epochs, metrics)
            if progress is not None:
                progress(batch)
        for scalars in metrics:
            scalars.flush()
    return folders


def check_new_runs(directory: Path, folders: Sequence[Path]) -> None:
    """Refuse a place inside a log, or one where something is already there.

    Raises
    ------
    AuditError
    """
    check_new_directory(directory)
    taken = next((folder for folder in folders if folder.exists()), None)
    if taken is not None:
        msg = f"{taken}: is already there, and logs are never changed; take another directory."
        raise AuditError(msg)


def check_new_directory(directory: Path) -> None:
    """Refuse a directory that lies inside a log, or in which no file can be.

    Raises
    ------
    AuditError
    """
    # The name stands for whatever will be written: it is checked from the first folder that exists.
    places = (directory, *directory.absolute().parents)
    above = next((place for place in places if place.exists()), directory)
    check_output(above / "run.json", (".json",))


def manifest_of(trainer: Trainer, steps: int, seed: int, run_id: str) -> dict[str, Any]:
    """What run.json says of one run: every field of the objective, and the testbed's own settings."""
    language, setup = trainer.language, trainer.setup
    settings = {
        "learning_rate": setup.rate,
        "steps": steps,
        "epochs": setup.epochs,
        "micro_batches": setup.micro_batches,
        "sampler_noise": setup.sampler_noise,
    }
    return {
        "schema": "rlaudit.run.v1",
        "run_id": run_id,
        "framework": {"name": "rlaudit-testbed", "version": version("rlaudit")},
        "model": "tabular softmax over the prefixes of each prompt",
        "reference": "the policy at the start",
        "objective": trainer.objective.to_dict(),
        "config": settings,
        "group_size": setup.group_size,
        "sampling": {"temperature": 1.0, "max_tokens": language.budget},
        "seed": seed,
        "data": {"name": "the testbed's language", **dataclasses.asdict(language)},
    }


def _measure(trainer: Trainer, step: int, writers: Sequence[MetricsWriter]) -> None:
    """Log what no trainer can: exact values of the policy after the step."""
    language, policy = trainer.language, trainer.policy
    success = exact.success(language, policy).mean(-1)
    correct, wrong = exact.lengths_by_correctness(language, policy)
    from_reference = exact.kl(language, policy, language.reference).mean(-1)
    for k, writer in enumerate(writers):
        scalars = {
            "exact/success": float(success[k]),
            "exact/length_correct": float(correct[k]),
            "exact/length_wrong": float(wrong[k]),
            "exact/kl_ref": float(from_reference[k]),
        }
        writer.add(step, scalars)
