"""Start the server, and prepare the first page before the first visitor asks for it.

``python -m audit.app.serve`` takes what ``python -m streamlit`` takes.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from threading import Thread

HEAVY = ("pandas", "audit.analyses.explain", "audit.analyses.run_overview", "audit.app.listing")
"""What pages import; none of it knows of Streamlit."""
OF_PAGES = ("audit.app.run_table", "audit.app.access")
"""What the first page imports; none of it draws while it is imported."""
PATIENCE, INTERVAL = 30.0, 0.02  # seconds


def main() -> None:
    """Start the server while the preparations go on beside it."""
    Thread(target=prepare, name="preparations", daemon=True).start()
    from streamlit.web.cli import main as streamlit

    streamlit(prog_name="streamlit")


def prepare() -> None:
    """Import what pages need, and look at the directory; whatever fails, the page will say."""
    for name in HEAVY:
        import_module(name)
    from audit.app.listing import directory
    from streamlit import runtime

    from audit.errors import AuditError

    # A cache that is made before there is a server complains of it.
    end = time.monotonic() + PATIENCE
    while not runtime.exists() and time.monotonic() < end:
        time.sleep(INTERVAL)
    from audit.app import cached

    for name in OF_PAGES:
        import_module(name)
    logs = directory(sys.argv[1:])
    if logs is not None:
        try:
            cached.found(str(logs))
        except (AuditError, OSError):
            # The page meets it again.
            return


if __name__ == "__main__":
    main()
