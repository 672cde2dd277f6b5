"""What README and docs/formats.md say of logs with names of their own is what works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from audit.importers import open_run
from audit.logs.manifest import Manifest, manifest_from_dict

ROOT = Path(__file__).parents[1]


def test_the_lines_of_the_readme_lead_from_own_parquet_to_a_verdict(tmp_path) -> None:
    for name, reward in (("a", 0.0), ("b", 0.5)):
        (tmp_path / "logs" / name).mkdir(parents=True)
        rows = [
            {"it": s, "question_txt": f"q{p}", "grade": (i % 2) * 0.5 + reward, "answer": "x" * i}
            for s in range(3)
            for p in range(2)
            for i in range(4)
        ]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "logs" / name / "log.parquet")
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("### A log of your own\n")[1]
    found = re.search(r"```bash\n(.*?)```", section, re.DOTALL)
    assert found is not None
    assert len(found[1].splitlines()) == 4
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-e", "-c", found[1]],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "seq-mean-token-mean → token-mean" in " ".join(done.stdout.split())
    assert open_run(tmp_path / "logs" / "a").manifest.objective == "grpo"


def test_the_page_of_formats_names_every_field_that_is_read_of_a_run_json(tmp_path) -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    section = page.split("## What no column says: run.json\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("    ")]
    shown = json.loads("\n".join(lines))
    read = {field.name for field in msgspec.structs.fields(Manifest)}
    for name in read - {"schema", "notes", "declared", "unknown"}:
        assert name in shown or f"`{name}`" in section, name
    (tmp_path / "run.json").write_text(json.dumps(shown))
    (tmp_path / "log.jsonl").write_text('{"prompt": "p", "reward": 1}\n' * 2)
    for path in (tmp_path, tmp_path / "log.jsonl"):
        assert open_run(path).manifest == manifest_from_dict(shown)
