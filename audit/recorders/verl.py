"""Record what verl trains on: one line before ``trainer.fit()``, or one call a step in a loop of one's own.

Read: verl 0.9.1, verl/trainer/ppo/ray_trainer.py (``RayPPOTrainer``, one ``DataProto`` a step) and
v1/trainer_base.py (``PPOTrainer``, whose batches lie in TransferQueue). ``_update_actor`` of the trainer is
wrapped; the call and its result stay as they are. The driver has the whole batch, so one process writes it.

What the driver does not have: the log-probs of each forward pass of the update, and which rows each
optimiser step took. Where a step is one update (``ppo_mini_batch_size = train_batch_size``, ``ppo_epochs =
1``), old and current log-probs are of the same weights, and ``logp_theta`` holds the old ones; else it is
absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from audit.errors import AuditError
from audit.importers.verl import OPTIONS
from audit.recorders.batch_log import BatchLog
from audit.recorders.configs import declared, of_object
from audit.recorders.verl_queue import fetch
from audit.recorders.verl_rows import rows_of

_ONE = "One update a step: old_log_probs stand for the current log-probs too, which are of the same weights."
_SEVERAL = (
    "{updates} updates a step, by {epochs} passes over mini-batches of {mini} of {size} responses: which "
    "rows each took, and log-probs between them, are in the workers only. Rows stand for the whole step."
)


def record(
    trainer: Any, run_dir: str | Path, *, run_id: str | None = None, flush_steps: int = 1
) -> VerlRecorder:
    """Attach a recorder to verl's trainer, before ``trainer.fit()``.

    Writes ``run.json`` at once, then after each update of the actor ``rollouts/`` (a row per response) and
    ``metrics/`` (what the actor logged). Steps of critic warm-up, which train no policy, are not recorded.

    Parameters
    ----------
    trainer : verl RayPPOTrainer or PPOTrainer
        Where it is made, in ``TaskRunner.run`` of ``verl/trainer/main_ppo.py`` or your copy of it.
    run_dir : path
        New directory of this run, on a disk that outlives the job.
    run_id : str, optional
        Default: the name of ``run_dir``.
    flush_steps : int
        Finish a file after so many steps; a killed run loses what came after the last one.

    Raises
    ------
    AuditError
        The trainer is not one of those above.
    BadLog
        ``run_dir`` already holds rollouts: resume a run into a directory of its own.

    Examples
    --------
    >>> from audit.recorders.verl import record
    >>> record(trainer, "logs/grpo-seed1")  # doctest: +SKIP
    >>> trainer.fit()  # doctest: +SKIP
    """
    # verl sets its counter of steps when fit begins.
    missing = next((name for name in ("_update_actor", "config") if not hasattr(trainer, name)), None)
    if missing is not None:
        msg = (
            f"{type(trainer).__name__} has no {missing}: the recorder follows verl's RayPPOTrainer and "
            f"PPOTrainer (0.9). In a loop of your own call VerlRecorder.record_batch after each update."
        )
        raise AuditError(msg)
    recorder = VerlRecorder(
        run_dir,
        config=trainer.config,
        tokenizer=getattr(trainer, "tokenizer", None),
        run_id=run_id,
        flush_steps=flush_steps,
    )
    recorder.attach(trainer, "_update_actor", partial(recorder.keep, trainer))
    return recorder


class VerlRecorder(BatchLog):
    """Writes batches of verl; made by :func:`record`, or by hand for a loop of one's own.

    Parameters
    ----------
    run_dir : path
        New directory of this run.
    config : Mapping or OmegaConf node
        verl's config (``algorithm``, ``actor_rollout_ref``, ``data``, …).
    tokenizer : optional
        Adds texts and finish reasons.
    rank : int
        Number of this process, where several record parts of a batch: each writes files of its own.
    """

    def __init__(
        self,
        run_dir: str | Path,
        *,
        config: Any,
        tokenizer: Any = None,
        run_id: str | None = None,
        rank: int = 0,
        flush_steps: int = 1,
    ) -> None:
        directory = Path(run_dir)
        self._tokenizer = tokenizer
        self._one_update, note = _updates(config)
        manifest = declared(
            "verl", _version(), config, run_id=run_id or directory.name, options=OPTIONS, notes=note
        )
        super().__init__(directory, manifest, rank=rank, flush_steps=flush_steps)

    def record_batch(self, batch: Any, step: int, metrics: Mapping[str, Any] | None = None) -> None:
        """Append one batch after its update; if that fails, recording stops with a warning.

        Parameters
        ----------
        batch : verl.DataProto
            With ``advantages``; see :func:`audit.recorders.verl_rows.rows_of`.
        step : int
            verl's ``global_steps``.
        metrics : Mapping, optional
            What was logged at this step; numbers, and lists of numbers as workers return them.
        """
        self.guard(self._add, batch, step, metrics or {})

    def _add(self, batch: Any, step: int, metrics: Mapping[str, Any]) -> None:
        rows = rows_of(batch, step, tokenizer=self._tokenizer, one_update=self._one_update)
        self.add(rows, step, _reduced(metrics))

    def keep(self, trainer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Append what ``_update_actor`` got and gave."""
        batch = args[0] if args else kwargs["batch"]
        if hasattr(batch, "non_tensor_batch"):
            metrics = getattr(output, "meta_info", {}).get("metrics", {})
        else:
            metrics = args[1] if len(args) > 1 else kwargs.get("metrics", {})
            batch = fetch(batch)
        self._add(batch, trainer.global_steps, metrics)


def _updates(config: Any) -> tuple[bool, str | None]:
    """Whether a step is one optimiser step of all responses, and a note for run.json."""
    epochs = of_object(config, "actor_rollout_ref.actor.ppo_epochs") or 1
    mini = of_object(config, "actor_rollout_ref.actor.ppo_mini_batch_size")
    size = of_object(config, "data.train_batch_size")
    n = of_object(config, "actor_rollout_ref.rollout.n") or 1
    if not isinstance(mini, int) or not isinstance(size, int):
        return False, None
    if of_object(config, "algorithm.rollout_correction.bypass_mode"):
        # Old log-probs are the sampler's.
        return False, None
    if mini >= size and epochs == 1:
        return True, _ONE
    updates = epochs * max(1, size // mini)
    return False, _SEVERAL.format(updates=updates, epochs=epochs, mini=mini * n, size=size * n)


def _reduced(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Reduce values of workers as verl's ``reduce_metrics`` does: by the name, else their mean."""
    found = {}
    for name, value in metrics.items():
        whole = value.aggregate() if hasattr(value, "aggregate") else value
        try:
            numbers = np.asarray(whole, dtype=np.float64)
        except (TypeError, ValueError):
            continue
        if numbers.size and numbers.dtype.kind == "f":
            how = np.max if "max" in name else np.min if "min" in name else np.mean
            found[name] = float(how(numbers))
    return found


def _version() -> str | None:
    try:
        return version("verl")
    except PackageNotFoundError:
        return None
