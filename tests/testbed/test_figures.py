"""The figures' files: every variant, nothing from the network, a clear word where they cannot be drawn."""

from __future__ import annotations

import polars as pl
import pytest

from audit.cli import figures as verb
from audit.cli import main
from audit.report.figures import figure
from audit.report.figures_theme import DARK, LIGHT
from audit.testbed.frames import (
    Measured,
    draw_all,
    factor_frames,
    figures_of,
    length_frame,
    silence_frames,
    target_frame,
)
from audit.testbed.language import Language
from audit.testbed.measure import LENGTH_RUNS, TARGET_RUNS, length_curves, target_curves

TINY = Language(rates=(0.3, 0.6), budget=3)


@pytest.fixture(scope="module")
def measured() -> Measured:
    lengths = {name: length_curves(TINY, o, seeds=2, steps=4) for name, o in LENGTH_RUNS.items()}
    towards = {name: target_curves(TINY, o, seeds=2, steps=4, every=2) for name, o in TARGET_RUNS.items()}
    return Measured(
        silence=silence_frames(TINY),
        factor=factor_frames(TINY),
        last=length_frame(lengths),
        first=length_frame(lengths),
        target=target_frame(towards),
    )


def test_every_file_is_written(tmp_path, measured) -> None:
    written = draw_all(measured, tmp_path, [DARK])
    expected = {
        f"{name}-dark{ending}"
        for name in ("group-statistics", "length-and-target")
        for ending in (".png", ".svg", ".html")
    }
    assert {path.name for path in written} == {path.name for path in tmp_path.iterdir()} == expected
    for path in written:
        assert path.stat().st_size > 5000
    assert f'fill="{DARK.ground}"' in (tmp_path / "group-statistics-dark.svg").read_text()
    page = (tmp_path / "group-statistics-dark.html").read_text()
    assert f"background: {DARK.ground}" in page
    assert 'src="http' not in page


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_marks_stand_out_from_their_ground(measured, theme) -> None:
    for panels in figures_of(measured, theme).values():
        drawn = figure(panels, theme).to_dict()["config"]
        assert drawn["background"] == theme.ground
        assert drawn["axis"]["labelColor"] == theme.text
    assert contrast(theme.text, theme.ground) > 7
    assert min(contrast(colour, theme.ground) for colour in theme.series) > 3.5


def contrast(a: str, b: str) -> float:
    """Contrast ratio of two colours by WCAG 2.2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_frames_hold_what_was_measured(measured) -> None:
    curves, prompts = measured.silence
    eight = prompts.filter((pl.col("curve") == "G = 8") & (pl.col("rate") == 0.3))
    assert eight["value"].item() == pytest.approx(0.3**8 + 0.7**8)
    assert curves.height == 4 * 201
    assert measured.last.group_by("curve", "side").len()["len"].unique().to_list() == [2]
    for frame in (measured.last, measured.target):
        assert frame.filter((pl.col("low") > pl.col("mean")) | (pl.col("mean") > pl.col("high"))).is_empty()
    assert measured.target["step"].unique().to_list() == [0, 4, 8]


def test_without_vl_convert_one_line_says_what_to_install(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(verb, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as end:
        main(["figures", "-o", str(tmp_path / "new")])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "pip install 'rlaudit[charts]'" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_figures_are_not_written_into_a_log(tmp_path, capsys) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(SystemExit) as end:
        main(["figures", "-o", str(tmp_path / "here")])
    assert end.value.code == 2
    assert "inside the log" in capsys.readouterr().err
    assert not (tmp_path / "here").exists()
