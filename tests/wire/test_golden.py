"""The bytes of a few frames, kept in a file: a change of the format is made on purpose or not at all.

RESPROUT_REWRITE_GOLDEN=1 writes the file anew; read the difference before keeping it.
"""

import os
from pathlib import Path
from typing import Any

from resprout.core.guarantee import Guarantee, Receipt
from resprout.edge.messages import (
    CLIENT_MESSAGES,
    Advertise,
    Delivery,
    Publish,
    PublishRefused,
    Serving,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Taken,
    Turned,
    Unadvertise,
    Unsubscribe,
    Unsubscribed,
)  # fmt: skip
from resprout.links.frames import Goodbye
from resprout.wire.framing import FrameReader, FrameWriter

from .examples import CODEC, HELLO, WELCOME, bundle, data

FILE = Path(__file__).parent / "golden" / "conversation.txt"

CONVERSATION: dict[str, Any] = {
    "hello": HELLO,
    "welcome": WELCOME,
    "heartbeat": data(),
    "a publication, names in full": data(Publish(bundle())),
    "the next one, names as numbers": data(Publish(bundle(first=2, stamp=300))),
    "keys, one of another topic": data(Publish(bundle(keys=("acc-1", "bank/fr#acc-2"), guarantee=Guarantee.TOTAL))),
    "the same keys, and attributes": data(
        Publish(bundle(keys=("acc-1", "bank/fr#acc-2"), rows=[{"amount": 120, "rate": 0.5, "ok": True, "to": "é"}]))
    ),
    "numbers beyond 32 bits, twice": data(
        Publish(bundle(first=2**40 + 1, stamp=2**33)), Publish(bundle(first=2**40 + 2, stamp=2**33 + 1))
    ),
    "three eventual messages in a bundle": data(
        Publish(bundle(payloads=[b"a", b"", b"ccc"], guarantee=Guarantee.EVENTUAL))
    ),
    "what clients say": data(
        Subscribe(1, "bank/+", "amount > 100"), Subscribe(2, "#", None), Unsubscribe(1), Advertise("bank/pt"),
        Unadvertise("bank/pt"), Taken(12),
    ),
    "what brokers say": data(
        Serving("resprout", tuple(Guarantee), 1), Subscribed(1), SubscribeRefused(2, "no"), Unsubscribed(1),
        Turned("ordered", Receipt.SAFE, 7), PublishRefused("eventual", 3, 2, "full"),
    ),
    "deliveries": data(
        Delivery(bundle("c1", first=9), 3, 6, None),
        Delivery(bundle("c1", first=10, payloads=[b"x", b"y"]), 3, 6, (0, 5)),
    ),
    "goodbye": Goodbye("done"),
}  # fmt: skip


def transcript() -> str:
    writer = FrameWriter(CODEC)
    return "".join(f"{name}\n  {writer.write(frame).hex()}\n" for name, frame in CONVERSATION.items())


def test_the_bytes_of_the_conversation_are_those_in_the_file() -> None:
    if os.environ.get("RESPROUT_REWRITE_GOLDEN"):
        FILE.write_text(transcript())
    assert transcript() == FILE.read_text()


def test_the_bytes_in_the_file_are_the_conversation() -> None:
    stream = b"".join(bytes.fromhex(line) for line in FILE.read_text().splitlines() if line.startswith("  "))
    assert FrameReader(CODEC).feed(stream) == list(CONVERSATION.values())


def test_the_conversation_leaves_no_message_type_out() -> None:
    said = {type(message) for frame in CONVERSATION.values() for message in getattr(frame, "messages", ())}
    assert said == set(CLIENT_MESSAGES)
