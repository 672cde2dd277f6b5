"""Record what TRL's GRPOTrainer and RLOOTrainer do to every token, without changing what they do.

Read and tested: TRL 1.16.0, trl/trainer/grpo_trainer.py and rloo_trainer.py. Four methods of the trainer
object are wrapped; each wrapper calls the original with its own arguments and returns its result, to which
only one index tensor is added, so that a response can be followed through TRL's shuffle and split.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from audit.errors import AuditError, BadLog
from audit.logs import RolloutWriter
from audit.recorders.metrics import MetricsWriter
from audit.recorders.trl_manifest import manifest_of
from audit.recorders.trl_rollouts import INDEX, Generation, rows_of

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

_WRAPPED = (
    "_generate_and_score_completions",
    "_calculate_rewards",
    "_get_per_token_logps_and_entropies",
    "_compute_loss",
)


def record(
    trainer: Any, run_dir: str | Path, *, run_id: str | None = None, flush_steps: int = 20
) -> Recorder:
    """Attach a recorder to a trainer, before ``trainer.train()``.

    Writes ``run.json`` at once, then ``rollouts/`` (one row per response, micro-batch and update, the whole
    rollout schema) and ``metrics/`` (the scalars that the trainer logs) as training goes on. Training itself
    is left bitwise as it was. Evaluation is not recorded. If recording fails (a full disk), it stops with a
    warning and training goes on.

    Parameters
    ----------
    trainer : trl.GRPOTrainer or trl.RLOOTrainer
        TRL 1.16 or newer.
    run_dir : path
        New directory of this run; every process of a distributed run gives the same.
    run_id : str, optional
        Default: the name of ``run_dir``.
    flush_steps : int
        Finish a file about every so many optimiser steps, between two generation batches, so that no group is
        split over files; a killed run loses what came after the last one.

    Raises
    ------
    AuditError
        The trainer is not one of those above.
    BadLog
        ``run_dir`` already holds rollouts: resume a run into a directory of its own.

    Examples
    --------
    >>> from audit.recorders.trl import record
    >>> with record(trainer, "logs/grpo-seed1"):  # doctest: +SKIP
    ...     trainer.train()
    """
    missing = [name for name in _WRAPPED if not hasattr(trainer, name)]
    if missing:
        msg = (
            f"{type(trainer).__name__} has no {missing[0]}: the recorder follows trl.GRPOTrainer and "
            f"trl.RLOOTrainer of TRL 1.16 or newer."
        )
        raise AuditError(msg)
    directory = Path(run_dir)
    if any((directory / "rollouts").glob("*.parquet")):
        msg = (
            f"{directory} already holds rollouts: record each run, a resumed one too, into its own directory."
        )
        raise BadLog(msg)
    return Recorder(trainer, directory, run_id or directory.name, flush_steps)


class Recorder:
    """Handle on an attached recorder; made by :func:`record`, usable as a context manager."""

    failure: Exception | None = None
    """What stopped the recording, if anything did: training goes on without it, after a warning."""

    def __init__(self, trainer: Any, run_dir: Path, run_id: str, flush_steps: int) -> None:
        self._trainer = trainer
        self._main = trainer.accelerator.is_main_process
        rank = trainer.accelerator.process_index
        self._writer = RolloutWriter(
            run_dir,
            manifest=manifest_of(trainer, run_id, version("trl")) if self._main else None,
            prefix=f"rank{rank:03d}",
        )
        self._metrics = MetricsWriter(run_dir)
        self._first_micro_batch = rank * trainer.args.gradient_accumulation_steps
        self._flush_steps = flush_steps
        self._flushed = trainer.state.global_step
        self._pending: list[pa.Table] = []
        self._generations = 0
        self._generation: Generation | None = None
        self._scored: dict[str, Any] | None = None
        self._forwards: list[tuple[torch.Tensor, torch.Tensor | None]] | None = None
        self._attached = True
        for name in _WRAPPED:
            setattr(trainer, name, self._wrap(name, getattr(trainer, name)))
        self._callback = _callback(self)
        trainer.add_callback(self._callback)

    def flush(self) -> None:
        """Write everything recorded so far."""
        self._writer.flush()
        if self._main:
            self._metrics.flush()

    def close(self) -> None:
        """Flush and detach: the trainer is as it was before :func:`record`."""
        self._detach()
        self._guard(self.flush)
        # What was accepted before a failure is still good.
        with contextlib.suppress(Exception):
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _detach(self) -> None:
        if self._attached:
            self._attached = False
            for name in _WRAPPED:
                delattr(self._trainer, name)
            self._trainer.remove_callback(self._callback)

    def _wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        wrappers: dict[str, Callable[..., Any]] = {
            "_generate_and_score_completions": self._on_generation,
            "_calculate_rewards": self._on_rewards,
            "_get_per_token_logps_and_entropies": self._on_forward,
            "_compute_loss": self._on_loss,
        }
        wrapper = wrappers[name]

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        return wrapped

    def _guard(self, action: Callable[..., None], *args: Any) -> None:
        """Run ``action``; if it fails, stop recording but never the training."""
        if self.failure is not None:
            return
        try:
            action(*args)
        except Exception as error:
            self.failure = error
            self._pending.clear()
            message = f"rlaudit stopped recording, training goes on: {type(error).__name__}: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=3)

    def _on_rewards(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        rewards = original(*args, **kwargs)
        if self._scored is not None:
            self._guard(self._keep_rewards, self._scored, _named(original, args, kwargs), rewards)
        return rewards

    def _keep_rewards(self, scored: dict[str, Any], given: dict[str, Any], rewards: Any) -> None:
        scored.update(prompts=given["prompts"], token_ids=given["completion_ids_list"], rewards=rewards)

    def _on_forward(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        if self._forwards is not None:
            self._forwards.append((output[0].detach(), None if output[1] is None else output[1].detach()))
        return output

    def _on_generation(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._trainer.model.training:
            return original(*args, **kwargs)
        self._scored, self._forwards = {}, []
        try:
            output = original(*args, **kwargs)
            self._guard(self._keep_generation, output, self._scored, self._forwards)
        finally:
            self._scored = self._forwards = None
        return output

    def _keep_generation(self, output: dict[str, Any], scored: dict[str, Any], forwards: list[Any]) -> None:
        self._generation = Generation.of(
            self._trainer,
            output,
            number=self._generations,
            scored=scored,
            forwards=[logps for logps, _ in forwards],
            created_at=datetime.now(UTC),
        )
        self._generations += 1

    def _on_loss(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._trainer.model.training:
            return original(*args, **kwargs)
        self._forwards = []
        try:
            loss = original(*args, **kwargs)
            self._guard(self._keep_micro_batch, _named(original, args, kwargs)["inputs"], self._forwards)
        finally:
            self._forwards = None
        return loss

    def _keep_micro_batch(self, inputs: dict[str, Any], forwards: list[Any]) -> None:
        if self._generation is None or INDEX not in inputs:
            return  # generated before the recorder was attached
        logps, entropies = forwards[0]
        rows = rows_of(
            self._generation,
            inputs,
            logps=logps,
            entropies=entropies,
            update=self._trainer.state.global_step + 1,
            micro_batch=self._first_micro_batch + len(self._pending),
        )
        self._pending.append(rows)

    def _finish_update(self, step: int) -> None:
        """Hand over the micro-batches of an update once the optimiser has taken it."""
        for rows in self._pending:
            self._writer.write(rows)
        self._pending.clear()
        batches_until_new = self._trainer.args.steps_per_generation * self._trainer.num_iterations
        if step - self._flushed >= self._flush_steps and self._trainer._step % batches_until_new == 0:
            self._flushed = step
            self.flush()

    def _keep_metrics(self, step: int, logs: dict[str, Any]) -> None:
        if self._main:
            self._metrics.add(step, logs)


def _named(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by the names that ``function`` gives them."""
    return inspect.signature(function).bind(*args, **kwargs).arguments


def _callback(recorder: Recorder) -> Any:
    from transformers import TrainerCallback

    class RecorderCallback(TrainerCallback):  # type: ignore[misc]
        """Keeps logged scalars and writes files out as training goes on."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            recorder._pending.clear()  # of an update that was interrupted

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002
            recorder._guard(recorder._keep_metrics, state.global_step, dict(logs or {}))

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            recorder._guard(recorder._finish_update, state.global_step)

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            recorder._guard(recorder.flush)

    return RecorderCallback()
