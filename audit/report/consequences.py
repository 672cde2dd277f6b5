"""What each field of an objective does to training, in one line; and what each cause does."""

from __future__ import annotations

from typing import Any

from audit.analyses.findings import Cause
from audit.report.format import number

PARTS = {
    "shaping": "which reward the objective sees",
    "filter": "which responses and tokens train at all",
    "baseline": "what a reward is measured against",
    "scale": "how much easy and hard prompts count",
    "ratio": "how a policy that has moved on is corrected for",
    "clip": "which tokens lose their weight once the policy has moved",
    "aggregation": "how much a token of a long response counts against one of a short",
    "kl": "the pull back to the reference",
}
"""What a part of an objective decides."""

CAUSES = {
    "data.prompts": "the runs train on other questions: their outcomes are not of one task",
    "data.group_size": "other noise in the baseline, and another share of groups without signal",
    "data.reward": "the same text earns another reward: the runs pursue different goals",
    "data.truncation": "another generation budget: what is cut, and how long a response can get",
    "data.grouping": "responses are measured against other responses",
    "sampling.temperature": "other exploration, and log-probs of another distribution",
    "sampling.support": "the tail is cut at another place: what is sampled is not what is trained",
    "model.reference": "the KL pulls to another place",
    "model.init": "the runs start from other weights",
    "tokens.retokenised": "the tokens that train are not the tokens that were sampled",
    "tokens.mask": "other tokens take the loss",
    "numerics.mismatch": "the sampler's log-probs are not the trainer's: off-policy from the start",
    "numerics.precision": "ratios carry the rounding noise of another precision",
    "staleness": "responses come from older policies, and more tokens meet the clip",
    "optimiser": "the same weights make another step",
    "logging": "the logs record differently; the runs themselves may not differ",
}
"""What a cause outside of the objective does."""

FIELDS = {
    "shaping.weights": "the reward is another mixture of its components",
    "shaping.per_component": "each component is normalised alone: a rare one weighs as much as a common one",
    "shaping.clip": "rewards beyond the bounds count as the bound: outliers lose their pull",
    "shaping.factor": "the reward in another unit: matters where nothing divides it by its own spread",
    "shaping.offset": "moves every reward alike: a baseline of the group takes it out again",
    "shaping.overlong": "long responses pay before the baseline is taken: length is penalised on purpose",
    "shaping.overlong.max_length": "the length at which the penalty is complete",
    "shaping.overlong.cache": "how far below that length the penalty begins",
    "shaping.overlong.penalty": "how much reward an overlong response loses",
    "shaping.overlong.capped": "without a cap the penalty goes on growing beyond the maximum length",
    "filter.dynamic_sampling": "groups without signal leave the batch, so the others weigh more",
    "filter.zero_advantage": "responses without advantage leave the counts, so the others weigh more",
    "filter.top_entropy": "only tokens where the policy hesitates train; the counts stay as they are",
    "filter.mask_truncated": "cut-off responses take no loss: being cut is neither rewarded nor punished",
    "baseline.kind": "another baseline, another variance; leave-one-out also scales by G / (G - 1)",
    "baseline.k": "the larger k, the more only the hardest prompts count",
    "baseline.gamma": "rewards further away count less",
    "baseline.lam": "less of the return and more of the critic: less variance, more bias",
    "baseline.singleton": "a group of one has no baseline: its raw reward trains, or nothing does",
    "scale.kind": "dividing by the std: prompts near 0 or 100 % success weigh more, and KL relatively less",
    "scale.ddof": "ddof 1 makes every std larger: all weights shrink by one factor, less so in large groups",
    "scale.epsilon": "matters only where the std is as small as epsilon: it damps nearly uniform groups",
    "scale.reward_clip": "centred rewards beyond the bounds count as the bound, before KL and whitening",
    "scale.whiten": "advantages are standardised over the batch: a group's push depends on other groups",
    "scale.whiten.level": "by tokens, long responses set the mean and the spread; by responses, all alike",
    "scale.whiten.centre": "centring gives groups without signal an advantage that is not 0",
    "scale.whiten.ddof": "a factor close to 1 on every advantage",
    "scale.whiten.epsilon": "matters only where the spread of the batch is as small",
    "scale.whiten.epsilon_in": "matters only where the spread of the batch is as small as epsilon",
    "scale.clip": "finished advantages beyond the bounds count as the bound",
    "ratio.denominator": "'sampler' also corrects for the inference engine; 'theta' corrects for nothing",
    "ratio.level": "one ratio per response moves all its tokens together; per token each is judged alone",
    "ratio.clamp": "tokens whose log-ratio is beyond the bound get no gradient",
    "ratio.corrections": "tokens that the sampler saw otherwise weigh less, or not at all",
    "clip.kind": "PPO's clip removes tokens beyond the bound; CISPO caps their weight and keeps them",
    "clip.epsilon_low": "a wider lower bound lets punished tokens fall further before they drop out",
    "clip.epsilon_high": "a wider upper bound lets rewarded rare tokens grow further before they drop out",
    "clip.masked": "tokens that PPO's clip would remove are removed here too",
    "clip.tau_positive": "the larger, the faster a rewarded token is damped as it drifts",
    "clip.tau_negative": "the larger, the faster a punished token is damped as it drifts",
    "clip.k_positive": "how fast rewarded responses fade as their probability falls",
    "clip.lambda_positive": "how fast rewarded responses fade as their probability grows",
    "clip.k_negative": "how fast punished responses fade as their probability falls",
    "clip.lambda_negative": "how fast punished responses fade as their probability grows",
    "clip.tau": "the larger, the harder every token is pulled back to the old policy",
    "clip.divergence": "what counts as moved: the probability itself, or a KL that is strict on rare tokens",
    "clip.delta_low": "how far the probability of a punished token may fall before it drops out",
    "clip.delta_high": "how far the probability of a rewarded token may grow before it drops out",
    "clip.cap": "the largest ratio that counts",
    "clip.fraction": "how many of the tokens that lower the entropy most are held back",
    "clip.low": "covariance from which tokens may be drawn",
    "clip.high": "covariance up to which tokens may be drawn",
    "clip.coefficient": "how hard the chosen tokens are held back",
    "clip.delta": "punished tokens whose ratio exceeds delta drop out: one stale token cannot dominate",
    "clip.dual": "punished tokens whose ratio exceeds the bound drop out",
    "aggregation.kind": "another divisor: it decides whether length changes the weight of a token",
    "aggregation.scope": "what the divisor counts: a micro-batch, an optimiser step or a generation batch",
    "aggregation.constant": "a common factor on every weight: acts as another learning rate",
    "aggregation.rows": "empty responses dilute the mean, or do not count in it",
    "aggregation.epsilon": "matters only where a response or a batch has next to no tokens",
    "aggregation.factor": "a common factor on every weight: acts as another learning rate",
    "kl.reward": "KL in the reward enters the advantage, and is divided by the std where there is one",
    "kl.reward.coefficient": "a stronger pull to the reference, inside the advantage",
    "kl.reward.estimator": "another estimate of the same KL: other variance, other sign per token",
    "kl.reward.stage": "before the baseline KL is divided by the std with the reward; after it is not",
    "kl.reward.policy": "the policy whose drift is charged: the trainer's own, or the sampler's copy of it",
    "kl.reward.form": "the whole response pays, or each token for itself or for what follows",
    "kl.loss": "KL in the loss pulls every token to the reference, whatever its advantage",
    "kl.loss.coefficient": "a stronger pull to the reference, on every token",
    "kl.loss.estimator": "its gradient: k1 none on average, k2 that of reverse KL, k3 that of forward KL",
    "kl.loss.gradient": "with the ratio, k3 has the reverse-KL gradient; without, the forward-KL gradient",
    "kl.loss.against": "the KL pulls to another policy: the reference, the last one, or the sampler",
    "kl.loss.input_clamp": "tokens too far from the reference are not pulled back",
    "kl.loss.output_clamp": "the tokens that the reference wants back most are not pulled at all",
    "kl.loss.ratio_cap": "the most that a drifted token's pull is scaled up",
    "kl.loss.aggregation": "the KL is averaged by another rule than the surrogate",
}
"""What a difference in a field does."""

