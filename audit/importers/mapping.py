"""``rlaudit.toml`` beside a foreign log: which format it is, which columns mean what, how large groups are.

    format = "generic"
    group_size = 8
    grouping = "blocks"          # or "prompt", "given"

    [columns]                    # column of the rollout schema = name in the log
    reward = "grade"
    logp_sampler = "meta.vllm_logprobs"

It lies in the folder of the log or in the folder above. With it every command
and the dashboard open the log; ``rlaudit import`` takes it with ``--mapping`` too.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import msgspec

from audit.errors import BadLog, UnknownName
from audit.importers.interface import Grouping, Options
from audit.logs.places import is_remote
from audit.schema import BY_NAME

FILE_NAME = "rlaudit.toml"
PSEUDO = ("prompt_token_ids", "messages")
"""What a log may hold in place of a prompt: its token ids, or a conversation that ends with the response."""
_LONGEST = 2**20


class Mapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user says of a foreign log."""

    format: str | None = None
    columns: dict[str, str] = {}
    group_size: int | None = None
    grouping: Grouping | None = None

    def options(self) -> Options:
        """Return it as an importer takes it.

        Raises
        ------
        UnknownName
            It names a column that the schema does not have.
        """
        for name in self.columns:
            if name not in BY_NAME and name not in PSEUDO:
                raise UnknownName.of("column of the rollout schema", name, [*BY_NAME, *PSEUDO])
        return Options(dict(self.columns), self.group_size, self.grouping)


def read_mapping(file: Path) -> Mapping:
    """Read a mapping.

    Raises
    ------
    BadLog
        It is not TOML, or has a key or value that means nothing; names it.
    """
    try:
        if file.stat().st_size > _LONGEST:
            msg = f"{file}: is too large to be a mapping."
            raise BadLog(msg)
        found = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        return msgspec.convert(found, Mapping)
    except OSError as error:
        msg = f"{file}: {error.strerror or error}."
        raise BadLog(msg) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{file}: is not TOML: {error}."
        raise BadLog(msg) from None
    except msgspec.ValidationError as error:
        known = ", ".join(Mapping.__struct_fields__)
        msg = f"{file}: {error}. A mapping holds {known}."
        raise BadLog(msg) from None


def mapping_near(path: Path) -> Mapping | None:
    """Return the mapping in the folder of a log, or beside that folder; None where there is none.

    Raises
    ------
    BadLog
        It cannot be read.
    """
    file = mapping_file(path)
    return None if file is None else read_mapping(file)


def mapping_file(path: Path) -> Path | None:
    """Return the file of :func:`mapping_near`."""
    folder = path if path.is_dir() else path.parent
    # The parent of "." or ".." is not in the name.
    above = folder.parent if is_remote(folder) else Path(os.path.abspath(folder)).parent
    return next((place / FILE_NAME for place in (folder, above) if (place / FILE_NAME).is_file()), None)
