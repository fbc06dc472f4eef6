"""A broker that answers every question with text that steers a terminal, if it gets there."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from resprout.core.contract import EndCode
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.links.frames import Goodbye, Hello
from resprout.net.accounts import (
    BrokerAccount,
    ClientAccount,
    Counters,
    NeighbourAccount,
    NotedLine,
    PassageAnswer,
    Rates,
    StoreAccount,
    TopicAnswer,
)
from resprout.net.sessions import AccountTold, AskAccount, Here, Who, make_codec
from resprout.stacks.status import DurableConsumer, DurableSeen, LogSeen, MemberSeen, RepairSeen
from resprout.wire.codec import FrameReader, FrameWriter

EVIL = "x\x1b]0;owned\x07\x1b[2J\x7f\x9b31m\u202eoops\u2028next\u2066\r\nb9 is fine\u200b\x00\x85"
"""Control characters, C1, bidirectional overrides, line separators: whatever has changed a terminal or a log before."""


def is_harmless(data: bytes) -> bool:
    """Whether these lines hold nothing but printable letters."""
    text = data.decode()
    return all(line.isprintable() for line in text.replace("\t", " ").split("\n"))


@contextlib.contextmanager
def hostile_broker(answer: Callable[[Any, str], Any] | None = None) -> Iterator[str]:
    """Its address, while it listens. `answer` returns what it says to a frame, given its own address: a frame, bytes,
    or None for nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        thread = threading.Thread(target=_serve, args=(server, address, answer or answer_to), daemon=True)
        thread.start()
        try:
            yield address
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(server: socket.socket, address: str, answer: Callable[[Any, str], Any]) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            _answer(connection, address, answer)


def _answer(connection: socket.socket, address: str, answer_to: Callable[[Any, str], Any]) -> None:
    codec = make_codec(CLIENT_MESSAGES)
    reader, writer = FrameReader(codec), FrameWriter(codec)
    while chunk := connection.recv(1 << 16):
        for frame in reader.feed(chunk):
            answer = answer_to(frame, address)
            if answer is not None:
                connection.sendall(writer.write(answer))
                return


def answer_to(frame: Any, address: str) -> Any:
    match frame:
        case Who():
            return Here("b0", "broker", 1, network=EVIL, notices=(EVIL,), stack="resprout")
        case AskAccount(what="account"):
            return AccountTold("b0", msgspec.json.encode(account_of(address)))
        case AskAccount(what="readers"):
            return AccountTold("b0", msgspec.json.encode(TopicAnswer(EVIL, EVIL, (EVIL,), (EVIL,), (EVIL,))))
        case AskAccount():
            passage = PassageAnswer(EVIL, True, EVIL, EVIL, EVIL, time=1.0, passed_to=(EVIL,), readers=(EVIL,), given=2)
            return AccountTold("b0", msgspec.json.encode(passage))
        case Hello():
            return Goodbye(EVIL, code=EndCode.FORBIDDEN)
        case _:
            return None


def account_of(address: str) -> BrokerAccount:
    counts = dict.fromkeys([field for field in Counters.__struct_fields__ if field != "refusals"], 1)
    return BrokerAccount(
        name=EVIL, life=1, address=address, stack=EVIL, version=EVIL, network=EVIL, time=1.0, since=1.0, life_since=1.0,
        ready=True, neighbours=(NeighbourAccount(EVIL, 1, True, 0, 0, silent=True),),
        clients=(ClientAccount(EVIL, 1, True, 0, 0, False),), clients_count=1, connections=1, queue_bytes=1,
        rates=Rates(), counters=Counters(**counts, refusals={EVIL: 1}),
        members=(MemberSeen(f"{EVIL}2", address=EVIL), MemberSeen(f"{EVIL}3", dead=True)),
        repairs=(RepairSeen((EVIL,), EVIL),), recent=(NotedLine(1.0, EVIL, EVIL),), notices=(EVIL,), parent=EVIL,
        site=EVIL, stores=(StoreAccount(EVIL, EVIL, 1, 1, 1, trouble=EVIL),),
        logs=(LogSeen(EVIL, EVIL, (EVIL,), EVIL, EVIL, (EVIL,), trouble=EVIL),),
        durables=(DurableSeen(EVIL, EVIL, EVIL, True, EVIL, EVIL, EVIL, dead_letter=EVIL,
                              consumers=(DurableConsumer(EVIL, 1),)),),
    )  # fmt: skip
