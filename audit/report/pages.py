"""What every page as a file is made with: templates that escape, and a file that is whole or not there."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from audit.errors import AuditError
from audit.report import charts_svg
from audit.report import format as fmt
from audit.report.as_json import as_json
from audit.report.markdown import code, escaped


def render(template: str, result: Any, **names: Any) -> str:
    """Fill a template of ``audit/report/templates``; ``x`` is the result, ``json`` all of its numbers."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("audit.report"),
        autoescape=select_autoescape(enabled_extensions=("html.j2",), default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"visible": fmt.visible, "code": code, "md": escaped, "count": fmt.count}
    return environment.get_template(template).render(
        x=result,
        fmt=fmt,
        charts=charts_svg,
        json=as_json(_short(result)),
        version=version("rlaudit"),
        **names,
    )


def _short(result: Any) -> Any:
    """The result for the page's own copy of its numbers: a name of a megabyte stands in it many times."""

    def cut(value: Any) -> Any:
        if isinstance(value, str):
            return fmt.shortened(value)
        if isinstance(value, dict):
            return {cut(key): cut(each) for key, each in value.items()}
        return [cut(each) for each in value] if isinstance(value, (list, tuple)) else value

    return cut(msgspec.to_builtins(result))


def write_page(path: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises
    ------
    AuditError
        No file can be written there.
    """
    temporary = path.with_name(f".{path.stem[:100]}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        msg = f"{path}: cannot be written: {error.strerror or error}."
        raise AuditError(msg) from None
