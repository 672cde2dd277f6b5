"""The OpenRLHF recorder on OpenRLHF's own ``Experience``, advantages and split for the actors."""

from __future__ import annotations

import warnings
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from recorders.openrlhf_experiences import Maker, Trainer, group_norm, options, samples
from recorders.rows_read import read_rows

from audit.recorders.openrlhf import record
from conformance.openrlhf_cases import openrlhf

pytestmark = pytest.mark.filterwarnings("ignore")
EXTRA = {"reward__overlong_buffer_len": 3, "reward__overlong_penalty_factor": 0.5}


def experience_of() -> Any:
    """Their class; attributes that only a stand-in has would be refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        openrlhf()
        from openrlhf.trainer.ppo_utils.experience import Experience
    return Experience


def estimator(args: Any) -> Any:
    """Their ``compute_advantages_and_returns`` without its workers."""
    lib = openrlhf()
    maker = SimpleNamespace(
        strategy=SimpleNamespace(args=args),
        kl_ctl=SimpleNamespace(value=args.algo.kl.init_coef),
        advantage_estimator=args.algo.advantage.estimator,
    )
    for name in ("get_cumulative_returns", "get_advantages_and_returns"):
        setattr(maker, name, getattr(lib.maker, name).__get__(maker))
    return lambda experiences: lib.maker.compute_advantages_and_returns(maker, experiences)


class Split(Trainer):
    """Splits experiences with their own function before the actors get them."""

    def train_step(self, rollout_samples: list[Any], global_step: int) -> Any:
        from openrlhf.trainer.ppo_utils.experience import split_experience_batch

        for experience in self.experience_maker.make_experience_batch(rollout_samples):
            split_experience_batch(experience)
        return {"policy_loss": 0.25}, global_step + 1


def rows(run_dir: Path, batch: list[Any], args: Any, estimate: Any) -> list[dict[str, Any]]:
    trainer = Split(args, Maker(estimate))
    with record(trainer, run_dir) as recorder:
        trainer.fit([batch])
    assert recorder.failure is None
    return read_rows(run_dir)


def test_the_stand_in_has_only_what_an_experience_has() -> None:
    own = {field.name for field in fields(experience_of())}
    assert set(vars(samples(0)[0])) <= own


def test_their_advantages_and_the_stand_ins_make_the_same_rows(tmp_path: Path) -> None:
    args = options()
    theirs = rows(tmp_path / "theirs", samples(0, experience_of()), args, estimator(args))
    ours = rows(tmp_path / "ours", samples(0, experience_of()), args, group_norm)
    assert len(theirs) == len(ours) > 0
    for one, other in zip(theirs, ours, strict=True):
        assert one.pop("advantage") == pytest.approx(other.pop("advantage"), rel=1e-5)
        assert one == other


@pytest.mark.parametrize("name", ["rloo", "reinforce_baseline", "gae", "dr_grpo"])
def test_every_estimator_is_recorded_as_it_was_used(name: str, tmp_path: Path) -> None:
    args = options(algo__advantage__estimator=name, algo__kl__init_coef=0.1, **EXTRA)
    batch = samples(0, experience_of())
    for e in batch:
        e.values = torch.rand(e.action_mask.shape) if name == "gae" else None
    before = [e.rewards.clone() for e in batch]
    kept = []

    def keep(experiences: Any) -> Any:
        made = estimator(args)(experiences)
        kept.extend((e.advantages.clone(), e.action_mask.clone()) for e in made)
        return made

    found = rows(tmp_path / "run", batch, args, keep)
    assert [row["reward"] for row in found] == torch.cat(before).tolist()
    used = [
        [a for a, m in zip(row, mask, strict=True) if m]
        for advantages, masks in kept
        for row, mask in zip(advantages.tolist(), masks.tolist(), strict=True)
    ]
    for row, expected in zip(found, used, strict=True):
        logged = row["token_advantage"]
        trained = [a for a, m in zip(logged, row["loss_mask"], strict=True) if m]
        assert trained == pytest.approx(expected)
