"""Random objectives: any valid composition of the fields."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from audit.objectives.corrections import Correction
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Objective,
    Overlong,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
    from_dict,
)
from audit.objectives.surrogates import (
    DPPO,
    GMPO,
    SAPO,
    VESPO,
    CISPOClip,
    ClipCov,
    KLCov,
    NoClip,
    PPOClip,
    ProbabilityMask,
    Regression,
)

# Bounds with odd digits: no ratio computed from random log-probs, nor the ratio 1, lies exactly on one.
EPSILONS = st.sampled_from([None, 0.0113, 0.0871, 0.2131, 0.4517])
SMALL = st.sampled_from([0.0, 1e-9, 1e-6, 1e-4, 0.3])
ESTIMATORS = st.sampled_from(["k1", "k2", "k3", "abs"])


def often(usual: Any, other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Half of the time the usual value."""
    return st.just(usual) | other


combinations = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "weights": st.sampled_from([{"right": 1.0}, {"right": 0.7, "form": -1.3}]),
            "per_component": st.booleans(),
        }
    ),
)
shapings = st.builds(
    lambda parts, **whole: Shaping(**parts, **({} if parts.get("per_component") else whole)),
    parts=combinations,
    clip=st.sampled_from([None, None, (-0.5, 0.9)]),
    factor=st.sampled_from([1.0, 1.0, 2.5]),
    offset=st.sampled_from([0.0, 0.0, -0.3]),
    overlong=st.none()
    | st.builds(
        Overlong,
        max_length=st.sampled_from([4, 6, 7]),
        cache=st.integers(1, 4),
        penalty=st.sampled_from([1.0, 0.37]),
        capped=st.booleans(),
    ),
)
filters = st.builds(
    Filter,
    dynamic_sampling=st.booleans(),
    zero_advantage=st.booleans(),
    mask_truncated=st.booleans(),
    top_entropy=often(1.0, st.sampled_from([0.2137, 0.5719, 0.9071])),
)
baselines = st.one_of(
    st.builds(
        Baseline,
        kind=st.sampled_from(
            ["none", "group_mean", "leave_one_out", "greedy", "batch_mean", "length_weighted", "runner_up"]
        ),
        singleton=st.sampled_from(["zero", "raw"]),
    ),
    st.builds(Baseline, kind=st.just("pass_at_k"), k=st.integers(1, 3)),
    st.builds(
        Baseline,
        kind=st.just("gae"),
        gamma=st.sampled_from([1.0, 0.9]),
        lam=st.sampled_from([1.0, 0.95, 0.0]),
    ),
    st.just(Baseline(kind="logged")),
)
whitenings = st.builds(
    Whiten,
    level=st.sampled_from(["token", "sequence"]),
    centre=st.booleans(),
    ddof=st.sampled_from([0, 1]),
    epsilon=st.sampled_from([1e-8, 1e-4, 0.3]),
    epsilon_in=st.sampled_from(["std", "variance", "floor"]),
)
scales = st.builds(
    Scale,
    kind=st.sampled_from(
        [
            "none",
            "group_std",
            "leave_one_out_std",
            "batch_std",
            "group_mean",
            "alive_share",
            "nonzero_share",
            "pass_at_k_std",
        ]
    ),
    ddof=st.sampled_from([0, 1]),
    epsilon=SMALL,
    reward_clip=st.sampled_from([None, None, (-0.7177, 0.8171)]),
    whiten=often(None, whitenings),
    clip=st.sampled_from([None, None, (-0.6113, 0.9171)]),
)
some_corrections = st.builds(
    lambda pair, **rest: Correction(numerator=pair[0], against=pair[1], **rest),
    pair=st.sampled_from([("old", "sampler"), ("theta", "sampler"), ("theta", "old")]),
    action=st.sampled_from(["truncate", "mask", "gate"]),
    level=st.sampled_from(["token", "product", "sequence"]),
    low=st.sampled_from([None, 0.0, 0.8713, 0.9719]),
    high=st.sampled_from([None, 1.0413, 1.1871, 2.0]),
    keep_nonnegative=st.booleans(),
    leaves_denominator=st.booleans(),
    weighs_kl=st.booleans(),
)
corrections = often((), st.lists(some_corrections, min_size=1, max_size=2).map(tuple))
ratios = st.one_of(
    st.builds(Ratio, corrections=corrections),
    st.builds(
        Ratio,
        denominator=st.sampled_from(["old", "sampler"]),
        level=st.sampled_from(["token", "sequence", "sequence_token", "product"]),
        clamp=often(None, st.sampled_from([0.0517, 0.3111])),
        corrections=corrections,
    ),
)
hard_clips = st.one_of(
    st.just(NoClip()),
    st.builds(
        PPOClip,
        epsilon_low=EPSILONS,
        epsilon_high=EPSILONS,
        delta=st.sampled_from([None, None, 0.713, 1.0917, 1.913]),
        dual=st.sampled_from([None, None, 0.631, 1.177, 1.521]),
    ),
    st.builds(CISPOClip, epsilon_low=EPSILONS, epsilon_high=EPSILONS, masked=st.booleans()),
    st.builds(CISPOClip, epsilon_high=st.sampled_from([-0.7731, 4.0])),
    st.builds(SAPO, tau_positive=st.sampled_from([1.0, 2.0]), tau_negative=st.sampled_from([1.05, 4.0])),
    st.just(VESPO()),
    st.builds(
        VESPO,
        k_positive=st.sampled_from([0.0, 1.5]),
        lambda_positive=st.sampled_from([0.5, 2.0]),
        k_negative=st.sampled_from([0.0, 2.5]),
        lambda_negative=st.sampled_from([1.0, 3.0]),
    ),
)
OF_ANY_LEVEL = ("none", "ppo", "cispo", "sapo", "vespo")
cov_parts = {"fraction": st.sampled_from([2e-4, 0.1713, 1.0])}
token_clips = st.one_of(
    st.builds(Regression, tau=st.sampled_from([0.0, 0.1, 1.7])),
    st.builds(GMPO, epsilon_low=st.sampled_from([0.0513, 0.4]), epsilon_high=st.sampled_from([0.0871, 0.4])),
    st.builds(
        DPPO,
        divergence=st.sampled_from(["tv", "kl"]),
        delta_low=st.sampled_from([0.0117, 0.2]),
        delta_high=st.sampled_from([0.0091, 0.2]),
        cap=st.sampled_from([None, 0.9713, 3.0]),
    ),
    st.builds(ProbabilityMask, delta=st.sampled_from([0.0117, 0.1])),
    st.builds(
        ClipCov,
        epsilon_low=EPSILONS,
        epsilon_high=EPSILONS,
        low=st.sampled_from([-0.2, 0.05, 1.0]),
        high=st.sampled_from([1.1, 5.0]),
        **cov_parts,
    ),
    st.builds(KLCov, coefficient=st.sampled_from([0.0, 1.0]), **cov_parts),
)
"""Surrogates of token ratios alone, whose denominator is another policy."""


