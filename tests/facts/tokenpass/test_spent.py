"""What a pass says that it spent its time on."""

from __future__ import annotations

import time

from synthetic import rollouts, write

from audit.facts.engines.local import compute
from audit.facts.tokenpass.spent import Spent


def test_the_larger_share_is_the_limit() -> None:
    spent = Spent()
    assert spent.limit() is None
    with spent.on("decoding"):
        time.sleep(0.03)
    with spent.on("arithmetic"):
        pass
    found = spent.limit()
    assert found is not None
    assert found[0] == "decoding"
    assert 0.5 < found[1] <= 1.0


def test_a_pass_takes_down_both(tmp_path) -> None:
    spent = Spent()
    list(compute(write(tmp_path / "run", rollouts(steps=2)).parts, ["log_ratio"], spent=spent))
    assert all(seconds > 0 for seconds in spent.seconds.values())
