"""Every format that can be imported. Adding one: its file, its test, and a line here."""

from __future__ import annotations

from audit.importers import generic, trl, verl
from audit.importers.interface import Importer

IMPORTERS: tuple[Importer, ...] = (trl.IMPORTER, verl.IMPORTER, generic.IMPORTER)
