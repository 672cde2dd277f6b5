"""The catalogue in the terminal and as a page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from audit.objectives.catalogue import CATALOGUE, FAMILIES, ROWS, named
from audit.report.catalogue_page import page_text, write_page
from audit.report.objectives import needed, show_catalogue, show_objective, show_side_by_side

DOCS = Path(__file__).parents[2] / "docs"


def catalogue(shown, *, wide: bool = False, width: int = 80) -> str:
    return shown(lambda _, console: show_catalogue(console, wide=wide), None, width=width)


def test_the_list_says_weight_stability_target_and_paper_of_every_algorithm(shown) -> None:
    said = catalogue(shown)
    flat = " ".join(said.split())
    for name, entry in CATALOGUE.items():
        line = next(line for line in said.splitlines() if line.split()[:1] == [name])
        assert entry.weight in line
        assert line.endswith(entry.source)
        assert f"{entry.stability} → {entry.target}" in flat
    assert all(family in said for family in FAMILIES)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_list_fits_the_terminal(shown, wide, width) -> None:
    assert max(map(len, catalogue(shown, wide=wide, width=width).splitlines())) <= width


def test_the_columns_of_the_list_line_up_over_families(shown) -> None:
    lines = catalogue(shown).splitlines()
    starts = {
        line.index(entry.weight, len(entry.name) + 2)
        for entry in CATALOGUE.values()
        for line in lines
        if line.split()[:1] == [entry.name]
    }
    assert len(starts) == 1


def test_the_wide_list_has_all_eight_rows(shown) -> None:
    flat = " ".join(catalogue(shown, wide=True, width=200).split())
    for entry in CATALOGUE.values():
        assert all(f"{row} {entry.rows[row]}" in flat for row in ROWS)


@pytest.mark.parametrize("name", CATALOGUE)
def test_one_objective_says_everything(shown, name) -> None:
    entry = CATALOGUE[name]
    said = shown(show_objective, entry.objective, width=80)
    assert max(map(len, said.splitlines())) <= 80
    flat = " ".join(shown(show_objective, entry.objective, width=300).split())
    told = (entry.meaning, entry.formula, entry.paper, entry.fixes, entry.choices, *entry.rows.values())
    assert all(" ".join(text.split()) in flat for text in told)
    assert needed(entry.needs) in flat


def test_a_changed_objective_does_not_claim_the_paper(shown) -> None:
    grpo = named("grpo")
    said = shown(show_objective, grpo.replace(scale=named("rloo").scale))
    assert "changed from the catalogue: scale.kind" in said
    assert "2402.03300" not in said
    assert "needs" in said
    assert "models in memory" not in said
    own = shown(show_objective, grpo.replace(name="mine"))
    assert own.splitlines()[0] == "mine"


def test_needs_are_told_by_part() -> None:
    assert needed({}) == "nothing beyond rewards, groups and tokens"
    assert needed({"a": "ratio", "b": "kl", "c": "ratio"}) == "a, c (ratio); b (kl)"


def test_side_by_side_shows_only_what_differs_in_the_order_of_a_token(shown) -> None:
    said = shown(show_side_by_side, [named("grpo"), named("dr_grpo")])
    fields = [line.split()[0] for line in said.splitlines() if line.startswith("  ") and line[2] != " "]
    assert fields == ["scale.kind", "aggregation.kind", "kl.loss"]
    assert "the same in every field" in shown(show_side_by_side, [named("grpo"), named("grpo")])


def test_the_committed_page_is_current() -> None:
    held = (DOCS / "objectives.md").read_text(encoding="utf-8")
    assert held == page_text(), "stale: run python -m audit.report.catalogue_page"


def test_the_page_has_every_entry(tmp_path) -> None:
    text = write_page(tmp_path).read_text(encoding="utf-8")
    for name, entry in CATALOGUE.items():
        assert f"\n### {name}\n" in text
        assert f"    {entry.formula}\n" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    columns = {line.replace("\\|", "").count("|") for line in tables}
    assert columns == {3, 6}


def test_the_list_needs_no_torch() -> None:
    code = "import sys; from audit.cli import main; main(sys.argv[1:])"
    for arguments in ([], ["grpo"], ["grpo", "dr_grpo"], ["grpo", "--set", "scale.ddof=1"]):
        check = f"import atexit; atexit.register(lambda: print('torch' in sys.modules)); {code}"
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; {check}", "objectives", *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == "False", arguments
