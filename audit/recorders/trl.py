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
from audit.recorders.trl_rollouts import INDEX, Generation
from audit.recorders.trl_rows import MicroBatch, rows_of

if TYPE_CHECKING:
    import torch

_WRAPPED = (
    "_generate_and_score_completions",
    "_calculate_rewards",
    "_get_per_token_logps_and_entropies",
    "_compute_loss",
)
_MOST_PLACES = 2_000_000
"""Tokens and padding of finished updates that wait to be made rows: many small updates cost less at once."""


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


Call = Callable[[], Any]
"""The call of the trainer, with its own arguments."""
Given = Callable[[], dict[str, Any]]
"""The arguments of that call, by name."""


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
        self._pending: list[MicroBatch] = []
        self._finished: list[MicroBatch] = []
        self._generations = 0
        self._generation: Generation | None = None
        self._scored: dict[str, Any] | None = None
        self._forwards: list[tuple[torch.Tensor, torch.Tensor | None]] | None = None
        engine = getattr(trainer, "vllm_generation", None)
        self._hooks = [(trainer, name) for name in _WRAPPED]
        self._hooks += [] if engine is None else [(engine, "generate")]
        for owner, name in self._hooks:
            setattr(owner, name, self._wrap(name, getattr(owner, name)))
        self._callback = _callback(self)
        trainer.add_callback(self._callback)

    def flush(self) -> None:
        """Write everything recorded so far."""
        self._make_rows()
        self._writer.flush()
        if self._main:
            self._metrics.flush()

    def close(self) -> None:
        """Flush and detach: the trainer is as it was before :func:`record`."""
        self._detach()
        self._guard(self.flush)
        # What was taken before a failure is still good.
        with contextlib.suppress(Exception):
            self._make_rows()
        with contextlib.suppress(Exception):
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _detach(self) -> None:
        if self._hooks:
            for owner, name in self._hooks:
                delattr(owner, name)
            self._hooks = []
            self._trainer.remove_callback(self._callback)

    def _wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        wrappers: dict[str, Callable[..., Any]] = {
            "_generate_and_score_completions": self._on_generation,
            "_calculate_rewards": self._on_rewards,
            "_get_per_token_logps_and_entropies": self._on_forward,
            "_compute_loss": self._on_loss,
            "generate": self._on_sampling,
        }
        wrapper = wrappers[name]
        bind = inspect.signature(original).bind

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(lambda: original(*args, **kwargs), lambda: bind(*args, **kwargs).arguments)

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

    def _on_rewards(self, call: Call, given: Given) -> Any:
        rewards = call()
        if self._scored is not None:
            self._guard(self._keep_rewards, self._scored, given, rewards)
        return rewards

    def _keep_rewards(self, scored: dict[str, Any], given: Given, rewards: Any) -> None:
        named = given()
        scored.update(
            prompts=named["prompts"],
            completions=named["completions"],
            token_ids=named["completion_ids_list"],
            rewards=rewards,
        )

    def _on_sampling(self, call: Call, _: Given) -> Any:
        output = call()
        if self._scored is not None:
            # Of the engine's candidates for each token the first is the one that was drawn.
            self._scored["sampled"] = output[2]
        return output

    def _on_forward(self, call: Call, _: Given) -> Any:
        output = call()
        if self._forwards is not None:
            self._forwards.append((output[0].detach(), None if output[1] is None else output[1].detach()))
        return output

    def _on_generation(self, call: Call, _: Given) -> Any:
        if not self._trainer.model.training:
            return call()
        self._scored, self._forwards = {}, []
        try:
            output = call()
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

    def _on_loss(self, call: Call, given: Given) -> Any:
        if not self._trainer.model.training:
            return call()
        self._forwards = []
        try:
            loss = call()
            self._guard(self._keep_micro_batch, given, self._forwards)
        finally:
            self._forwards = None
        return loss

    def _keep_micro_batch(self, given: Given, forwards: list[Any]) -> None:
        inputs = given()["inputs"]
        if self._generation is None or INDEX not in inputs:
            return  # generated before the recorder was attached
        logps, entropies = forwards[0]
        part = MicroBatch.of(
            self._generation,
            inputs,
            logps=logps,
            entropies=entropies,
            update=self._trainer.state.global_step + 1,
            place=self._first_micro_batch + len(self._pending),
        )
        self._pending.append(part)

    def _finish_update(self, step: int) -> None:
        """Take the micro-batches of an update once the optimiser has."""
        self._finished += [part.on_cpu() for part in self._pending]
        self._pending.clear()
        batches_until_new = self._trainer.args.steps_per_generation * self._trainer.num_iterations
        if step - self._flushed >= self._flush_steps and self._trainer._step % batches_until_new == 0:
            self._flushed = step
            self.flush()
        elif sum(part.places for part in self._finished) >= _MOST_PLACES:
            self._make_rows()

    def _make_rows(self) -> None:
        """Hand all finished updates to the writer."""
        parts, self._finished = self._finished, []
        if parts:
            self._writer.write(rows_of(parts))

    def _keep_metrics(self, step: int, logs: dict[str, Any]) -> None:
        if self._main:
            self._metrics.add(step, logs)


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
