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
COLUMNS = (
    "audit by",
    "whole process",
    "without imports",
    "over rlaudit's whole process",
    "CPU without imports",
    "over rlaudit's CPU",
    "memory",
)


def measure(settings: Settings) -> Section:
    """Compare on the small log, in turns."""
    section = Section(
        "The same audit by the frameworks' own losses",
        COLUMNS,
        intro=(
            f"{SMALL.tokens / 1e6:.0f} M tokens, nine objectives (REINFORCE, RLOO, ReMax, PPO, GRPO, Dr. "
            "GRPO, DAPO, GSPO, CISPO) and k1, k2, k3. Theirs: the released loss functions on padded batches, "
            "weights by autograd, one objective after another; the log is read (pyarrow, without token ids "
            "and sampler log-probs) and padded once for all nine. Responses are sorted by length within each "
            "update, micro-batches hold up to 65,536 places; float32, two torch threads. Theirs without "
            "imports is set against rlaudit with its own."
        ),
    )
    if not PYTHON.exists():
        section.notes.append("Not measured: the frameworks are not installed (`make conformance` does).")
        return section
    log = make(SMALL)
    tasks = {"rlaudit": lambda: settings.cold_audit(log)}
    tasks |= {name: lambda name=name: theirs(log, name) for name in FRAMEWORKS}
    found = interleave(tasks, settings.repeats)
    start = interpreter_start().median
    ours = [one.wall - start for one in found["rlaudit"]]
    cpu = [one.cpu for one in found["rlaudit"]]
    own = [f"`rlaudit {settings.verb}`", Spread.of(ours).text(), "–", "1", Spread.of(cpu).text(), "1"]
    section.rows.append([*own, megabytes(found["rlaudit"])])
    for name, title in FRAMEWORKS.items():
        told = [json.loads(one.output.splitlines()[-1]) for one in found[name]]
        phases = [one["seconds"] for one in told]
        work = [sum(seconds.values()) - seconds["import"] for seconds in phases]
        section.rows.append(
            [
                title,
                net(found[name], start).text(),
                Spread.of(work).text(),
                over(work, ours).text(""),
                Spread.of(one["cpu"] for one in told).text(),
                over([one["cpu"] for one in told], cpu).text(""),
                megabytes(found[name]),
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


def theirs(log: object, framework: str) -> Measured:
    """Run the audit of one framework in its own environment."""
    return run([PYTHON, "-m", "bench.framework_audit", str(log), framework])
