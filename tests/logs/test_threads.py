"""One Run read from several threads at once (D15)."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from log_samples import columns, write

from audit.logs import open_run


def test_threads_that_share_a_run_get_their_own_rows(tmp_path):
    for step in range(6):
        half = pa.array([[-float(step)], [-1.0]], pa.list_(pa.float16() if step % 2 else pa.float32()))
        write(tmp_path / f"{step}.parquet", pa.table(columns(step=step, logp_old=half)))
    run = open_run(tmp_path)

    def by_view(step):
        with run.connect() as connection:
            query = "SELECT step, logp_old FROM rollouts WHERE step = ? ORDER BY _row"
            return connection.execute(query, [step]).fetchall()

    def by_batches(step):
        rows = pa.Table.from_batches(run.batches(["step", "logp_old"])).to_pylist()
        return [(row["step"], row["logp_old"]) for row in rows if row["step"] == step]

    jobs = [(read, step) for _ in range(5) for step in range(6) for read in (by_view, by_batches)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda job: job[0](job[1]), jobs))
    for (_, step), rows in zip(jobs, results, strict=True):
        assert rows == [(step, [-float(step)]), (step, [-1.0])]


def test_connections_share_nothing(tmp_path):
    write(tmp_path / "a.parquet")
    run = open_run(tmp_path)
    with run.connect() as one, run.connect() as other:
        one.execute("CREATE TABLE own AS SELECT * FROM rollouts")
        assert other.execute("SELECT table_name FROM duckdb_tables()").fetchall() == []
