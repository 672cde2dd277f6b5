"""The same audit by the frameworks' own loss functions, side by side with one token pass."""

from __future__ import annotations

import json

from bench.logs import make
from bench.page import Section
from bench.process import Measured, run
from bench.settings import Settings
from bench.sizes import ROOT, SMALL
from bench.timing import Spread, interleave, interpreter_start, megabytes, net, over, significant

PYTHON = ROOT / ".venv-conformance" / "bin" / "python"
FRAMEWORKS = {"verl": "verl 0.9.1", "trl": "TRL 1.16.0"}
ORDERS = {"": "in the order of the log", "--by-length": "sorted by length"}
COLUMNS = (
    "audit by",
    "whole process",
    "without imports",
    "whole process over rlaudit's",
    "without imports, over rlaudit's without start-up",
    "CPU without imports",
    "memory",
)


def measure(settings: Settings) -> Section:
    """Compare on the small log, in turns."""
    section = Section(
        "The same audit by the frameworks' own losses",
        COLUMNS,
        intro=(
            f"{SMALL.tokens / 1e6:.0f} M tokens, nine objectives (REINFORCE, RLOO, ReMax, PPO, GRPO, Dr. "
            "GRPO, DAPO, GSPO, CISPO), k1, k2, k3 plain and corrected, mismatch. Theirs: the released loss "
            "functions on padded batches of up to 65,536 places, weights by autograd, one objective after "
            "another, sums per response; the log is read and padded once for all nine; float32, two torch "
            "threads. In the order of the log is how trainers form batches; sorting by length within an "
            "update limits the padding. Start-up of rlaudit: the same command with nothing to compute."
        ),
    )
    if not PYTHON.exists():
        section.notes.append("Not measured: the frameworks are not installed (`make conformance` does).")
        return section
    log = make(SMALL)
    tasks = {"rlaudit": lambda: settings.cold_audit(log), "start-up": lambda: settings.audit(log)}
    pairs = {f"{name} {order}": (name, order) for name in FRAMEWORKS for order in ORDERS}
    tasks |= {key: lambda pair=pair: theirs(log, *pair) for key, pair in pairs.items()}
    settings.cold_audit(log)
    found = interleave(tasks, settings.repeats)
    start = interpreter_start().median
    ours = [one.wall - start for one in found["rlaudit"]]
    idle = Spread.of(one.wall - start for one in found["start-up"]).median
    own = [
        f"`rlaudit {settings.verb}`",
        Spread.of(ours).text(),
        Spread.of(wall - idle for wall in ours).text(),
        "1",
        "1",
        Spread.of(one.cpu for one in found["rlaudit"]).text(),
        megabytes(found["rlaudit"]),
    ]
    section.rows.append(own)
    for key, (name, order) in pairs.items():
        title = f"{FRAMEWORKS[name]}, {ORDERS[order]}"
        told = [json.loads(one.output.splitlines()[-1]) for one in found[key]]
        phases = [one["seconds"] for one in told]
        work = [sum(seconds.values()) - seconds["import"] for seconds in phases]
        section.rows.append(
            [
                title,
                net(found[key], start).text(),
                Spread.of(work).text(),
                over((one.wall - start for one in found[key]), ours).text(""),
                over(work, (wall - idle for wall in ours)).text(""),
                Spread.of(one["cpu"] for one in told).text(),
                megabytes(found[key]),
            ]
        )
        middle = phases[sorted(range(len(work)), key=work.__getitem__)[len(work) // 2]]
        parts = [f"{phase} {significant(s, 2)}" for phase, s in middle.items() if phase != "import"]
        section.notes.append(f"{title}, seconds of the median run: {', '.join(parts)}.")
    section.notes += [
        "ReMax's greedy rewards are not in the log: the first reward of a group stands in. PPO takes the "
        "logged advantages.",
        "TRL has k3 inside its losses only, and k1 and k2 nowhere: its row has none of the three on their "
        "own. Its losses also compute the metrics that it logs.",
    ]
    return section


def theirs(log: object, framework: str, order: str) -> Measured:
    """Run the audit of one framework in its own environment."""
    return run([PYTHON, "-m", "bench.framework_audit", str(log), framework, *([order] if order else [])])
