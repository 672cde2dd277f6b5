"""Do the same tokens train? Masks, and texts that were cut into other tokens."""

from __future__ import annotations

import numpy as np
import xxhash

from audit.analyses.evidence_rows import evidence_rows
from audit.analyses.findings import Looked, Unseen, evidence_of, finding
from audit.analyses.pair import Pair, sure
from audit.facts.rows import RunRows
from audit.facts.tokenpass.text_key import NO_TEXT

LEAST_SHARE = 0.005
"""Difference in the share of masked tokens that is a cause; heuristic."""
LEAST_CUT = 0.2
"""Difference in the share of truncated responses that take no loss; heuristic."""
LEAST_ENDED = 20
"""Responses that ended by themselves that each run must have; heuristic."""
ALL_FULL, HALF_FULL = 0.99, 0.5
"""Share of them with the largest length that is padding, and that is not; heuristic."""
LEAST_TEXTS = 3
"""Texts that must have other ids before a tokeniser is blamed; heuristic."""
LEAST_OTHER = 0.01
"""Share of the shared texts that must; heuristic."""


def token_causes(pair: Pair) -> Looked:
    """Compare masks and tokenisation."""
    found = _mask(pair)
    padded = _padded(pair)
    found.add(padded)
    if not padded.causes:
        found.add(_retokenised(pair))
    return found


def _padded(pair: Pair) -> Looked:
    """Responses that ended by themselves, all of one length, the largest: what follows the end is counted."""
    found = Looked()
    if any(rows.facts is None or rows.truncated is None for rows in pair.sides):
        return found
    lengths = [_fact(rows, "loss_tokens") for rows in pair.sides]
    ended = [t & ~rows.truncated for rows, t in zip(pair.sides, pair.trained, strict=True)]  # type: ignore[operator]
    counts = [int(e.sum()) for e in ended]
    if min(counts) < LEAST_ENDED:
        return found
    full = [float((n[e] == n.max()).mean()) for n, e in zip(lengths, ended, strict=True)]
    alone = [share >= ALL_FULL for share in full]
    if all(alone):
        found.notes.append("In both runs every response has the largest length, ended by itself or not.")
    elif any(alone) and min(full) < HALF_FULL:
        side = alone.index(True)
        summary = (
            f"{full[side]:.0%} of {'AB'[side]}'s {counts[side]:,} responses that ended by themselves take "
            f"loss on {int(lengths[side].max())} tokens, the largest number there is; in the other run "
            f"{min(full):.0%} do: padding after the end is taken for response."
        )
        evidence = {
            "kind": "padding",
            "a": full[0],
            "b": full[1],
            "difference": full[1] - full[0],
            "n": counts,
        }
        found.causes.append(finding("tokens.mask", 0.9, summary, evidence))
    return found


def _mask(pair: Pair) -> Looked:
    found = Looked()
    lacking = pair.lacking("loss_mask")
    if lacking or any(rows.facts is None for rows in pair.sides):
        found.unseen.append(Unseen("tokens.mask", lacking or "token lists"))
        return found
    tokens = [_fact(rows, "tokens").astype(float) for rows in pair.sides]
    masked = [t - _fact(rows, "loss_tokens") for rows, t in zip(pair.sides, tokens, strict=True)]
    cut = [rows.truncated for rows in pair.sides]
    whole = [trained if c is None else trained & ~c for trained, c in zip(pair.trained, cut, strict=True)]
    of = ((masked[0], tokens[0]), (masked[1], tokens[1]))
    name = "share of masked tokens" + ("" if cut[0] is None else ", responses that ended by themselves")
    share = pair.share(name, of, (whole[0], whole[1]))
    if share is not None:
        found.measured.append(share)
        if sure(share, least=LEAST_SHARE):
            side = int((share.difference or 0.0) > 0)
            score = np.divide(
                masked[side], tokens[side], out=np.zeros_like(tokens[side]), where=tokens[side] > 0
            )
            summary = f"{share.a or 0:.1%} of A's and {share.b or 0:.1%} of B's response tokens take no loss."
            named = evidence_rows(pair.sides[side], score, whole[side])
            found.causes.append(finding("tokens.mask", 0.9, summary, evidence_of(share, rows=named)))
    if cut[0] is None or cut[1] is None:
        return found
    none = [((m == t) & (t > 0)).astype(float) for m, t in zip(masked, tokens, strict=True)]
    ones = [np.ones_like(t) for t in tokens]
    among = (pair.trained[0] & cut[0], pair.trained[1] & cut[1])
    left_out = pair.share(
        "share of truncated responses without loss", ((none[0], ones[0]), (none[1], ones[1])), among
    )
    if left_out is not None:
        found.measured.append(left_out)
        if sure(left_out, least=LEAST_CUT):
            summary = (
                f"{left_out.a or 0:.0%} of A's and {left_out.b or 0:.0%} of B's truncated responses take no "
                "loss: being cut is punished or rewarded in one run alone."
            )
            found.causes.append(finding("tokens.mask", 0.9, summary, evidence_of(left_out)))
    return found


def _retokenised(pair: Pair) -> Looked:
    found = Looked()
    lacking = pair.lacking("response", "token_ids")
    if lacking:
        found.unseen.append(Unseen("tokens.retokenised", lacking))
        return found
    ids = [_ids_of_texts(rows, codes) for rows, codes in zip(pair.sides, pair.prompts, strict=True)]
    shared = [text for text in ids[0] if text in ids[1]]
    if len(shared) < LEAST_TEXTS:
        needs = f"{LEAST_TEXTS} texts that both runs sampled ({len(shared)} here)"
        found.unseen.append(Unseen("tokens.retokenised", needs))
        return found
    # A policy may spell one text in several ways: only texts without a common spelling count.
    other = [text for text in shared if not ids[0][text] & ids[1][text]]
    loose = sum(len(ids[side][text]) > 1 for text in shared for side in (0, 1)) / (2 * len(shared))
    if len(other) < LEAST_TEXTS or len(other) < LEAST_OTHER * len(shared) or len(other) < loose * len(shared):
        return found
    summary = (
        f"{len(other)} of {len(shared)} texts that both runs sampled have other token ids in B: another "
        "tokeniser or template, or text that was cut into tokens again."
    )
    evidence = {"texts": len(shared), "other_ids": len(other), "several_spellings_within_a_run": loose}
    found.causes.append(finding("tokens.retokenised", 0.9, summary, evidence))
    return found


def _ids_of_texts(rows: RunRows, prompt: np.ndarray) -> dict[tuple[int, int, bool], set[int]]:
    """Keys of the token ids that each (prompt, text, whether it was cut) was made of.

    A text that was cut lacks the end token of one that ended there by itself.
    """
    keys = _fact(rows, "text_key")
    cut = rows.truncated if rows.truncated is not None else np.zeros(rows.num_rows, dtype=bool)
    texts = rows.run.responses(["response"])["response"].to_pylist()
    found: dict[tuple[int, int, bool], set[int]] = {}
    for code, key, text, was_cut in zip(prompt.tolist(), keys.tolist(), texts, cut.tolist(), strict=True):
        if text is not None and key != NO_TEXT:
            name = (code, xxhash.xxh3_64_intdigest(text.encode()), was_cut)
            found.setdefault(name, set()).add(key)
    return found


def _fact(rows: RunRows, name: str) -> np.ndarray:
    assert rows.facts is not None
    return rows.facts[name]
