"""The engine of a Ray cluster: one task per file, wherever there is a free core.

A task lost with its worker or its node runs again, on another one; so does one whose storage did not answer.
Nothing is kept on the cluster: results come back as they finish, and what was done before an error is not
lost, since the store of facts keeps each part as it arrives.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from audit.errors import AuditError
from audit.logs.parts import Part
from audit.logs.places import Unreachable

RETRIES = 3
"""Times that a task is run again after its worker died, or its storage did not answer."""
_IN_FLIGHT = 2
"""Tasks per core that are handed out: one runs, the next waits at its node."""
_GPU_SHARE = 0.25
"""Tasks of one GPU decode side by side."""
_STORE_BYTES = 512 * 2**20
"""For results on their way, in a cluster that is started here."""
_CONNECT = 5.0
"""Seconds in which an address must answer."""


def compute(
    parts: Sequence[Part],
    names: Sequence[str],
    *,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
    address: str | None = None,
    in_tokens: bool = True,
) -> Iterator[tuple[int, pa.Table]]:
    """Compute facts of some parts of a run on a Ray cluster; equal bytes to those of the local engine.

    Parameters
    ----------
    names : sequence of str
        Facts; see :mod:`audit.facts.columns`.
    device : str
        ``cuda`` takes a quarter of a GPU per task; ``auto`` and ``cpu`` take a core, since decoding is what
        takes the time and a cluster has more cores than GPUs.
    progress : callable, optional
        Called with the rows and tokens of each file that is done.
    address : str, optional
        ``host:port`` or ``ray://host:port``; default: ``RAY_ADDRESS``, else a cluster of this machine's own,
        which ends with the work. One that this process is connected to is used as it is, and left running.
    in_tokens : bool
        The run's ``length`` counts tokens.

    Yields
    ------
    place : int
        Of the part in ``parts``; in order of completion.
    facts : pyarrow.Table
        See :func:`audit.facts.tokenpass.part.facts_of_part`.

    Raises
    ------
    AuditError
        Ray is not installed, the address cannot be reached, or workers die again and again.
    UnknownName, BadLog
        As the local engine.
    """
    if not parts:
        return
    with cluster(address) as ray:
        share = {"num_cpus": 1, "num_gpus": _GPU_SHARE} if device == "cuda" else {"num_cpus": 1}
        task = ray.remote(max_retries=RETRIES, retry_exceptions=[Unreachable], **share)(_facts)
        shared = ray.put((tuple(names), "cuda" if device == "cuda" else "cpu", in_tokens, os.getcwd()))
        room = _IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))
        waiting: dict[Any, int] = {}
        queue = iter(enumerate(parts))
        try:
            while True:
                # Handed out little by little: what waits at the cluster takes memory there.
                while len(waiting) < room and (following := next(queue, None)) is not None:
                    place, part = following
                    waiting[task.remote(part, shared)] = place
                if not waiting:
                    return
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                place = waiting.pop(done)
                table, rows, tokens = _result(ray, done, parts[place].name)
                del done
                if progress is not None:
                    progress(rows, tokens)
                yield place, table
        finally:
            for left in waiting:
                ray.cancel(left, force=False)


def _facts(part: Part, shared: tuple[tuple[str, ...], str, bool, str]) -> tuple[bytes, int, int]:
    """Run in a worker: the facts of one part as an Arrow stream, its rows and its tokens."""
    from audit.facts.engines.memory import keep_freed_memory
    from audit.facts.tokenpass.part import facts_of_part

    names, device, in_tokens, folder = shared
    keep_freed_memory()
    if os.path.isdir(folder):
        # Relative names mean there what they mean here.
        os.chdir(folder)
    done = [0, 0]

    def count(rows: int, tokens: int) -> None:
        done[0] += rows
        done[1] += tokens

    table = facts_of_part(part, names, device=device, in_tokens=in_tokens, progress=count)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    # As bytes they are copied out of Ray's shared memory, which ends with the cluster.
    return sink.getvalue().to_pybytes(), done[0], done[1]


def _result(ray: Any, done: Any, name: str) -> tuple[pa.Table, int, int]:
    failed = ray.exceptions
    try:
        stream, rows, tokens = ray.get(done)
    except failed.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, (AuditError, OSError)):
            raise cause from None
        raise AuditError(f"{name}: a Ray worker failed: {type(cause).__name__}: {_line(cause)}") from None
    except failed.OutOfMemoryError:
        msg = (
            f"{name}: a Ray worker ran out of memory, {RETRIES + 1} times. Give the nodes more memory for "
            "each core (ray start --num-cpus with fewer cores), or write smaller row groups."
        )
        raise AuditError(msg) from None
    except (failed.WorkerCrashedError, failed.NodeDiedError, failed.ObjectLostError) as error:
        msg = f"{name}: its Ray worker died {RETRIES + 1} times ({type(error).__name__}): {_line(error)}"
        raise AuditError(msg) from None
    except failed.RayError as error:
        raise AuditError(f"{name}: Ray failed: {type(error).__name__}: {_line(error)}") from None
    return pa.ipc.open_stream(stream).read_all(), rows, tokens


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Connect to Ray, or start it; around several runs, so that it starts once.

    Parameters
    ----------
    address : str, optional
        As of :func:`compute`, whose clusters this opens too.

    Yields
    ------
    module
        ``ray``, connected; disconnected again afterwards if it was not before.

    Raises
    ------
    AuditError
        Ray is not installed, or the address cannot be reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would hide GPUs that exist from a task that asks for none, and warns that it will not any more.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        msg = "the Ray engine needs the package ray; install it with: pip install 'rlaudit[ray]'"
        raise AuditError(msg) from None
    if ray.is_initialized():
        yield ray
        return
    target = address or os.environ.get("RAY_ADDRESS") or None
    if target is not None:
        _refuse_silent(target)
    own = {} if target else {"include_dashboard": False, "object_store_memory": _STORE_BYTES}
    try:
        ray.init(
            address=target or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **own,
        )
    except (OSError, RuntimeError, ValueError) as error:
        where = f"Ray at {target}" if target else "a Ray cluster on this machine"
        raise AuditError(f"{where} cannot be used: {_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _refuse_silent(address: str) -> None:
    """Raise if nobody listens at ``host:port``: Ray itself would try for long, and then end the process."""
    host, colon, port = address.removeprefix("ray://").partition(":")
    if not colon:
        if address == "auto":
            return
        msg = f"Ray at {address}: expected host:port, as in 10.0.0.1:6379, or ray://host:10001."
        raise AuditError(msg)
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT):
            return
    except (OSError, ValueError, OverflowError) as error:
        msg = f"Ray at {address}: cannot be reached: {_line(error)}. Is it running (ray start --head)?"
        raise AuditError(msg) from None


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
