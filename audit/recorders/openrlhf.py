"""Record what OpenRLHF trains on: one line before ``trainer.fit()``.

Read: OpenRLHF 0.11.2, trainer/ppo_trainer.py, ppo_trainer_async.py and ppo_utils/experience_maker.py.
OpenRLHF writes no rollouts itself. Two methods are wrapped: ``compute_advantages_and_returns`` of the
experience maker, where experiences still have their ``index`` and their rewards are still without length
penalties, and ``train_step`` of the trainer, after which the actors have taken them. The calls and their
results stay as they are.

What the driver does not have: the log-probs of each forward pass of the update, and which rows each optimiser
step took. Where a step is one update (``train.batch_size = rollout.batch_size · n_samples_per_prompt``,
``train.max_epochs = 1``), ``logp_theta`` holds the old log-probs; else it is absent. Reference log-probs are
kept by OpenRLHF only with ``algo.kl.use_loss``; with the k1 penalty they follow from the KL of each token.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.errors import AuditError
from audit.recorders.batch_log import BatchLog
from audit.recorders.configs import declared, of_object
from audit.recorders.openrlhf_rows import reference_of, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS = {
    "group_size": "rollout.n_samples_per_prompt",
    "model": "actor.model_name_or_path",
    "seed": "train.seed",
    "sampling.temperature": "rollout.temperature",
    "sampling.top_p": "rollout.top_p",
    "sampling.max_tokens": "rollout.max_new_tokens",
}


def record(
    trainer: Any, run_dir: str | Path, *, run_id: str | None = None, flush_steps: int = 1
) -> OpenRLHFRecorder:
    """Attach a recorder to OpenRLHF's trainer, before ``trainer.fit()``.

    Writes ``run.json`` at once, then after each step ``rollouts/`` (a row per response) and ``metrics/``
    (what the step logged). Steps in which only the critic learns are not recorded.

    Parameters
    ----------
    trainer : openrlhf BasePPOTrainer
        In the process where it lives: ``PPOTrainer`` and ``PPOTrainerAsync``'s trainer are Ray actors, so put
        the line at the start of their ``fit``, or at the end of their ``__init__``.
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
    >>> from audit.recorders.openrlhf import record
    >>> record(trainer, "logs/rloo-seed1")  # doctest: +SKIP
    >>> trainer.fit()  # doctest: +SKIP
    """
    needed = ("experience_maker", "train_step", "args")
    missing = next((name for name in needed if not hasattr(trainer, name)), None)
    if missing is not None:
        msg = f"{type(trainer).__name__} has no {missing}: the recorder follows OpenRLHF's trainers (0.11)."
        raise AuditError(msg)
    return OpenRLHFRecorder(trainer, Path(run_dir), run_id, flush_steps)


class OpenRLHFRecorder(BatchLog):
    """Handle on an attached recorder; made by :func:`record`."""

    def __init__(self, trainer: Any, run_dir: Path, run_id: str | None, flush_steps: int) -> None:
        args = trainer.args
        manifest = declared("openrlhf", _version(), args, run_id=run_id or run_dir.name, options=OPTIONS)
        super().__init__(run_dir, manifest, flush_steps=flush_steps)
        self._trainer = trainer
        self._step = 0
        self._before: tuple[list[Any], list[Any]] | None = None
        self._rows: pa.Table | None = None
        maker = trainer.experience_maker
        self.attach(maker, "compute_advantages_and_returns", self._keep, before=self._look)
        self.attach(trainer, "train_step", self._write, before=self._begin)

    def _begin(self, rollout_samples: Any, global_step: int) -> None:
        del rollout_samples
        self._step, self._rows = global_step + 1, None

    def _look(self, experiences: list[Any]) -> None:
        """Keep what the estimator changes or drops: rewards before penalties, KL of each token."""
        args, maker = self._trainer.args, self._trainer.experience_maker
        derived = (
            getattr(maker, "initial_model_group", None) is not None
            and not of_object(args, "algo.kl.use_loss")
            and of_object(args, "algo.kl.estimator") == "k1"
        )
        references = [reference_of(e.action_log_probs, e.kl) if derived else None for e in experiences]
        self._before = [e.rewards.detach().clone() for e in experiences], references

    def _keep(self, args: tuple[Any, ...], _: dict[str, Any], experiences: list[Any]) -> None:
        # Rows are made at once: the split for the actors takes ``index`` away.
        del args
        options = self._trainer.args
        rewards, references = self._before or (None, None)
        self._before = None
        size = sum(len(e.sequences) for e in experiences)
        self._rows = rows_of(
            experiences,
            self._step,
            group_size=of_object(options, "rollout.n_samples_per_prompt") or 1,
            rewards=rewards,
            references=references,
            tokenizer=getattr(self._trainer, "tokenizer", None),
            one_update=(
                of_object(options, "train.max_epochs") == 1 and of_object(options, "train.batch_size") == size
            ),
            synchronous=not of_object(options, "train.async_enable"),
        )

    def _write(self, args: tuple[Any, ...], _: dict[str, Any], result: Any) -> None:
        del args
        status, step = result
        last_frozen = of_object(self._trainer.args, "critic.freezing_steps")
        if self._rows is None or (last_frozen is not None and step - 1 <= last_frozen):
            return
        scalars = {name: value for name, value in status.items() if isinstance(value, int | float)}
        self.add(self._rows, step, scalars)
        self._rows = None


def _version() -> str | None:
    try:
        return version("openrlhf")
    except PackageNotFoundError:
        return None
