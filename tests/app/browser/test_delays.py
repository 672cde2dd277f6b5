"""The server answers at once: no packet waits for the acknowledgement of the one before."""

from __future__ import annotations

import http.client
import re
import time
import urllib.request

ACKNOWLEDGED_AFTER = 0.040
"""Seconds for which Linux keeps back an acknowledgement at most."""


def test_files_of_a_page_do_not_wait_for_acknowledgements(address: str) -> None:
    with urllib.request.urlopen(address) as answer:
        script = re.search(rb'src="\.?(/static/js/[^"]+)"', answer.read())
    assert script is not None
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    took = []
    for _ in range(20):
        start = time.perf_counter()
        connection.request("HEAD", script[1].decode())
        connection.getresponse().read()
        connection.request("GET", "/_stcore/host-config")
        assert connection.getresponse().read()
        took.append(time.perf_counter() - start)
    connection.close()
    # On a busy machine some are slow; with Nagle's algorithm every one is.
    assert min(took[1:]) < 0.75 * ACKNOWLEDGED_AFTER
