"""Which files are read, which are skipped and why (D01, D12, D25)."""

import os

import pytest
from log_samples import write

from audit.logs.files import RunFile, SkippedFile, check_file, list_files, numeric_order


def names(root):
    files, skipped = list_files(root)
    return [file.name for file in files], {s.path.name: s.reason for s in skipped}


def test_numeric_order():
    given = ["step10.parquet", "step2.parquet", "step1.parquet", "a/9", "a/10", "step"]
    assert sorted(given, key=numeric_order) == [
        "a/9", "a/10", "step", "step1.parquet", "step2.parquet", "step10.parquet",
    ]  # fmt: skip


def test_step_2_comes_before_step_10(tmp_path):
    for step in (10, 2, 100, 1):
        write(tmp_path / "rollouts" / f"step={step}" / "a.parquet")
    found, _ = names(tmp_path)
    assert found == [f"rollouts/step={step}/a.parquet" for step in (1, 2, 10, 100)]


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (lambda whole: b"", "empty"),
        (lambda whole: whole[: len(whole) // 2], "being written"),
        (lambda whole: whole[:-1], "being written"),
        (lambda whole: b"PAR1", "being written"),
        (lambda whole: b"PAR1PAR1", "being written"),
        (lambda whole: b"PA", "being written"),
        (lambda whole: b"step,reward\n1,0.5\n", "not Parquet"),
        (lambda whole: b"PARE" + whole[4:-4] + b"PARE", "encrypted Parquet"),
    ],
)
def test_unfinished_or_foreign_file_is_skipped_with_the_reason(tmp_path, cut, reason):
    good = write(tmp_path / "rollouts" / "a.parquet")
    (tmp_path / "rollouts" / "b.parquet").write_bytes(cut(good.read_bytes()))
    assert names(tmp_path) == (["rollouts/a.parquet"], {"b.parquet": reason})


def test_a_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "a.parquet")
    assert check_file(tmp_path / "a.parquet", "a.parquet") == SkippedFile(
        tmp_path / "a.parquet", "not a regular file"
    )


def test_hidden_names_metrics_and_temporary_files(tmp_path):
    for name in (
        "a.parquet",
        ".b.parquet",
        "_c.parquet",
        ".cache/d.parquet",
        "metrics/e.parquet",
        "x/f.PARQUET",
    ):
        write(tmp_path / name)
    (tmp_path / ".part-000001.parquet.tmp-12").write_bytes(b"PAR1")
    assert names(tmp_path) == (["a.parquet", "x/f.PARQUET"], {".part-000001.parquet.tmp-12": "being written"})


def test_rollouts_folder_is_preferred(tmp_path):
    write(tmp_path / "other.parquet")
    write(tmp_path / "rollouts" / "metrics" / "a.parquet")
    assert names(tmp_path)[0] == ["rollouts/metrics/a.parquet"]


def test_links_are_followed_inside_the_run_only(tmp_path):
    run, outside = tmp_path / "run", tmp_path / "outside"
    write(run / "shards" / "real.parquet")
    write(outside / "foreign.parquet")
    os.symlink(run / "shards", run / "alias")
    os.symlink(run, run / "shards" / "loop")
    os.symlink(outside, run / "out")
    os.symlink(outside / "foreign.parquet", run / "out.parquet")
    os.symlink(run / "gone", run / "dangling.parquet")
    found, skipped = names(run)
    assert len(found) == 1, "one real file, however it is reached"
    assert skipped == {
        "out": "link leads outside the run",
        "out.parquet": "link leads outside the run",
        "dangling.parquet": "dangling link",
    }


def test_a_file_linked_twice_is_read_once(tmp_path):
    write(tmp_path / "a.parquet")
    os.symlink(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert names(tmp_path) == (["a.parquet"], {"b.parquet": "same file as a.parquet"})


def test_run_files_linked_from_a_run_directory_link(tmp_path):
    write(tmp_path / "real" / "rollouts" / "a.parquet")
    os.symlink(tmp_path / "real", tmp_path / "link")
    assert names(tmp_path / "link")[0] == ["rollouts/a.parquet"]


def test_fingerprint_changes_with_the_file(tmp_path):
    file = check_file(write(tmp_path / "a.parquet"), "a.parquet")
    assert isinstance(file, RunFile)
    assert file.unchanged()
    os.utime(file.path, ns=(1, 1))
    assert not file.unchanged()
    file.path.unlink()
    assert not file.unchanged()


def test_a_rollouts_folder_elsewhere_is_not_followed(tmp_path):
    write(tmp_path / "outside" / "a.parquet")
    (tmp_path / "run").mkdir()
    os.symlink(tmp_path / "outside", tmp_path / "run" / "rollouts")
    assert names(tmp_path / "run") == ([], {"rollouts": "link leads outside the run"})
