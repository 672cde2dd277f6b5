"""What the dashboard shows of a directory: pages, their views, and what charts are drawn from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import audit.app
import polars as pl
import pyarrow as pa
from streamlit.testing.v1 import AppTest

SCRIPT = Path(audit.app.__file__).with_name("streamlit_app.py")
PAGES = {
    "clipping": "Clipping",
    "compare": "Compare",
    "groups": "Groups & prompts",
    "kl": "KL",
    "length": "Length",
    "mismatch": "Mismatch",
    "report": "Report",
    "runs": "Runs",
    "search": "Search",
    "sql": "SQL",
    "tokens": "Tokens",
    "what_if": "What if",
}
"""Every page and its title."""
MOST_MARKS = 5_000
SAYING = ("dataframe", "metric", "html", "vega_lite_chart", "code", "info", "warning")
"""Elements of which a page has one at least; a title is on every page."""
_OF_RUNS = ("of", "sample")
"""Pickers among runs and responses, of which there may be many; the others pick a view or a measure."""


class Layer(NamedTuple):
    """A mark of a chart and the rows that it is drawn from."""

    mark: str
    encoding: dict[str, Any]
    frame: pl.DataFrame


class Drawn(NamedTuple):
    """A chart as the browser gets it."""

    alt: str
    height: float
    """Pixels; 0 where it fills what holds it."""
    layers: list[Layer]

    @property
    def frame(self) -> pl.DataFrame:
        """The rows of the layer that has the most of them."""
        return max((layer.frame for layer in self.layers), key=len)

    def layer(self, mark: str) -> Layer:
        """The one layer of a mark."""
        (found,) = [layer for layer in self.layers if layer.mark == mark]
        return found


def opened(monkeypatch, root: Path, page: str, *runs: str, **query: str) -> AppTest:
    """Open a page on some runs of a directory."""
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(root)])
    at = AppTest.from_file(str(SCRIPT), default_timeout=300)
    at.query_params["run"] = list(runs)
    for key, value in query.items():
        at.query_params[key] = value
    if "_" in page:
        # A page whose address is not its file's name is known to AppTest only after a first run.
        at.switch_page("app_pages/report.py").run()
    at.switch_page(f"app_pages/{page}.py").run()
    # AppTest opens the first page where it does not find the one that was asked for; where no run can be
    # read, a page says so and has no title.
    assert at.exception or [each.value for each in at.title] in ([PAGES[page]], [])
    return at


def views(at: AppTest) -> Iterator[str]:
    """Go through a page as it opens, then through what every picker and button of it shows."""
    yield "at first"
    pickers = {each.key: each.options for each in at.segmented_control if each.key not in _OF_RUNS}
    for key, options in pickers.items():
        for option in options[1:]:
            at.segmented_control(key=key).set_value(option)
            at.run()
            yield f"{key} = {option}"
        at.segmented_control(key=key).set_value(options[0])
        at.run()
    for button in [each for each in at.button if each.key is None or each.key.startswith("example-")]:
        button.click()
        at.run()
        yield f"after {button.label}"


def drawn(at: AppTest) -> list[Drawn]:
    """Every chart of a page; its description must be JSON, which has no NaN."""
    return [_drawn(each.proto) for each in at.get("vega_lite_chart")]


def chart(at: AppTest, alt: str) -> Drawn:
    """The one chart of this alternative text."""
    (found,) = [each for each in drawn(at) if each.alt == alt]
    return found


def marks(of: Drawn) -> int:
    """How many marks a chart has at most: the rows of every layer, and again for the points on its lines."""
    return sum(len(layer.frame) for layer in of.layers)


def faults(at: AppTest) -> list[str]:
    """What a page must not have, whatever the log holds."""
    found = [f"exception: {each.value}\n{''.join(each.stack_trace)}" for each in at.exception]
    found += [f"error: {each.value} {[text.value for text in at.text]}" for each in at.error]
    if not any(at.main.get(kind) for kind in SAYING):
        found.append("nothing is said")
    if not at.exception:
        found += [f"{marks(each)} marks: {each.alt}" for each in drawn(at) if marks(each) > MOST_MARKS]
        found += [f"not finite: {each.alt}" for each in drawn(at) if not _finite(each)]
    return found


def _drawn(proto: Any) -> Drawn:
    sets = {each.name: _frame(each.data.data) for each in proto.datasets}
    if proto.data.data:
        sets[""] = _frame(proto.data.data)
    spec = json.loads(proto.spec, parse_constant=_no_json)
    height = spec.get("height", 0)
    return Drawn(proto.alt, height if isinstance(height, int | float) else 0, list(_layers(spec, sets, {})))


def _layers(spec: dict, sets: dict[str, pl.DataFrame], held: dict) -> Iterator[Layer]:
    held = spec.get("data", held)
    inner = [each for kind in ("layer", "hconcat", "vconcat") for each in spec.get(kind, ())]
    for each in inner:
        yield from _layers(each, sets, held)
    if "mark" in spec:
        mark = spec["mark"] if isinstance(spec["mark"], dict) else {"type": spec["mark"]}
        yield Layer(mark["type"], spec["encoding"], sets[held.get("name", "")])
        if mark.get("point"):
            yield Layer("point", spec["encoding"], sets[held.get("name", "")])


def _finite(of: Drawn) -> bool:
    return all(
        bool(column.drop_nulls().is_finite().all())
        for layer in of.layers
        for column in layer.frame.iter_columns()
        if column.dtype.is_float()
    )


def _frame(data: bytes) -> pl.DataFrame:
    return pl.DataFrame(pa.ipc.open_stream(data).read_all())


def _no_json(text: str) -> None:
    msg = f"{text} is no JSON"
    raise ValueError(msg)
