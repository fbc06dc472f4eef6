"""What all brokers with MQTT know of each session that outlives its connections (`SessionRecords`).

The broker of a session publishes a note on `$mqtt/sessions` whenever something of it must survive the broker: through
the session's own client, so that its notes and its publications arrive everywhere in one order. A publication with QoS
2 carries its packet identifier itself, and names a key of that topic: so a broker knows of the publication when, and
only when, it knows that the identifier was received. Each note holds everything; identifiers of publications count from
the last note on.
"""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from resprout.core.message import Message
from resprout.core.message_fields import BoundedNumber, Mark
from resprout.mqtt.mapping import PREFIX
from resprout.mqtt.packets import PACKET_ID_MAX

SESSIONS: Final = "$mqtt/sessions"
OWN_KEYS: Final = ("sessions",)
SESSION_KEYS: Final = (f"{SESSIONS}#sessions",)
"""What a publication with QoS 2 of such a session names; `OWN_KEYS` is the same on the topic itself."""
PACKET: Final = f"{PREFIX}packet"
"""The attribute with its packet identifier."""
CHECK: Final = f"{PREFIX}check"
"""The attribute of a publication on that topic that is no note: whoever hears this `total` has heard every note, and
every publication with such a key, that was safe before."""
SESSIONS_MAX: Final = 100_000
PAGE_BYTES: Final = 256 << 10


class SessionNote(msgspec.Struct, frozen=True, array_like=True):
    """`data` is None when the session is over."""

    name: str
    stamp: BoundedNumber
    """Of two notes the one with the higher stamp counts."""
    home: str
    """The broker that has the session."""
    client_id: str
    identity: str
    """Whom it belongs to; empty: anybody."""
    done: dict[str, tuple[Mark, ...]]
    """By filter, as the client wrote it, of its durable subscriptions: how far each origin was acknowledged by the
    client. The subscription itself may tell again what was acknowledged last, when its broker has died."""
    data: bytes | None


class KnownSession(msgspec.Struct, frozen=True, array_like=True):
    note: SessionNote
    received: tuple[Annotated[int, msgspec.Meta(ge=1, le=PACKET_ID_MAX)], ...]
    """Packet identifiers of publications since that note."""


_note_decoder: Final = msgspec.msgpack.Decoder(SessionNote)
_page_decoder: Final = msgspec.msgpack.Decoder(tuple[KnownSession, ...])
_FAULTS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class SessionRecords:
    def __init__(self) -> None:
        self._notes: dict[str, SessionNote] = {}
        self._received: dict[str, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._notes)

    def get(self, name: str) -> KnownSession | None:
        note = self._notes.get(name)
        return KnownSession(note, tuple(self._received.get(name, ()))) if note is not None else None

    def hear(self, message: Message) -> None:
        """A note, or a publication with QoS 2. What cannot be read is left out."""
        if message.topic == SESSIONS:
            try:
                note = _note_decoder.decode(message.payload)
            except _FAULTS:
                return
            self._take(note)
        else:
            packet_id = message.attributes.get(PACKET)
            if type(packet_id) is int and 1 <= packet_id <= PACKET_ID_MAX and message.publisher in self._notes:
                self._received.setdefault(message.publisher, {})[packet_id] = None

    def _take(self, note: SessionNote) -> bool:
        known = self._notes.get(note.name)
        if known is not None and known.stamp >= note.stamp:
            return False
        self._received.pop(note.name, None)
        if note.data is None:
            self._notes.pop(note.name, None)
        elif known is not None or len(self._notes) < SESSIONS_MAX:
            self._notes[note.name] = note
        return True

    def pages(self) -> Iterator[bytes]:
        """Everything, for a broker that starts."""
        page: list[KnownSession] = []
        size = 0
        for name in list(self._notes):
            known = self.get(name)
            assert known is not None
            page.append(known)
            size += len(known.note.data or b"") + 8 * len(known.received) + 256
            if size > PAGE_BYTES:
                yield msgspec.msgpack.encode(page)
                page, size = [], 0
        yield msgspec.msgpack.encode(page)

    def merge(self, data: bytes) -> None:
        """Take over what another broker has."""
        try:
            page = _page_decoder.decode(data)
        except _FAULTS:
            return
        for known in page:
            if self._take(known.note):
                self._received[known.note.name] = dict.fromkeys(known.received)
