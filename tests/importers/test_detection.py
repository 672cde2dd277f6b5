"""Every log of every format is taken for its own format, and by nobody else more surely.

The logs are those under ``fixtures/<format>/``, and TRL's sample.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.analyses.check import check
from audit.analyses.summary import summarise
from audit.importers import open_run
from audit.importers.opening import LEAST, detect
from audit.importers.registry import IMPORTERS
from audit.schema import REQUIRED

FIXTURES = Path(__file__).parent / "fixtures"
SAMPLE = Path(__file__).parents[2] / "sample_logs" / "trl_completions"
ANY = {"generic"}
"""Formats that take what no other takes."""
UNREWARDED = {"prime-rl-tokens", "skyrl", "oat-evals"}
"""Formats of tier 0: the trainer takes the rewards out before it writes, or samples each prompt once."""
FOLDERS = {
    folder.name: folder for folder in FIXTURES.iterdir() if folder.is_dir() and folder.name[0] not in "._"
}


def folder_of(name: str) -> str | None:
    """Fixtures of a format: the folder of its name, or of what its name begins with (verl-skip in verl)."""
    plain = name.replace("-", "_")
    return max((each for each in FOLDERS if plain.startswith(each)), key=len, default=None)


@pytest.mark.parametrize("name", [each.name for each in IMPORTERS if each.name not in ANY])
def test_every_format_finds_a_log_of_its_own(name) -> None:
    if name == "trl":
        logs = [SAMPLE, SAMPLE / "completions", next((SAMPLE / "completions").iterdir())]
    else:
        folder = folder_of(name)
        assert folder is not None, f"no logs of {name}: put some into {FIXTURES}/{name.replace('-', '_')}"
        logs = [FOLDERS[folder], *FOLDERS[folder].rglob("*")]
    found = [seen for log in logs if (seen := detect(log, IMPORTERS)) is not None]
    assert name in {importer.name for importer, _ in found}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_format_takes_the_logs_of_another(folder) -> None:
    for path in [FOLDERS[folder], *FOLDERS[folder].rglob("*")]:
        found = detect(path, IMPORTERS)
        if found is not None and found[0].name not in ANY:
            assert folder_of(found[0].name) == folder, (path, found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_two_formats_are_never_equally_sure(folder) -> None:
    for path in [FOLDERS[folder], *FOLDERS[folder].rglob("*")]:
        seen = [each.detect(path) for each in IMPORTERS]
        sure = sorted(
            (each.confidence for each in seen if each is not None and each.confidence >= LEAST), reverse=True
        )
        assert len(sure) < 2 or sure[0] > sure[1], (path, seen)


@pytest.mark.parametrize("importer", IMPORTERS, ids=lambda each: each.name)
def test_nothing_is_found_where_there_is_nothing(importer, tmp_path) -> None:
    for name in (
        "1.jsonl",
        "train_data_step1.jsonl",
        "completions",
        "gen_batch.dp",
        "a.parquet",
        "traces.jsonl",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "up").symlink_to(tmp_path)
    (tmp_path / "notes.txt").write_text("no log")
    paths = [tmp_path, tmp_path / "absent", *tmp_path.iterdir()]
    seen = [importer.detect(path) for path in paths if path.name != "empty.jsonl"]
    assert [each for each in seen if each is not None and each.confidence >= LEAST] == []


@pytest.mark.parametrize("name", ["trl", "verl", "verl-skip", "nemo-rl"])
def test_what_a_format_is_said_to_hold_is_what_its_logs_fill(name) -> None:
    importer = next(each for each in IMPORTERS if each.name == name)
    folder = folder_of(name)
    places = [SAMPLE] if folder is None else [FOLDERS[folder], *FOLDERS[folder].rglob("*")]
    logs = [path for path in places if (seen := detect(path, IMPORTERS)) is not None and seen[0] is importer]
    filled = set().union(*(open_run(path).columns for path in logs))
    assert filled - {*REQUIRED, "reward", "prompt_id", "group_id", "sample_index"} <= set(importer.holds)
    unseen = {"trl": set(), "verl": set(), "verl-skip": {"prompt"}, "nemo-rl": {"token_advantage", "extra"}}
    assert set(importer.holds) - filled == unseen[name]


def first_log(name: str) -> Path:
    folder = folder_of(name)
    places = [SAMPLE] if folder is None else [FOLDERS[folder], *sorted(FOLDERS[folder].rglob("*"))]
    return next(
        path for path in places if (seen := detect(path, IMPORTERS)) is not None and seen[0].name == name
    )


@pytest.mark.parametrize("name", [each.name for each in IMPORTERS if each.name not in ANY])
def test_summary_and_check_open_every_format_without_flags(name) -> None:
    run = open_run(first_log(name))
    summary = summarise(run)
    assert summary.source.format == name
    assert summary.responses == run.num_rows > 0
    assert summary.tier >= (name not in UNREWARDED)
    assert summary.skipped
    assert any(name in note for note in summary.notes)
    assert check(run).tier == summary.tier
