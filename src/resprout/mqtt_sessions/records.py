"""Session notes (`SessionRecords`), replicated on all MQTT brokers: state of all sessions that outlive their
connections, and wills.

The broker of a session publishes a note on `$mqtt/sessions` whenever state must survive the broker. The session's own
client publishes it, so its notes and its publications arrive everywhere in one order. A QoS 2 publication carries its
packet identifier as an attribute and names a key of that topic. So a broker learns of the publication if and only if it
learns that the identifier was received. Each note has the complete state; received packet identifiers are those since
the last note.

If last values are on disk, the broker of a session also retains a note of its subscriptions, whenever these change.
After a restart of all brokers the sessions continue from it: without what was in flight, because a note of that time
would be older than the client.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from resprout.core.message import Message
from resprout.core.message_fields import MARK_BYTES, BoundedNumber, Mark
from resprout.mqtt.mapping import PREFIX
from resprout.mqtt.packets import PACKET_ID_MAX

SESSIONS: Final = "$mqtt/sessions"
KEPT: Final = "$mqtt/kept/"
"""Prefix of the topics of retained notes, one for each session, which survive a restart of all brokers."""
OWN_KEYS: Final = ("sessions",)
SESSION_KEYS: Final = (f"{SESSIONS}#sessions",)
"""Keys of a QoS 2 publication of a session that survives its broker. `OWN_KEYS` is the same key for messages on the
topic itself."""
PACKET: Final = f"{PREFIX}packet"
"""Attribute with the packet identifier."""
CHECK: Final = f"{PREFIX}check"
"""Attribute that marks a check: a `total` on the topic that is not a note. A broker that receives it has received all
notes, and all publications with such a key, that were safe before."""
SESSIONS_MAX: Final = 100_000
NOTES_BYTES_MAX: Final = 256 << 20
"""Maximum size of all notes: every MQTT broker keeps them, and a will may be as large as a payload. The sessions of an
identity may use half of what others leave."""
NOTE_BYTES: Final = 512
"""Approximate memory of a note besides its data and its will."""
PAGE_BYTES: Final = 256 << 10


class SessionNote(msgspec.Struct, frozen=True, array_like=True):
    """State of a session. `data` is the dump; empty if the session ends with its connection and has a will; None if the
    session ended."""

    name: str
    stamp: BoundedNumber
    """Stamp that orders the notes of a session; the highest wins."""
    home: str
    """Process that has the session (`SharedState.home`)."""
    client_id: str
    identity: str
    """Identity that owns the session; empty if it did not authenticate."""
    done: dict[str, tuple[Mark, ...]]
    """Acknowledged positions of each origin, by filter of the durable subscription. The subscription may redeliver the
    last acknowledged messages if its own broker dies."""
    data: bytes | None
    will: bytes = b""
    """Will that was neither published nor deleted, as a PUBLISH packet of MQTT 5; empty for none."""
    will_delay: BoundedNumber = 0
    """Will Delay Interval in seconds."""
    expiry: BoundedNumber = 0
    """Session expiry in seconds."""


class KnownSession(msgspec.Struct, frozen=True, array_like=True):
    note: SessionNote
    received: tuple[Annotated[int, msgspec.Meta(ge=1, le=PACKET_ID_MAX)], ...]
    """Packet identifiers of QoS 2 publications received since the note."""


_note_decoder: Final = msgspec.msgpack.Decoder(SessionNote)
_page_decoder: Final = msgspec.msgpack.Decoder(tuple[KnownSession, ...])
_FAULTS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class SessionRecords:
    def __init__(self) -> None:
        self._notes: dict[str, SessionNote] = {}
        self._received: dict[str, dict[int, None]] = {}
        self._bytes: Counter[str] = Counter()
        """Size of the notes of each identity; those without an identity count together."""

    def __len__(self) -> int:
        return len(self._notes)

    def get(self, name: str) -> KnownSession | None:
        note = self._notes.get(name)
        return KnownSession(note, tuple(self._received.get(name, ()))) if note is not None else None

    def notes(self) -> list[SessionNote]:
        return list(self._notes.values())

    def apply(self, message: Message) -> SessionNote | None:
        """Apply a note or a QoS 2 publication. Ignores messages that cannot be decoded, and notes in the name of
        another client than their publisher: without rules any client may publish them. Return the last note of the
        session if it ended now."""
        if message.topic == SESSIONS:
            try:
                note = _note_decoder.decode(message.payload)
            except _FAULTS:
                return None
            if note.name != message.publisher:
                return None
            before = self._notes.get(note.name)
            return before if self._apply_note(note) and note.data is None else None
        packet_id = message.attributes.get(PACKET)
        if type(packet_id) is int and 1 <= packet_id <= PACKET_ID_MAX and message.publisher in self._notes:
            self._received.setdefault(message.publisher, {})[packet_id] = None
        return None

    def restore(self, message: Message) -> None:
        """Take over a session from its retained note if no other note is known."""
        try:
            note = _note_decoder.decode(message.payload)
        except _FAULTS:
            return
        if note.data and message.topic == KEPT + note.name and note.name not in self._notes:
            self._apply_note(note)

    def _apply_note(self, note: SessionNote) -> bool:
        known = self._notes.get(note.name)
        if known is not None and known.stamp >= note.stamp:
            return False
        self._received.pop(note.name, None)
        has_room = (known is not None or len(self._notes) < SESSIONS_MAX) and self.has_room_for(note)
        if known is not None:
            self._notes.pop(note.name)
            self._bytes[known.identity] -= _size_of(known)
            self._bytes += Counter()  # drop counts of 0
        if note.data is not None and has_room:
            self._notes[note.name] = note
            self._bytes[note.identity] += _size_of(note)
        return True

    def has_room_for(self, note: SessionNote) -> bool:
        """Return whether the note can be kept. One that is no larger than the one before can."""
        known = self._notes.get(note.name)
        before = _size_of(known) if known is not None else 0
        size = _size_of(note)
        if size <= before:
            return True
        others = self._bytes.total() - self._bytes[note.identity]
        used = (
            self._bytes[note.identity] + size - (before if known is not None and known.identity == note.identity else 0)
        )
        return 2 * used <= NOTES_BYTES_MAX - others

    def pages(self) -> Iterator[bytes]:
        """Encode all records in pages, for a broker that starts."""
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
        """Merge a page from another broker."""
        try:
            page = _page_decoder.decode(data)
        except _FAULTS:
            return
        for known in page:
            if self._apply_note(known.note):
                self._received[known.note.name] = dict.fromkeys(known.received)


def _size_of(note: SessionNote) -> int:
    """Return about the memory that a note takes."""
    marks = sum([len(topic_filter) + MARK_BYTES * (1 + len(done)) for topic_filter, done in note.done.items()])
    return NOTE_BYTES + len(note.client_id) + len(note.data or b"") + len(note.will) + marks
