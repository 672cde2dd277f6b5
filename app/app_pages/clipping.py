"""Clipping: what the trust region removed, where, and what another one would have removed."""

from __future__ import annotations

from itertools import zip_longest

import streamlit as st
from audit.app import cached_single, look, parts, single
from audit.app import context as ctx

from audit.analyses.bucket_shares import Bucket
from audit.report import format as fmt
from audit.report.panels import HEIGHT, parts_height, parts_panel, trend_panel
from audit.report.policy_panels import epsilon_panel
from audit.report.text.clipping import TITLES, first_in_words

SHARE = "clip-zeroed share"
context = ctx.current()
listed = ctx.one_run(context)
colour = context.colours[listed.name]
ctx.title("Clipping", listed)
result = parts.or_stop(single.analysed(context, listed, "clipping"))
look.lead(result.verdict)
if result.share is None:
    parts.doubts_and_skips(result.doubts, result.skipped, opened=True)
    st.stop()
whole = result.share.value


def where() -> None:
    """Over steps, and by every part: tall charts beside tall ones, for a card is as high as its neighbour."""
    held = {name: buckets for name in TITLES if len(buckets := result.by.get(name, [])) > 1}
    tall = ["", *sorted(held, key=lambda name: -len(held[name]))]
    with single.cards():
        for pair in zip_longest(tall[::2], tall[1::2]):
            height = max(parts_height(len(held.get(name, ()))) for name in pair)
            for name in pair:
                if name == "":
                    over_steps(max(height, HEIGHT))
                elif name is not None:
                    by(name, held[name], height)
    parts.caption(
        "Dashed: the share of the whole run. Bars and band: 95 %, resampling prompts, the band cut where it "
        "goes far beyond the line; n is in the tooltips."
    )


def over_steps(height: int) -> None:
    """One quantity, the whole run."""
    single.chart_card(
        "Over steps", lambda: trend_panel(result.steps, colour, SHARE, percent=True, height=height), "steps"
    )


def by(name: str, buckets: list[Bucket], height: int) -> None:
    """The same by part."""
    # By side each part is of all tokens: their sum is the whole, and no rule divides them.
    rule = None if name == "side" else whole
    single.chart_card(
        TITLES[name],
        lambda: parts_panel(buckets, colour, SHARE, percent=True, whole=rule, height=height),
        f"by-{name}",
    )


def others() -> None:
    """Counterfactual bounds on the same tokens."""
    curve = cached_single.curve_of_clip(context.root, listed)
    with single.card("Clip-zeroed share at other widths of the band"):
        if isinstance(curve, str):
            parts.say(curve)
        else:
            parts.chart(lambda: epsilon_panel(curve, colour), "Clip-zeroed share over epsilon", "epsilons")
            parts.caption(
                f"PPO's clip to [1 - epsilon, 1 + epsilon] on this run's ratio ({curve.level}), advantages "
                "and tokens; dashed: the run's own. Another band would have sampled other rollouts."
            )
    with single.card("Other trust regions on the same tokens"):
        look.rows(
            [
                {
                    "of": each.objective,
                    "also": ", ".join(each.also[:4])
                    + (f" and {len(each.also) - 4} more" if len(each.also) > 4 else ""),
                    "removes a": each.unit,
                    "clip-zeroed [95 %]": fmt.percent_estimate(each.share),
                    "gradient lost [95 %]": fmt.NOTHING
                    if each.lost is None
                    else fmt.percent_estimate(each.lost),
                    "n": fmt.count(each.share.n),
                }
                for each in result.bounds
            ],
            right=("clip-zeroed [95 %]", "gradient lost [95 %]", "n"),
            whole=("of", "removes a"),
        )
        if not result.bounds:
            parts.caption("This log carries none of the catalogue's trust regions.")


def tokens() -> None:
    """Which ids were removed most often."""
    if not result.ids:
        parts.caption("No token was removed, or the log has no token ids.")
        return
    look.rows(
        [
            {
                "id": str(each.id),
                "text": "" if each.text is None else repr(each.text),
                "removed": fmt.count(each.zeroed),
                "of": fmt.count(each.tokens),
                "share [95 %]": fmt.percent_estimate(each.share),
                "lift [95 %]": fmt.estimate(each.lift),
            }
            for each in result.ids
        ],
        right=("removed", "of", "share [95 %]", "lift [95 %]"),
    )
    st.text(fmt.visible(f"{fmt.plural(result.distinct_ids, 'id')} removed at least once; {result.ids_are}."))
    parts.caption(
        "Lift: the id's share over that of all loss tokens; 1 where it is removed as often as any other."
    )


parts.numbers({SHARE: result.share, "outside the band, kept": result.outside_kept}, "responses", percent=True)
said = f"{fmt.count(result.zeroed)} of {fmt.count(result.tokens)} loss tokens were removed."
if result.first_update is not None:
    first = fmt.visible(first_in_words(result.first_update))
    said += f" {first[:1].upper()}{first[1:]}."
st.text(said)
single.show_view({"Where": where, "Other bounds": others, "Tokens": tokens})
parts.doubts_and_skips(result.doubts, result.skipped)