_VALUES = {
    ("baseline.kind", "none"): "the raw reward",
    ("baseline.kind", "group_mean"): "reward - group mean",
    ("baseline.kind", "leave_one_out"): "reward - mean of the others (unbiased)",
    ("baseline.kind", "greedy"): "reward - reward of the greedy response",
    ("baseline.kind", "batch_mean"): "reward - batch mean (easy prompts are pushed up)",
    ("baseline.kind", "length_weighted"): "reward - mean reward weighted by length",
    ("baseline.kind", "runner_up"): "only the best response, by its lead over the second",
    ("baseline.kind", "pass_at_k"): "how much a response changes the group's pass@k",
    ("baseline.kind", "gae"): "GAE on the critic's values",
    ("baseline.kind", "logged"): "the advantage as logged",
    ("aggregation.kind", "seq-mean-token-mean"): "responses count alike, their tokens share 1/|o|",
    ("aggregation.kind", "token-mean"): "tokens count alike, over their number",
    ("aggregation.kind", "prompt-mean-token-mean"): "prompts count alike, their tokens share one divisor",
    ("aggregation.kind", "seq-mean-token-sum"): "tokens count alike, over the responses",
    ("aggregation.kind", "seq-mean-token-sum-norm"): "tokens count alike, over a constant",
    ("aggregation.kind", "token-sum"): "tokens count alike, undivided",
    ("aggregation.kind", "token-sum-norm"): "tokens count alike, over a constant",
}


def consequence(field: str, a: Any = None, b: Any = None, names: tuple[str, str] = ("A", "B")) -> str:
    """Return what a difference in ``field`` does, in one line; for some fields, what each value does."""
    said = [_VALUES.get((field, value)) for value in (a, b) if isinstance(value, str)]
    if len(said) == 2 and None not in said and said[0] != said[1]:
        return f"{names[0]}: {said[0]}; {names[1]}: {said[1]}"
    parent, _, _ = field.rpartition(".")
    part, _, _ = field.partition(".")
    return FIELDS.get(field) or FIELDS.get(parent) or PARTS.get(part, "")


def cause_in_words(cause: Cause) -> str:
    """Say what a cause does."""
    kind, _, part = cause.id.partition(".")
    if kind != "objective" or part not in PARTS:
        return CAUSES.get(cause.id) or cause.summary
    if cause.share is None:
        return f"{PARTS[part]}; these logs do not say by how much"
    factor = cause.evidence.get("scale_factor")
    size = f"; scales B's weights by {number(factor)}" if isinstance(factor, float) else ""
    if not cause.share:
        size += ", all alike: as another learning rate would"
    return f"{PARTS[part]}{size}"
