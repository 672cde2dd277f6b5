"""One real explanation, and one whose every string is hostile."""

from __future__ import annotations

import io

import msgspec
import pytest
from hostile_text import HOSTILE
from rich.console import Console
from synthetic import centred, rollouts, standardised, with_advantages, write

from audit.analyses.explain import Explanation, explain
from audit.analyses.findings import Cause
from audit.analyses.skipped import Skipped


@pytest.fixture(scope="session")
def explanation(tmp_path_factory) -> Explanation:
    """GRPO against Dr. GRPO, with two inner epochs."""
    root = tmp_path_factory.mktemp("runs")
    a = write(root / "grpo-1", with_advantages(rollouts(), standardised(0, 0.0)), "grpo")
    b = write(root / "dr-1", with_advantages(rollouts(seed=1), centred), "dr_grpo")
    return explain(a, b)


@pytest.fixture
def hostile(explanation) -> Explanation:
    """The same with markup and control characters wherever a string may come from a log."""
    replace = msgspec.structs.replace
    runs = [replace(run, id=HOSTILE) for run in explanation.runs]
    effects = [replace(effect, on=[HOSTILE]) for effect in explanation.effects]
    cause = Cause("data.prompts", None, None, None, 0.7, HOSTILE, {"texts": HOSTILE, HOSTILE: 1})
    verdict = replace(explanation.verdict, causes=[cause], text=HOSTILE)
    declared = replace(explanation.declared, notes=[HOSTILE], a={"name": HOSTILE}, b=None)
    return replace(
        explanation,
        runs=runs,
        effects=effects,
        verdict=verdict,
        declared=declared,
        skipped=[Skipped(HOSTILE, HOSTILE)],
    )


@pytest.fixture
def shown():
    """Call a ``show_`` function and return what it printed."""

    def show(function, result, *, width: int = 100, terminal: bool = False) -> str:
        stream = io.StringIO()
        console = Console(
            file=stream,
            width=width,
            height=40,
            force_terminal=terminal,
            markup=False,
            highlight=False,
            color_system="standard" if terminal else None,
        )
        function(result, console)
        return stream.getvalue()

    return show
