"""Do two runs begin from one policy, and sample it alike?"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from audit.analyses.findings import Cause, Effect, Looked, Unseen, evidence_of, finding
from audit.analyses.kl_estimates_start import NOISE, SAME, Start, start
from audit.analyses.pair import Pair, sure
from audit.analyses.sharper import sharper
from audit.facts.rows import RunRows
from audit.facts.tokenpass.text_key import NO_TEXT

LEAST_TEXTS = 3
"""Texts sampled by both runs at their first step that must disagree; heuristic."""
MANY = 10
"""The same where too few texts came up twice in a run, so that its noise is not known; heuristic."""
REPEATS = 3.0
"""How much more texts must differ between the runs than within one; heuristic."""
LEAST_LEVEL = 0.03
"""Difference in mean log-prob per token, nats, that is more than luck makes; heuristic."""
FACTOR = 1.05
"""The same as a factor; heuristic."""
Texts = dict[tuple[int, int, int], tuple[float, float, int]]
"""Mean log-prob per token of the policy and of the reference, and the row, by prompt, text and number of loss
tokens."""

SAMPLING_OR_MODEL = {"model.init", "model.reference", "sampling.temperature", "sampling.support"}
"""Causes by which runs sample otherwise from the start."""
OTHER_TOKENS = {"tokens.mask", "tokens.retokenised"}
"""Causes by which means per token are over other tokens."""
KL_LEAST, KL_FACTOR = 1e-3, 3.0
"""KL to the reference at the first step: what counts, and how much more of it; heuristic."""


def start_causes(pair: Pair, known: Collection[str]) -> Looked:
    """Compare the policies of the first steps, on equal texts, against the reference, and as they sample.

    Parameters
    ----------
    known : collection of str
        Cause ids that were found already: a reference that differs explains a KL that does.
    """
    found = Looked()
    if pair.first is None:
        needs = "two logs that begin at the same step"
        found.unseen += [Unseen(id_, needs) for id_ in ("model.init", "sampling.temperature")]
        return found
    gap = _same_texts(pair, found, told=bool({"model.reference", "sampling.temperature"} & set(known)))
    init = gap is not None and gap > NOISE
    levels = _levels(pair, found)
    moved = [effect for effect in levels if sure(effect, least=LEAST_LEVEL, factor=FACTOR)]
    differs = _reference_gap(pair, found, known, sampled_alike=not moved) or init
    if moved and not differs and not (SAMPLING_OR_MODEL | OTHER_TOKENS) & set(known):
        _temperature(found, moved[0], same_policy=gap is not None)
    return found


def _same_texts(pair: Pair, found: Looked, *, told: bool) -> float | None:
    """Median |log-prob gap| per token on texts that both runs sampled at their first step.

    With ``told``, the reference log-probs of equal texts differ as well: where the policy's move by as much,
    one change (of the base model, template or tokeniser) explains both, and is told once.
    """
    lacking = pair.lacking("token_ids", "logp_old")
    if lacking:
        found.unseen.append(Unseen("model.init", lacking))
        return None
    said: list[Texts] = []
    for side, rows in enumerate(pair.sides):
        said.append(_first_texts(rows, pair.prompts[side], pair.trained[side] & (rows.step == pair.first)))
    shared = [key for key in said[0] if key in said[1]]
    if len(shared) < LEAST_TEXTS:
        needs = f"{LEAST_TEXTS} texts that both runs sampled at their first step ({len(shared)} here)"
        found.unseen.append(Unseen("model.init", needs))
        return None
    gaps = np.array([said[1][key][0] - said[0][key][0] for key in shared])
    noise = _repeats(pair)
    middle = float(np.median(np.abs(gaps)))
    a, b = (float(np.mean([s[key][0] for key in shared])) for s in said)
    effect = Effect("log-prob of equal texts at the first step", a, b, b - a, None, None, [len(shared)] * 2)
    found.measured.append(effect)
    beyond = middle > NOISE and (len(shared) >= MANY if noise is None else middle > REPEATS * noise)
    if beyond and not (told and _moves_with_reference(said[0], said[1], shared)):
        at = [[s[key][2] for key in shared] for s in said]
        found.causes.append(_other_policy(pair, effect, middle, (at[0], at[1])))
    return middle if beyond or middle <= NOISE else None


def _other_policy(pair: Pair, effect: Effect, middle: float, at: tuple[list[int], list[int]]) -> Cause:
    """What equal texts with other log-probs at the first step come from; ``at`` are their rows."""
    texts = (
        f"At the first step {effect.n[0]} texts that both runs sampled have other log-probs in B (median gap "
    )
    texts += f"{middle:.3g} nats per token)"
    colder = sharper(pair.sides, at, ("logp_old", "logp_old"))
    if colder is None:
        summary = f"{texts}: other weights, another template, or a temperature in one."
        return finding("model.init", 0.85, summary, evidence_of(effect, median_gap=middle))
    summary = (
        f"{texts}, and {colder.told}: the same policy at a temperature {colder.factor:.2f} times lower in "
        f"{'AB'[colder.colder]}."
    )
    evidence = evidence_of(effect, tokens=colder.tokens, pairs=colder.pairs, factor=colder.factor)
    return finding("sampling.temperature", colder.sure(0.85), summary, evidence)


def _repeats(pair: Pair) -> float | None:
    """Median spread of the log-prob per token of a text that a run sampled twice at its first step.

    One policy gives one text one log-prob; None where too few texts came up twice.
    """
    spreads: list[float] = []
    for side, rows in enumerate(pair.sides):
        if rows.facts is None:
            continue
        loss, keys = rows.facts["loss_tokens"].astype(float), rows.facts["text_key"]
        use = pair.trained[side] & (rows.step == pair.first) & (loss > 0) & (keys != NO_TEXT)
        logp = rows.facts["logp_old"][use] / loss[use]
        _, at = np.unique(np.column_stack([pair.prompts[side][use], keys[use]]), axis=0, return_inverse=True)
        order = np.argsort(at.reshape(-1), kind="stable")
        same = np.diff(at.reshape(-1)[order]) == 0
        spreads += np.abs(np.diff(logp[order]))[same].tolist()
    return float(np.median(spreads)) if len(spreads) >= LEAST_TEXTS else None


def _first_texts(rows: RunRows, prompt: np.ndarray, use: np.ndarray) -> Texts:
    """Mean log-prob per token under the policy and under the reference, of each text."""
    facts = rows.facts
    if facts is None:
        return {}
    loss = facts["loss_tokens"].astype(float)
    empty = np.full(len(loss), np.nan)
    logp = np.divide(facts["logp_old"], loss, out=empty.copy(), where=loss > 0)
    ref = np.divide(facts["logp_ref"], loss, out=empty, where=loss > 0) if rows.has("logp_ref") else empty
    keys = facts["text_key"]
    use = use & np.isfinite(logp) & (keys != NO_TEXT)
    return {
        (int(prompt[at]), int(keys[at]), int(loss[at])): (float(logp[at]), float(ref[at]), int(at))
        for at in np.flatnonzero(use)
    }


def _moves_with_reference(a: Texts, b: Texts, shared: list[tuple[int, int, int]]) -> bool:
    gaps = np.array([np.subtract(b[key][:2], a[key][:2]) for key in shared])
    return bool(np.nanmedian(gaps[:, 0] - gaps[:, 1]) ** 2 <= (0.5 * np.nanmedian(gaps[:, 1])) ** 2)


def _levels(pair: Pair, found: Looked) -> list[Effect]:
    """Mean log-prob and entropy of what the first steps sampled, on prompts that both drew."""
    use = (pair.early[0] & pair.seen_by_both[0], pair.early[1] & pair.seen_by_both[1])
    measured = []
    for column, name in (
        ("logp_old", "log-prob of the samples at the start"),
        ("entropy", "entropy at the start"),
    ):
        if pair.lacking(column) or any(rows.facts is None for rows in pair.sides):
            continue
        of = []
        for rows in pair.sides:
            assert rows.facts is not None
            of.append((rows.facts[column], rows.facts["loss_tokens"].astype(float)))
        effect = pair.share(name, (of[0], of[1]), use)
        if effect is not None:
            measured.append(effect)
    if not measured:
        needs = pair.lacking("logp_old") or "a prompt that both runs drew in their first steps"
        found.unseen.append(Unseen("sampling.temperature", needs))
    found.measured += measured
    return measured


def _reference_gap(pair: Pair, found: Looked, known: Collection[str], *, sampled_alike: bool) -> bool:
    """Whether the KL to the reference at the first step differs."""
    if pair.lacking("logp_ref", "logp_old") or any(rows.facts is None for rows in pair.sides):
        found.unseen.append(Unseen("model.reference", pair.lacking("logp_ref", "logp_old") or "token lists"))
        return False
    sides = [start(rows, "old", use) for rows, use in zip(pair.sides, pair.trained, strict=True)]
    a, b = sides
    if a is None or b is None:
        return False
    effect = _kl_effect(pair, a, b)
    if effect is None:
        return False
    found.measured.append(effect)
    low, high = sorted([abs(a.k3.value or 0.0), abs(b.k3.value or 0.0)])
    sizes = sorted([a.size.value or 0.0, b.size.value or 0.0])
    apart = sizes[1] > NOISE and sizes[1] > KL_FACTOR * max(sizes[0], SAME)
    if not (sure(effect, least=KL_LEAST) and high > KL_FACTOR * low and apart):
        if low > KL_LEAST:
            found.notes.append("In both runs the reference is not the policy of the first step.")
        return False
    explained = {"model.reference", "model.init", "sampling.temperature"}
    if explained & {*known, *(cause.id for cause in found.causes)}:
        return True
    id_ = "model.reference" if sampled_alike else "model.init"
    what = (
        "both sample alike at the start, so the reference is the likelier one to differ"
        if sampled_alike
        else "they do not sample alike at the start either, so the weights that they begin from differ"
    )
    summary = (
        f"At the first step the KL to the reference is {a.k3.value:.3g} in A and {b.k3.value:.3g} in B; "
        f"{what}."
    )
    found.causes.append(finding(id_, 0.7, summary, evidence_of(effect, states=[a.state, b.state])))
    return True


def _kl_effect(pair: Pair, a: Start, b: Start) -> Effect | None:
    of, use = [], []
    for rows, trained, at in zip(pair.sides, pair.trained, (a, b), strict=True):
        assert rows.facts is not None
        of.append((rows.facts["kl_old_ref_k3"], rows.facts["loss_tokens"].astype(float)))
        use.append(trained & (rows.step == at.step))
    return pair.share("KL to the reference at the first step, k3", (of[0], of[1]), (use[0], use[1]))


def _temperature(found: Looked, effect: Effect, *, same_policy: bool) -> None:
    why = (
        "equal texts have equal log-probs, so the policy is one and its sampling differs"
        if same_policy
        else "that the policies are one is assumed: no text was sampled by both"
    )
    summary = (
        f"On the same prompts {effect.name} is {effect.a:.3g} nats per token in A and {effect.b:.3g} in B; "
        f"{why}."
    )
    found.causes.append(
        finding("sampling.temperature", 0.85 if same_policy else 0.6, summary, evidence_of(effect))
    )