def aggregations() -> st.SearchStrategy[Aggregation]:
    """Every kind in every scope."""
    kinds = [
        "seq-mean-token-mean",
        "token-mean",
        "prompt-mean-token-mean",
        "seq-mean-token-sum",
        "seq-mean-token-sum-norm",
        "token-sum",
        "token-sum-norm",
    ]
    return st.builds(
        lambda kind, scope, constant, rows, epsilon, factor: Aggregation(
            kind=kind,
            scope=scope,
            constant=constant if kind.endswith("-norm") else None,
            rows=rows,
            epsilon=epsilon,
            factor=factor,
        ),
        st.sampled_from(kinds),
        st.sampled_from(["micro_batch", "update", "generation_batch"]),
        st.sampled_from([13.5, "longest"]),
        st.sampled_from(["all", "nonempty"]),
        st.sampled_from([0.0, 1e-8, 0.5]),
        st.sampled_from([1.0, 0.37]),
    )


reward_kls = st.builds(
    lambda form, **rest: RewardKL(
        **rest,
        stage="before_baseline" if form is None else "after_scale",
        form=form or "sum",
    ),
    form=st.sampled_from([None, "sum", "to_go", "token", "centred"]),
    coefficient=st.sampled_from([0.05, 1.3]),
    estimator=ESTIMATORS,
    policy=st.sampled_from(["old", "old", "sampler"]),
)
loss_kls = st.builds(
    lambda gradient, cap, **rest: LossKL(
        gradient=gradient, ratio_cap=cap if gradient == "straight_through" else None, **rest
    ),
    gradient=st.sampled_from(["pathwise", "ratio", "unit_ratio", "straight_through"]),
    cap=st.sampled_from([None, 0.9513, 10.0]),
    coefficient=st.sampled_from([0.04, 1.7]),
    estimator=ESTIMATORS,
    against=st.sampled_from([None, None, "old", "sampler"]),
    input_clamp=often(None, st.sampled_from([0.1171, 0.7113])),
    output_clamp=often(None, st.sampled_from([0.0517, 0.5171])),
    aggregation=often(None, aggregations()),
)
kls = st.builds(KL, reward=often(None, reward_kls), loss=often(None, loss_kls))


@st.composite
def objectives(draw: st.DrawFn, **parts: st.SearchStrategy[Any]) -> Objective:
    """Any valid composition of the fields; ``parts`` are drawn in place of the usual ones."""
    ratio = draw(parts.get("ratio", ratios))
    whole = ratio.level != "token" or ratio.denominator == "theta"
    clip = draw(parts.get("clip", hard_clips if whole else hard_clips | token_clips))
    baseline = draw(parts.get("baseline", baselines))
    scale = draw(parts.get("scale", scales))
    shaping = draw(parts.get("shaping", shapings))
    kl = draw(parts.get("kl", kls))
    if baseline.kind == "logged":
        scale = Scale(clip=scale.clip)
    elif baseline.kind == "gae":
        scale = Scale(whiten=scale.whiten, clip=scale.clip)
    elif scale.kind == "pass_at_k_std" and baseline.kind != "pass_at_k":
        scale = msgspec.structs.replace(scale, kind="none")
    if shaping.per_component and baseline.kind in ("gae", "logged"):
        shaping = Shaping(weights=shaping.weights)
    pays = kl.reward
    if pays is not None and pays.stage == "before_baseline" and shaping.per_component:
        kl = KL(loss=kl.loss)
    if pays is not None and pays.stage == "after_scale" and baseline.kind == "gae" and pays.form != "token":
        kl = KL(loss=kl.loss)
    if scale.whiten is not None and ratio.corrections:
        spared = tuple(msgspec.structs.replace(c, keep_nonnegative=False) for c in ratio.corrections)
        ratio = msgspec.structs.replace(ratio, corrections=spared)
    objective = Objective(
        shaping=shaping,
        filter=draw(parts.get("filter", filters)),
        baseline=baseline,
        scale=scale,
        ratio=ratio,
        clip=clip,
        aggregation=draw(parts.get("aggregation", aggregations())),
        kl=kl,
    )
    return from_dict(objective.to_dict())
