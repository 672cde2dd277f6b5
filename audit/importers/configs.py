"""One config file as its framework wrote it (YAML, JSON, TOML) → plain dicts, numbers and text.

Read safely: nothing named in a file is built, and a file that unfolds to more than a config can hold is
refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from audit.errors import BadLog
from audit.logs.files import state_of

Config = dict[str, Any]

MOST_BYTES = 4 * 2**20
MOST_JSON = 64 * 2**20
"""Bytes of JSON, which cannot unfold to more than it is: the history of a trainer comes so."""
MOST_VALUES = 200_000
"""Values that YAML may unfold to."""
DEEPEST = 100
"""Levels; what is deeper is no config."""
SUFFIXES = (".yaml", ".yml", ".json", ".toml")

_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")
# As OmegaConf reads them: YAML 1.1 takes 1e-6 for text.
_FLOAT = re.compile(
    r"""^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?
     |[-+]?(?:[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)
     |\.[0-9_]+(?:[eE][-+][0-9]+)?
     |[-+]?\.(?:inf|Inf|INF)
     |\.(?:nan|NaN|NAN))$""",
    re.VERBOSE,
)


def read_config(file: Path) -> Config:
    """Return the config that a file holds; W&B's ``{key: {value: …}}`` is unwrapped.

    ``${a.b}`` takes the value of the key that it names, where there is one.

    Raises
    ------
    BadLog
        The file cannot be read, is too large, or holds no object.
    """
    try:
        size, changed = state_of(file)
    except OSError as error:
        raise BadLog(f"{file}: cannot be read: {error.strerror or error}.") from None
    json_file = file.suffix.lower() == ".json"
    most = MOST_JSON if json_file else MOST_BYTES
    if size > most:
        raise BadLog(f"{file}: is larger than {most >> 20} MiB: not read as a config.")
    return _read(file) if json_file else deepcopy(_read_again(file, size, changed))


@lru_cache(maxsize=16)
def _read_again(file: Path, *_: int) -> Config:
    """Read a file in one state: opening a log asks for its config several times, and YAML is slow."""
    return _read(file)


def _read(file: Path) -> Config:
    suffix = file.suffix.lower()
    try:
        found = _parse(suffix, file.read_text(encoding="utf-8-sig"))
        made = _plain(found, [MOST_JSON if suffix == ".json" else MOST_VALUES], 0)
    except UnicodeDecodeError:
        raise BadLog(f"{file}: is not UTF-8: not read as a config.") from None
    except OSError as error:
        raise BadLog(f"{file}: cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadLog(f"{file}: cannot be read as a config: {why}.") from None
    if not isinstance(made, dict):
        raise BadLog(f"{file}: holds no object: not read as a config.")
    made = _unwrapped(made)
    return dict(_resolved(made, made))


def lookup(config: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key, written nested, dotted or both; None where it is not there."""
    if key in config:
        return config[key]
    parts = key.split(".")
    for cut in range(1, len(parts)):
        inner = config.get(".".join(parts[:cut]))
        if isinstance(inner, Mapping) and (found := lookup(inner, ".".join(parts[cut:]))) is not None:
            return found
    return None


def _parse(suffix: str, text: str) -> Any:
    if suffix == ".json":
        return json.loads(text)
    if suffix == ".toml":
        return tomllib.loads(text)
    import yaml

    try:
        return yaml.load(text, _loader())
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error)
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"{problem}{f' in line {mark.line + 1}' if mark else ''}") from None


@cache
def _loader() -> Any:
    """A safe loader that reads numbers as Hydra does and turns tags of Python objects into plain data."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if not tag.endswith((":float", ":timestamp"))]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))

    def bare(loader: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    Loader.add_multi_constructor("", bare)
    return Loader


def _plain(value: Any, left: list[int], depth: int) -> Any:
    left[0] -= 1
    if left[0] < 0 or depth > DEEPEST:
        raise ValueError(f"it unfolds to too many values or more than {DEEPEST} levels")
    if isinstance(value, Mapping):
        return {str(key): _plain(each, left, depth + 1) for key, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(each, left, depth + 1) for each in value]
    if isinstance(value, int) and abs(value) >= 2**64:
        raise ValueError("it holds a whole number of more than 64 bits")
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _unwrapped(config: Config) -> Config:
    """Take the values out of W&B's ``{"value": …, "desc": …}``."""
    own = {key: value for key, value in config.items() if key != "_wandb"}
    wrapped = own and all(
        isinstance(each, dict) and "value" in each and each.keys() <= {"value", "desc"}
        for each in own.values()
    )
    return {key: each["value"] for key, each in own.items()} if wrapped else own


def _resolved(value: Any, root: Config) -> Any:
    if isinstance(value, dict):
        return {key: _resolved(each, root) for key, each in value.items()}
    if isinstance(value, str) and (match := _REFERENCE.fullmatch(value)):
        named = lookup(root, match[1])
        return named if isinstance(named, (int, float, bool)) or _is_text(named) else value
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "${" not in value
