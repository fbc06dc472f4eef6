"""Brokers that keep events, as processes."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from tests.cli.processes import Running, running


@contextlib.contextmanager
def keeping(
    name: str, data: Path, *words: str, keep: tuple[str, ...] = ("#",), listen: str = "127.0.0.1:0"
) -> Iterator[tuple[Running, str]]:
    """One that keeps what matches, from now on, and its address."""
    kept = [word for each in keep for word in ("--keep", each)]
    with running("broker", "--name", name, "--listen", listen, "--json", "--data", str(data), *kept, *words) as process:
        yield process, await_kept(process, len(keep))


def await_kept(process: Running, count: int) -> str:
    """The address, once so many filters are kept."""
    address = ""
    while count or not address:
        said = json.loads(process.line())
        address = said.get("address", address)
        count -= said.get("kind") == "events"
    return address
