"""The verl recorder on verl's own ``DataProto``, advantages, trainer hook and loss."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from recorders.rows_read import read_rows
from recorders.verl_batches import CONFIG, GROUP, PROMPTS, WIDTH, Letters, others, stand_in, tensors

import audit
from audit.logs import open_run
from audit.recorders.verl import record
from audit.recorders.verl_rows import rows_of
from conformance.stubs import replace, stub
from conformance.verl_calls import verl

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def released() -> SimpleNamespace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verl()
        stub("torchdata", "transfer_queue", "uvloop")
        replace("verl.utils.megatron_utils", "verl.workers.engine", "verl.workers.rollout.llm_server")
        from omegaconf import OmegaConf
        from verl import DataProto
        from verl.trainer.ppo import ray_trainer

    return SimpleNamespace(proto=DataProto, trainer=ray_trainer, conf=OmegaConf)


def batch_of(released: SimpleNamespace, seed: int, kl: float = 0.0, order: Any = None) -> Any:
    """A batch as ``fit`` makes it: scores, KL in the reward, advantages, then re-ordered."""
    beside = others(seed)
    data = released.proto.from_dict(
        tensors=tensors(seed), non_tensors=beside, meta_info={"reward_extra_keys": ["acc", "pred"]}
    )
    if order is not None:
        data.reorder(torch.tensor(order))
    if kl:
        control = SimpleNamespace(value=kl, update=lambda **_: None)
        data, _ = released.trainer.apply_kl_penalty(data, kl_ctrl=control, kl_penalty="kl")
    return released.trainer.compute_advantage(
        data, adv_estimator="grpo", num_repeat=GROUP, norm_adv_by_std_in_grpo=True, config={}
    )


def recorded(released: SimpleNamespace, run_dir: Path, batches: list[Any]) -> Any:
    """Record by the hook on verl's own trainer class, whose workers are left out."""

    class Trainer(released.trainer.RayPPOTrainer):
        def __init__(self) -> None:
            self.config = released.conf.create(CONFIG)
            self.tokenizer = Letters()

        def _update_actor(self, batch: Any) -> Any:
            return released.proto.from_single_dict(data={}, meta_info={"metrics": {"actor/pg_loss": [0.5]}})

    trainer = Trainer()
    recorder = record(trainer, run_dir)
    for trainer.global_steps, batch in enumerate(batches, 1):
        trainer._update_actor(batch)
    recorder.close()
    assert recorder.failure is None
    return trainer


def test_the_stand_in_is_what_verl_makes(released: SimpleNamespace) -> None:
    order = np.random.default_rng(0).permutation(PROMPTS * GROUP).tolist()
    for given in (None, order):
        theirs, ours = batch_of(released, 0, order=given), stand_in(0, given)
        assert set(ours.batch) <= set(theirs.batch.keys())
        for name, tensor in ours.batch.items():
            assert torch.allclose(theirs.batch[name].double(), tensor.double(), atol=1e-6), name
        options = {"tokenizer": Letters(), "one_update": True}
        same = rows_of(theirs, 3, **options), rows_of(ours, 3, **options)
        left, right = (rows.drop_columns(["advantage"]).to_pylist() for rows in same)
        assert left == right


def test_a_run_of_verl_is_recorded(released: SimpleNamespace, tmp_path: Path) -> None:
    batches = [batch_of(released, seed, order=list(range(15, -1, -1))) for seed in (0, 1)]
    recorded(released, tmp_path / "run", batches)
    run = open_run(tmp_path / "run")
    assert run.manifest.framework is not None
    assert (run.manifest.framework.name, run.manifest.framework.version) == ("verl", "0.9.1")
    rows = read_rows(tmp_path / "run")
    assert len(rows) == 2 * PROMPTS * GROUP
    for step, batch in enumerate(batches, 1):
        for i, row in enumerate(row for row in rows if row["step"] == step):
            item = batch[i]
            length = int(item.batch["attention_mask"][-WIDTH:].sum())
            assert row["token_ids"] == item.batch["responses"][:length].tolist()
            assert row["logp_sampler"] == item.batch["rollout_log_probs"][:length].tolist()
            assert row["group_id"] == item.non_tensor_batch["uid"]
            trained = item.batch["response_mask"].bool()
            assert row["advantage"] == pytest.approx(float(item.batch["advantages"][trained][0]), rel=1e-6)


def test_rewards_are_those_before_the_kl(released: SimpleNamespace, tmp_path: Path) -> None:
    batch = batch_of(released, 0, kl=0.3)
    assert not torch.equal(batch.batch["token_level_scores"], batch.batch["token_level_rewards"])
    recorded(released, tmp_path / "run", [batch])
    rewards = [row["reward"] for row in read_rows(tmp_path / "run")]
    assert rewards == tensors(0)["token_level_scores"].sum(dim=1).tolist()


def test_the_written_weights_are_the_gradient_of_the_loss_of_verl(
    released: SimpleNamespace, tmp_path: Path
) -> None:
    batch = batch_of(released, 0)
    recorded(released, tmp_path / "run", [batch])
    lib = verl()
    config = lib.actor(
        strategy="fsdp",
        rollout_n=GROUP,
        ppo_mini_batch_size=PROMPTS,
        ppo_micro_batch_size_per_gpu=PROMPTS,
        clip_ratio_low=0.2,
        clip_ratio_high=0.28,
    )
    config.global_batch_info.update(
        dp_size=1,
        batch_num_tokens=int(batch.batch["response_mask"].sum()),
        global_batch_size=PROMPTS * GROUP,
        loss_scale_factor=None,
    )
    theta = batch.batch["old_log_probs"].double().requires_grad_()
    loss = lib.algos.get_policy_loss_fn("vanilla")(
        old_log_prob=batch.batch["old_log_probs"].double(),
        log_prob=theta,
        advantages=batch.batch["advantages"].double(),
        response_mask=batch.batch["response_mask"],
        loss_agg_mode="token-mean",
        config=config,
    )[0]
    (gradient,) = torch.autograd.grad(loss, theta)
    audit.weights(tmp_path / "run", tmp_path / "weights.parquet")
    for i, row in enumerate(pq.read_table(tmp_path / "weights.parquet").to_pylist()):
        found = row["weight"]
        assert found == pytest.approx((-gradient[i, : len(found)]).tolist(), rel=1e-9, abs=1e-15)
