"""Three or more runs: distances, clusters, what splits them, and every metric over steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st
from audit.app import compare_time, compared, links, long_work, look, parts
from audit.app.context import Context
from audit.app.listing import Listed
from audit.app.long_work import Stage

from audit.analyses.explain_many import ManyExplanation
from audit.report import format as fmt
from audit.report import many_words as words
from audit.report.matrix_chart import matrix_chart

VIEW, MATRIX, PAIRS = "many", "matrix", "pairs"
_FIELDS = 6


def show(context: Context, runs: Sequence[Listed]) -> None:
    """Draw the whole comparison."""
    work = Stage(f"Comparing {len(runs)} runs", partial(compared.explained_many, context.root, runs))
    x: ManyExplanation = parts.or_stop(long_work.finish("compare", [work]))
    names = dict(zip(compared.labels(context.root, runs), (run.name for run in runs), strict=True))
    look.legend(
        [
            (names[label], context.colours[names[label]], words.configuration_of(x, label))
            for label in words.order(x)
            if label in names
        ]
    )
    look.lead(x.verdict.text, sentences=2)
    view = st.segmented_control(
        "View",
        ["Distances", "Over steps"],
        default="Distances",
        key=VIEW,
        bind="query-params",
        label_visibility="collapsed",
    )
    if view == "Over steps":
        compare_time.show_many(context, runs)
    else:
        _distances(x, names)
    parts.doubts_and_skips(
        [
            *(f"{left.path}: {left.error}" for left in x.left_out),
            *(f"not identifiable: {each}" for each in words.unseen(x)),
        ],
        x.skipped,
    )


def _distances(x: ManyExplanation, names: dict[str, str]) -> None:
    left, right = st.columns(2)
    with left, st.container(border=True, height="stretch"):
        matrices = {"objectives": x.objective, "outcomes": x.outcome}
        held = [name for name, matrix in matrices.items() if matrix is not None]
        st.markdown("**How far apart**")
        if held:
            which = held[0]
            if len(held) > 1:
                which = st.segmented_control(
                    "Distance of",
                    held,
                    default=which,
                    required=True,
                    key=MATRIX,
                    bind="query-params",
                    label_visibility="collapsed",
                )
            matrix = matrices[which]
            assert matrix is not None
            parts.chart(
                lambda: matrix_chart(matrix, words.order(x), names),
                f"Distances of the {which}",
                "matrix-chart",
            )
            st.caption(f"{matrix.measure}, {matrix.unit}; n = {fmt.count(matrix.n)} responses. {matrix.note}")
        else:
            st.caption("No distance can be measured on these logs.")
    with right, st.container(border=True, height="stretch"):
        st.markdown("**Clusters of objectives**")
        look.rows(
            [
                {"": cluster.name, "runs": words.side([names.get(run, run) for run in cluster.runs])}
                for cluster in x.clusters
            ]
        )
        st.caption(f"Average linkage, cut at 1 − cosine {x.cut:g} (heuristic).")
    _splits(x, names)
    metrics = words.metrics(x)
    if metrics:
        st.markdown("**Outcomes, up to the last step that all runs reached**")
        look.rows(
            [
                {
                    "run": names.get(label, label),
                    "configuration": words.configuration_of(x, label),
                    **{metric: words.outcome(x, label, metric) for metric in metrics},
                    "responses": fmt.count(words.run(x, label).responses),
                }
                for label in words.order(x)
            ],
            right=("responses",),
        )
    apart = sum(each.apart for each in x.comparisons)
    if x.comparisons:
        told = f"Configurations against seed noise ({apart} of {len(x.comparisons)} apart)"
        with st.expander(told, icon=":material/casino:", expanded=bool(apart)):
            parts.table(
                [
                    {
                        "A": each.a,
                        "B": each.b,
                        "metric": each.metric,
                        "mean A": fmt.number(each.mean_a),
                        "mean B": fmt.number(each.mean_b),
                        "B − A [95 %]": words.difference(each),
                        "seeds": f"{each.n[0]} / {each.n[1]}",
                        "": words.moved(each),
                    }
                    for each in x.comparisons
                ],
                "comparisons",
            )
    _pairs(x, names)


def _splits(x: ManyExplanation, names: dict[str, str]) -> None:
    if not x.splits:
        return
    with st.container(border=True):
        st.markdown("**What splits them**")
        for split in x.splits:
            sides = [words.side([names.get(run, run) for run in side]) for side in (split.left, split.right)]
            st.text(fmt.visible(f"{sides[0]}   against   {sides[1]}   ({split.height:.2g} apart)"))
            if split.causes:
                st.caption(f"Outside of the objective: {', '.join(split.causes)}")
            nothing = words.unsplit(split)
            if nothing:
                st.caption(nothing)
            look.rows(
                [
                    {
                        "field": field.field,
                        "former": field.left,
                        "latter": field.right,
                        "share of the distance": words.field_share(field),
                    }
                    for field in split.fields[:_FIELDS]
                ]
            )
            if len(split.fields) > _FIELDS:
                more = ", ".join(field.field for field in split.fields[_FIELDS:])
                st.text(fmt.visible(f"and {len(split.fields) - _FIELDS} fields more: {more}"))


def _pairs(x: ManyExplanation, names: dict[str, str]) -> None:
    if not x.pairs:
        return
    st.markdown("**Pairs, explained one by one**")

    def leave() -> None:
        ticked = st.session_state[PAIRS]["selection"]["rows"]
        if ticked:
            pair = x.pairs[ticked[0]]
            links.choose([names[pair.a], names[pair.b]])

    st.dataframe(
        {
            "A": [fmt.visible(names.get(pair.a, pair.a)) for pair in x.pairs],
            "B": [fmt.visible(names.get(pair.b, pair.b)) for pair in x.pairs],
            "first cause": [words.first_cause(pair) for pair in x.pairs],
            "verdict": [fmt.visible(pair.text) for pair in x.pairs],
        },
        hide_index=True,
        key=PAIRS,
        on_select=leave,
        selection_mode="single-row",
        lazy=False,
        alt="Pairs of runs and the first cause of their difference",
    )
    st.caption("Tick a pair to compare those two.")
