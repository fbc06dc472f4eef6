"""Bytes from publishers to subscribers, and nothing else: `python -m benchmarks.net.servers.bare_relay PORT`.

What a Python process on an event loop can do at most: it finds the ends of messages, and hands what came in one read to
everybody who has said that it reads. No topics, no order over several links, no receipts, nothing kept.
"""

import asyncio
import sys
from typing import Final, cast

from benchmarks.net.servers.life import end_with_stdin
from resprout.cli.loop import run_loop

LENGTH_BYTES: Final = 4
READER: Final = b"read"
"""What a subscriber says: a message's length is never as large as this would be."""

_readers: dict[asyncio.Transport, None] = {}


class Relayed(asyncio.Protocol):
    def __init__(self) -> None:
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if data == READER:
            _readers[self._transport] = None
            return
        data = self._rest + data if self._rest else data
        end = whole_messages(data)
        self._rest = data[end:]
        for reader in _readers if end else ():
            reader.write(data[:end])

    def connection_lost(self, error: Exception | None) -> None:
        _readers.pop(self._transport, None)


def whole_messages(data: bytes) -> int:
    """How many bytes of it are messages that have come whole."""
    end, size = 0, len(data)
    while end + LENGTH_BYTES <= size:
        after = end + LENGTH_BYTES + int.from_bytes(data[end : end + LENGTH_BYTES], "big")
        if after > size:
            break
        end = after
    return end


async def serve(port: str) -> None:
    server = await asyncio.get_running_loop().create_server(Relayed, "127.0.0.1", int(port))
    await server.serve_forever()


if __name__ == "__main__":
    end_with_stdin()
    run_loop(serve(sys.argv[1]))
