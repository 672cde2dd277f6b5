"""Clipping: what the trust region removed, where, and what another one would have removed."""

from __future__ import annotations

import streamlit as st
from audit.app import cached, cached_single, look, parts, single
from audit.app import context as ctx

from audit.report import format as fmt
from audit.report.panels import parts_panel, trend_panel
from audit.report.policy_panels import epsilon_panel
from audit.report.text.clipping import TITLES, first_in_words

SHARE = "clip-zeroed share"
context = ctx.current()
listed = ctx.one_run(context)
colour = context.colours[listed.name]
ctx.title("Clipping", listed)
result = parts.or_stop(cached.analysis(context.root, listed, "clipping"))
look.lead(result.verdict)
if result.share is None:
    parts.doubts_and_skips(result.doubts, result.skipped)
    st.stop()
whole = result.share.value


def where() -> None:
    """Over steps, and by every part."""
    with single.cards():
        single.chart_card(
            "Over steps", lambda: trend_panel(result.steps, colour, SHARE, percent=True), "steps"
        )
        for name, title in TITLES.items():
            buckets = result.by.get(name, [])
            if len(buckets) > 1:
                # By side each part is of all tokens: their sum is the whole, and no rule divides them.
                rule = None if name == "side" else whole
                single.chart_card(
                    title,
                    lambda b=buckets, w=rule: parts_panel(b, colour, SHARE, percent=True, whole=w),
                    f"by-{name}",
                )
    st.caption("Dashed: the share of the whole run. Bars: 95 %, resampling prompts; n is in the tooltips.")


def others() -> None:
    """Counterfactual bounds on the same tokens."""
    curve = cached_single.curve_of_clip(context.root, listed)
    with single.card("Clip-zeroed share at other widths of the band"):
        if isinstance(curve, str):
            st.text(fmt.visible(curve))
        else:
            parts.chart(lambda: epsilon_panel(curve, colour), "Clip-zeroed share over epsilon", "epsilons")
            st.caption(
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
            right=("n",),
            whole=("of", "removes a", "clip-zeroed [95 %]", "gradient lost [95 %]"),
        )
        if not result.bounds:
            st.caption("This log carries none of the catalogue's trust regions.")


def tokens() -> None:
    """Which ids were removed most often."""
    if not result.ids:
        st.caption("No token was removed, or the log has no token ids.")
        return
    parts.table(
        [
            {
                "id": each.id,
                "text": "" if each.text is None else repr(each.text),
                "removed": each.zeroed,
                "of": each.tokens,
                "share [95 %]": fmt.percent_estimate(each.share),
                "lift [95 %]": fmt.estimate(each.lift),
            }
            for each in result.ids
        ],
        "ids",
        height="content",
    )
    st.text(fmt.visible(f"{fmt.plural(result.distinct_ids, 'id')} removed at least once; {result.ids_are}."))
    st.caption(
        "Lift: the id's share over that of all loss tokens; 1 where it is removed as often as any other."
    )


parts.numbers({SHARE: result.share, "outside the band, kept": result.outside_kept}, percent=True)
st.caption(f"{fmt.count(result.zeroed)} of {fmt.count(result.tokens)} loss tokens were removed.")
if result.first_update is not None:
    said = fmt.visible(first_in_words(result.first_update))
    st.text(f"{said[:1].upper()}{said[1:]}.")
single.show_view({"Where": where, "Other bounds": others, "Tokens": tokens})
parts.doubts_and_skips(result.doubts, result.skipped)
