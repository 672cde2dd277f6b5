"""What each foreign format holds and cannot hold, told by the registry: in the terminal and docs/formats.md.

``python -m audit.report.formats`` writes the page to ``docs/``; a test fails when it is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from audit.importers.generic.columns import ALIASES, ASK
from audit.importers.interface import Importer
from audit.schema import REQUIRED, tier_of

_HEAD = """# Logs that rlaudit opens

{count} formats. Every command and the dashboard take the path of such a log as it is: the format is found
out, the log is imported into the user's cache once, file by file, and only what is new is read again. Made
by `python -m audit.report.formats` from `audit/importers/`; the same list in the terminal:
`rlaudit import --formats`.

    rlaudit summary PATH                      # any of these
    rlaudit import PATH runs/mine             # as a run directory of the rollout schema
    rlaudit import log.csv runs/mine --column reward=grade --column prompt=task.text --group-size 8

An import counts every record: read = rows + rejected, with the reason. Columns that the schema does not have
are kept in `extra`. What a log does not say is not made up: checks that need it are skipped and named.

Pickles are never opened, since opening one runs its code. Where the table says "converted", the command
prints the line that writes the same beside it as a plain file; it is run where the framework is installed.

| format | logs | tier reached | groups |
|---|---|---|---|
"""
_MAPPING = """
## A mapping beside the log: rlaudit.toml

`--column`, `--format`, `--group-size` and `--grouping` are options of `rlaudit import` alone. A mapping says
the same to every command and the dashboard. It lies in the folder of the log or in the folder above, where
one serves several logs, and means the same for a file and for its folder:

    format = "generic"             # as --format; default: found out, and generic where columns are named
    group_size = 8                 # as --group-size: where rows have no group id
    grouping = "blocks"            # as --grouping: "blocks", "prompt", "given"

    [columns]                      # as --column: column of the schema = name in the log, or a dotted path
    reward = "grade"
    logp_sampler = "meta.vllm_logprobs"

A log that lacks a name is refused with the columns that were found, and with the lines to write. A directory
lists it with that reason if its files look like rollouts: a score and an answer or its tokens.

## What no column says: run.json

A `run.json` in the folder of a log is read for what the rows cannot say; every field may be absent:

    {
      "run_id": "seq",
      "objective": {"name": "grpo", "aggregation": {"kind": "token-mean"}},
      "framework": {"name": "trl", "version": "0.22.0"},
      "group_size": 8,
      "seed": 1
    }

`objective` is a name of [the catalogue](objectives.md), or fields of one, with `name` on top of that entry.
Also read: `model`, `reference`, `config` (the framework's own), `sampling`, `data`, `length_unit`
([the schema](../schemas/run.v1.schema.json)). Formats of a framework also take a `run.json` of that framework
up to two folders above; without one they look there for the trainer's config.

## Names that are taken for columns

In files of no known framework. Capitals, spaces and dashes do not count. A record may also hold the lists of
many rows (one line a step, or one line a group), and lists may stand as JSON in a string.

| column | also taken |
|---|---|
"""
_ASK = """
Not taken until somebody says (`--column`), as they may mean several things: {names}.

Group ids that start again at every step are told apart by step; ids that every row has for itself are not
taken. Without ids groups are rebuilt: blocks of one prompt, else all rows of a prompt within a step; what
contradicts itself gets no groups, and the reason is said.
"""
_HOW = {
    "given": "by id",
    "blocks": "rebuilt from blocks of one prompt",
    "prompt": "rebuilt from equal prompts of a step",
}


class Format(msgspec.Struct, frozen=True):
    """One format, as ``rlaudit import --formats --json`` lists them."""

    name: str
    title: str
    holds: list[str]
    """Columns that such a log can fill."""
    cannot: str
    groups: str
    tier: int
    """Highest tier that such a log can reach."""


def described(importers: Iterable[Importer]) -> list[Format]:
    """Return every format, in the order of the registry."""
    return [
        Format(
            each.name,
            each.title,
            list(each.holds),
            each.cannot,
            _HOW[each.grouping],
            # A reward is no matter of course: some trainers take it out before they write.
            tier_of([*(name for name in REQUIRED if name != "reward"), *each.holds]),
        )
        for each in importers
    ]


def page_text(importers: Iterable[Importer]) -> str:
    """Return the page as it stands in the file."""
    formats = described(importers)
    lines = [_HEAD.format(count=len(formats)).rstrip()]
    lines += [f"| [{f.name}](#{f.name}) | {_cell(f.title)} | {f.tier} | {f.groups} |" for f in formats]
    for each in formats:
        lines += [f"\n## {each.name}\n", f"{each.title}.\n"]
        lines.append(f"- Holds: {', '.join(f'`{name}`' for name in each.holds) or 'what its names say'}.")
        lines.append(f"- Groups: {each.groups}.")
        if each.cannot:
            lines.append(f"- Holds {each.cannot}.")
    lines.append(_MAPPING.rstrip())
    lines += [f"| {column} | {', '.join(names.split())} |" for column, names in ALIASES.items()]
    asked = "; ".join(f"`{name}` ({meaning})" for name, meaning in ASK.items())
    return "\n".join([*lines, _ASK.format(names=asked).rstrip()]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    from audit.importers import IMPORTERS

    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs") / "formats.md"
    target.write_text(page_text(IMPORTERS), encoding="utf-8")
