"""What every page knows: the directory, its runs, and which of them are looked at; the URL carries it.

Run names come from the URL and from the list alone. A name that is not in the list is refused, and no path
is made of it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import streamlit as st
from audit.app import cached
from audit.app.listing import Listed, directory
from audit.app.pages import pages

from audit.errors import AuditError
from audit.report import format as fmt
from audit.report.colours import colours_of
from audit.report.page_words import on_page

RUNS = "run"
"""Key of the picker, and parameter of the URL."""
ONE = "of"


@dataclass(frozen=True)
class Context:
    """The directory and what was chosen in it."""

    root: Path
    listed: tuple[Listed, ...]
    chosen: tuple[str, ...]
    """Names of the runs that were picked, in the order of picking."""

    @cached_property
    def readable(self) -> dict[str, Listed]:
        """Runs that can be opened, by name."""
        return {listed.name: listed for listed in self.listed if not listed.error}

    @cached_property
    def colours(self) -> dict[str, str]:
        """Colour of each run, by name."""
        return colours_of(list(self.readable), self.chosen)

    def run(self, name: str) -> Listed:
        """Return a run of the list."""
        return self.readable[name]


def listing(root: str) -> tuple[Listed, ...]:
    """Return the runs below the directory, as of the last few seconds."""
    return cached.found(root).listed


def begin(path: str, page: str) -> Context:
    """Return the directory, its runs and the choice; says so and stops where there is nothing to show.

    Parameters
    ----------
    path : str
        Path of the page in the URL; that of the list of runs is empty.
    page : str
        Title of the page.
    """
    logs = directory(sys.argv[1:])
    if logs is None:
        st.title("rlaudit")
        st.info("No directory was given. Start the dashboard with one:")
        st.code("rlaudit dashboard DIR", language=None)
        st.stop()
    try:
        with st.spinner("Looking for runs…", show_time=True):
            listed = listing(str(logs))
    except AuditError as error:
        st.error("This directory cannot be read:")
        st.text(on_page(error, logs))
        st.stop()
    readable = [each.name for each in listed if not each.error]
    with st.sidebar:
        st.text(fmt.visible(logs))
    # The list shows what there is to choose from; another page would answer for other runs than were asked.
    if _refuses_unknown(listed, page if path else "") and path:
        st.page_link(pages()[""][0], label="Choose on the page Runs", icon=":material/table_rows:")
        st.stop()
    with st.sidebar:
        chosen = (
            st.multiselect(
                "Runs",
                readable,
                key=RUNS,
                format_func=fmt.visible,
                bind="query-params",
                placeholder="choose one or several",
                help="What the pages show. The address of the page carries the choice: send it as a link.",
            )
            if readable
            else []
        )
    return Context(logs, listed, tuple(chosen))


def _refuses_unknown(listed: Sequence[Listed], page: str) -> bool:
    """Say which names of the URL are no run here, and why one cannot be read; tell whether there are any."""
    errors = {each.name: each.error for each in listed}
    unknown = [name for name in st.query_params.get_all(RUNS) if errors.get(name, "unknown")]
    if unknown:
        if page:
            st.title(page)
        st.error("Refused: the address names what is no run of this directory, or cannot be read.")
        told = (f"{name}: {errors[name]}" if name in errors else name for name in unknown[:5])
        st.text("\n".join(map(fmt.visible, told)))
    return bool(unknown)


def current() -> Context:
    """Return the context of this rerun: what a page asks for first."""
    context: Context = st.session_state["context"]
    return context


def one_run(context: Context) -> Listed:
    """Return the run that a page of one run shows; a picker where several are chosen, the first of none."""
    names = list(context.chosen) or list(context.readable)[:1]
    if not names:
        nothing_to_show(context)
    name = names[0]
    if len(names) > 1:
        picked = st.segmented_control(
            "Run", names, default=names[0], key=ONE, format_func=fmt.visible, bind="query-params"
        )
        name = picked or names[0]
    elif not context.chosen:
        st.caption("The first run of the directory; choose others at the side.")
    return context.run(name)


def several_runs(context: Context) -> list[Listed]:
    """Return the runs that a page of several shows: those chosen, else the first of the directory."""
    names = list(context.chosen) or list(context.readable)[:1]
    if not names:
        nothing_to_show(context)
    return [context.run(name) for name in names]


def nothing_to_show(context: Context) -> None:
    """Say why a page is empty, and stop."""
    if context.listed:
        st.info("None of the runs in this directory can be read; the page Runs says why.")
    else:
        st.info(
            "No runs here yet. A run is a directory with a run.json or rollouts/*.parquet, or a log of a "
            "trainer that rlaudit reads. New runs appear by themselves."
        )
    st.stop()


def title(text: str, *runs: Listed) -> None:
    """Show the title of a page; the browser's tab names the runs as well."""
    named = ", ".join(fmt.visible(run.shown) for run in runs[:3])
    st.set_page_config(page_title=f"{text} · {named} · rlaudit" if named else f"{text} · rlaudit")
    st.title(text)
    if named:
        st.text(named + (f" and {len(runs) - 3} more" if len(runs) > 3 else ""))
