"""The yardstick: what pyarrow alone takes to decode the token columns of a run, with nothing done to them.

A process of its own: ``python -m bench.decode RUN [--threads]``. It imports pyarrow and nothing of rlaudit.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow.parquet as pq

COLUMNS = ["token_ids", "logp_theta", "logp_old", "logp_ref", "logp_sampler"]


def decode(run: Path, *, threads: bool) -> int:
    """Decode the token ids and the four log-probs row group by row group; return the number of tokens."""
    tokens = 0
    for path in sorted(run.rglob("rollouts/*.parquet")):
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=COLUMNS, use_threads=threads)
                tokens += sum(len(chunk.flatten()) for chunk in table["token_ids"].chunks)
    return tokens


def main() -> None:
    """Decode one run and print its number of tokens."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--threads", action="store_true")
    asked = parser.parse_args()
    print(decode(asked.run, threads=asked.threads))


if __name__ == "__main__":
    main()
