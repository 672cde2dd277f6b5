"""Record what TRL's GRPOTrainer and RLOOTrainer do to every token, without changing what they do.

Read and tested: TRL 1.16.0, trl/trainer/grpo_trainer.py and rloo_trainer.py. Four methods of the trainer
object are wrapped; each wrapper calls the original with its own arguments and returns its result, to which
only one index tensor is added, so that a response can be followed through TRL's shuffle and split.
"""

from __future__ import annotations

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
    is left bitwise as it was. Evaluation is not recorded.

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
        self._update = -1
        self._micro_batch = 0
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
        self._guard(self._writer.close)
        if self._main:
            self._guard(self._metrics.flush)

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
            message = f"rlaudit stopped recording, training goes on: {type(error).__name__}: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=3)

    def _on_rewards(
        self, original: Callable[..., Any], inputs: Any, prompts: Any, completions: Any, token_ids: Any
    ) -> Any:
        rewards = original(inputs, prompts, completions, token_ids)
        if self._scored is not None:
            self._scored.update(prompts=list(prompts), token_ids=list(token_ids), rewards=rewards)
        return rewards

    def _on_forward(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        if self._forwards is not None:
            self._forwards.append((output[0].detach(), None if output[1] is None else output[1].detach()))
        return output

    def _on_generation(self, original: Callable[..., Any], inputs: Any) -> Any:
        if not self._trainer.model.training:
            return original(inputs)
        self._scored, self._forwards = {}, []
        try:
            output = original(inputs)
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

    def _on_loss(self, original: Callable[..., Any], model: Any, inputs: Any) -> Any:
        if not self._trainer.model.training or INDEX not in inputs:
            return original(model, inputs)
        self._forwards = []
        try:
            loss = original(model, inputs)
            self._guard(self._keep_micro_batch, inputs, self._forwards)
        finally:
            self._forwards = None
        return loss

    def _keep_micro_batch(self, inputs: dict[str, Any], forwards: list[Any]) -> None:
        assert self._generation is not None
        logps, entropies = forwards[0]
        update = self._trainer.state.global_step + 1
        self._micro_batch = self._micro_batch + 1 if update == self._update else 0
        self._update = update
        rows = rows_of(
            self._generation,
            inputs,
            logps=logps,
            entropies=entropies,
            update=update,
            micro_batch=self._first_micro_batch + self._micro_batch,
        )
        self._writer.write(rows)

    def _flush_if_due(self, step: int) -> None:
        batches_until_new = self._trainer.args.steps_per_generation * self._trainer.num_iterations
        if step - self._flushed >= self._flush_steps and self._trainer._step % batches_until_new == 0:
            self._flushed = step
            self.flush()

    def _keep_metrics(self, step: int, logs: dict[str, Any]) -> None:
        if self._main:
            self._metrics.add(step, logs)


def _callback(recorder: Recorder) -> Any:
    from transformers import TrainerCallback

    class RecorderCallback(TrainerCallback):  # type: ignore[misc]
        """Keeps logged scalars and writes files out as training goes on."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002
            recorder._guard(recorder._keep_metrics, state.global_step, dict(logs or {}))

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            recorder._guard(recorder._flush_if_due, state.global_step)

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            recorder._guard(recorder.flush)

    return RecorderCallback()
