"""Groups and prompts: which groups carry no signal, and which prompts carry the gradient."""

from __future__ import annotations

import streamlit as st
from audit.app import cached_single, cached_step, look, parts, prompt_view, single
from audit.app import context as ctx

from audit.analyses.prompts import PromptBreakdown
from audit.objectives.catalogue import CATALOGUE, named
from audit.report import format as fmt
from audit.report.group_words import Rows, costs, headline, shares
from audit.report.prompt_panels import (
    factor_panel,
    lorenz_panel,
    objective_colours,
    sizes_panel,
    zero_panel,
)

SHOWN = ("grpo", "dr_grpo", "rloo")
GINI = "Gini: 0 where every prompt has the same share of the gradient, near 1 where one has it all."
context = ctx.current()
listed = ctx.one_run(context)
colour = context.colours[listed.name]
ctx.title("Groups & prompts", listed)
result = parts.or_stop(single.analysed(context, listed, "groups"))
zero = result.zero_signal
look.lead(headline(result))


def estimates(rows: Rows) -> None:
    """Show estimates in a table that fits a card."""
    look.rows(
        [
            {"": name, "share [95 %]": fmt.percent_estimate(e), "n": fmt.count(e.n)}
            for name, e in rows
            if e is not None and e.value is not None
        ],
        right=("share [95 %]", "n"),
    )


def signal() -> None:
    """Groups without signal: when, against what is expected, and at what cost."""
    with single.cards():
        single.chart_card(
            "Groups without signal over steps",
            lambda: zero_panel(result, colour),
            "zero",
            "Expected: were every reward an independent draw at its prompt's own success rate."
            if any(part.predicted is not None and part.predicted.value is not None for part in result.by_step)
            else "",
        )
        single.chart_card(
            "At other group sizes",
            lambda: sizes_panel(result, colour),
            "sizes",
            f"The run's own is {result.group_size}. Larger groups find more of the signal, and cost more.",
        )
        with single.card("Why, and against expectation"):
            estimates(shares(result))
        with single.card("What they cost"):
            estimates(costs(result))
            if result.refill.drawn_per_kept.value is not None:
                drawn = fmt.estimate(result.refill.drawn_per_kept)
                parts.caption(f"Dynamic sampling would draw {drawn} groups for each that it keeps.")
    st.text(
        f"{fmt.count(result.groups)} groups, most of {result.group_size}, on {fmt.count(result.prompts)} "
        f"prompts; correct is: {fmt.visible(zero.correct_is)}."
    )


def weights(prompts: PromptBreakdown) -> None:
    """Which prompts the objective makes count, and how unequally."""
    own, _ = cached_step.own(context.root, listed)
    names = [each.objective for each in prompts.shares]
    first = [name for name in names if name == prompts.objective or name in SHOWN]
    if st.session_state.get("under") is not None:
        st.session_state["under"] = [name for name in st.session_state["under"] if name in names]
    chosen = st.multiselect(
        "Objectives, on the same rollouts",
        names,
        first,
        key="under",
        format_func=fmt.visible,
        bind="query-params",
    )
    colours = {
        name: each
        for name, each in objective_colours(prompts.objective, names, colour).items()
        if name in chosen
    }
    known = {name: named(name) for name in chosen if name in CATALOGUE}
    if own is not None and prompts.objective in chosen:
        known[prompts.objective] = own
    curves = {name: cached_single.factors(each, prompts.group_size) for name, each in known.items()}
    with single.cards():
        single.chart_card(
            "Weight of a prompt by success rate",
            lambda: factor_panel(prompts, curves, colours),
            "factors",
            f"Lines: exact, groups of {prompts.group_size}, rewards 0 and 1. Points: this run's groups, by "
            "the success rate in other visits to their prompt.",
            about="Next to the unbiased policy gradient (leave-one-out), whose weight is 1 at every rate.",
        )
        single.chart_card(
            "How unequal the gradient is between prompts",
            lambda: lorenz_panel(prompts, colours),
            "lorenz",
            "Lorenz curve: the further below the diagonal, the fewer prompts hold the gradient.",
        )
    with single.card("Share of the gradient on few prompts", about=GINI):
        look.rows(
            [
                {
                    "objective": each.objective,
                    "Gini [95 %]": fmt.estimate(each.gini),
                    "heaviest tenth holds": fmt.percent(each.top_share.value, decimals=1),
                    "n, prompts": fmt.count(each.gini.n),
                }
                for each in prompts.shares
                if each.objective in chosen
            ],
            right=("Gini [95 %]", "heaviest tenth holds", "n, prompts"),
        )
    parts.doubts_and_skips(prompts.notes, prompts.skipped)


def of_prompts(view: str) -> None:
    """Draw what rests on the breakdown by prompt."""
    prompts = single.analysed(context, listed, "prompts", top=prompt_view.TOP)
    if isinstance(prompts, str):
        st.info("This log cannot be broken down by prompt:")
        parts.say(prompts)
    elif view == "Weights":
        weights(prompts)
    else:
        prompt_view.show(context, listed, prompts)


single.show_view(
    {"Signal": signal, "Weights": lambda: of_prompts("Weights"), "Prompts": lambda: of_prompts("Prompts")},
    first="Prompts" if prompt_view.PROMPT in st.query_params else None,
)
parts.doubts_and_skips(result.notes, result.skipped)
