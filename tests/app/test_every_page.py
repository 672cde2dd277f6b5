"""Every page on the sample logs: nothing fails, and no page is empty."""

from __future__ import annotations

import sys
from pathlib import Path

import audit.app
import pytest
from streamlit.testing.v1 import AppTest

APP = Path(audit.app.__file__).parent
SAMPLES = Path(__file__).parents[2] / "sample_logs"
PAGES = sorted(file.stem for file in APP.glob("app_pages/[a-z]*.py"))
LOGS = {
    "team": ("team/gspo-seed1", "team/grpo-seed1"),
    "testbed": ("testbed/dapo-seed0", "testbed/grpo-seed0"),
    "trl_completions": ("trl_completions", "testbed/grpo-seed0"),
}
"""A run of each kind of sample log, and the one that it is compared with."""
SAYING = ("dataframe", "metric", "html", "vega_lite_chart", "code", "info", "warning")
"""Elements of which a page has one at least; a title is on every page."""


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("page", PAGES)
def test_no_page_fails(monkeypatch, page: str, log: str) -> None:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(SAMPLES)])
    at = AppTest.from_file(str(APP / "streamlit_app.py"), default_timeout=300)
    at.query_params["run"] = list(LOGS[log] if page == "compare" else LOGS[log][:1])
    at.switch_page(f"app_pages/{page}.py").run()
    assert not at.exception
    assert not at.error
    assert len(at.title) == 1
    assert any(at.main.get(kind) for kind in SAYING)
