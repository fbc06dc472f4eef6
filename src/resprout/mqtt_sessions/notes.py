"""Publishes the notes of one session (`NoteWriter`)."""

from collections.abc import Callable, Iterable

import msgspec

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark
from resprout.mqtt.packets import Will
from resprout.mqtt_sessions.embedded import EmbeddedClient
from resprout.mqtt_sessions.records import OWN_KEYS, SESSIONS, SessionNote, SessionRecords
from resprout.mqtt_sessions.wills import packed_will


class NoteWriter:
    """Writer of notes in the name of the session's own client, so they follow its publications."""

    def __init__(
        self,
        client: EmbeddedClient,
        wall_us: Callable[[], int],
        name: str,
        client_id: str,
        identity: str,
        retain: Callable[[bytes], None],
        records: SessionRecords,
    ) -> None:
        """`retain` retains a note, or removes the retained one if it is empty. `records`: the notes of all sessions."""
        self._records = records
        self._client = client
        self._wall_us = wall_us
        self._retain = retain
        self._kept: tuple[bytes, int] | None = None
        """Subscriptions and expiry in the retained note; None if this object has not retained one."""
        self._blank = SessionNote(name, 0, "", client_id, identity, {}, None)
        self.count = 0
        """Number of notes that this process published with a state."""
        self.last_safe = 0
        """Number of the last one that is safe."""
        self.will: Will | None = None
        """Will in the last note."""
        self._stamp = 0

    @property
    def has_any(self) -> bool:
        """Whether the other brokers know a note of this session."""
        return self._stamp > 0

    def follow(self, note: SessionNote) -> None:
        """Continue after a note of another process."""
        self._stamp = note.stamp

    def write(
        self, home: str, data: bytes, done: dict[str, tuple[Mark, ...]], will: Will | None, expiry: int
    ) -> tuple[str, int]:
        """Publish the state of the session. Return stream and number of the publication. Raises UsageError if it is too
        large."""
        self.count += 1
        self.will = will
        packet, delay = (b"", 0) if will is None else (packed_will(will), will.properties.will_delay or 0)
        note = msgspec.structs.replace(
            self._blank, home=home, data=data, done=done, will=packet, will_delay=delay, expiry=expiry
        )
        if not self._records.has_room_for(note):
            raise UsageError("the sessions and wills of this identity take too much memory")
        return self._publish(note)

    def keep(self, home: str, data: bytes, filters: Iterable[str], expiry: int) -> None:
        """Retain a note of the subscriptions if these or the session expiry have changed. `data` is their dump."""
        if (data, expiry) != self._kept:
            self._kept = (data, expiry)
            note = msgspec.structs.replace(
                self._blank, stamp=self._stamp, home=home, data=data, done=dict.fromkeys(filters, ()), expiry=expiry
            )
            self._retain(msgspec.msgpack.encode(note))

    def write_end(self, is_kept: bool) -> None:
        """Publish that the session ended. `is_kept` is whether there may be a retained note."""
        self._publish(self._blank)
        if is_kept:
            self._retain(b"")

    def close(self) -> None:
        """Drop the callback, which refers to the session that this object belongs to."""
        self._retain = _nothing

    def write_settled(self, note: SessionNote) -> None:
        """Publish the note of another process without its will."""
        self._publish(msgspec.structs.replace(note, will=b""))

    def _publish(self, note: SessionNote) -> tuple[str, int]:
        self._stamp = max(self._stamp + 1, self._wall_us())
        note = msgspec.structs.replace(note, stamp=self._stamp)
        return self._client.publish(SESSIONS, msgspec.msgpack.encode(note), Guarantee.CAUSAL, {}, OWN_KEYS)


def _nothing(note: bytes) -> None:
    """Ignore what happens after the end of the session."""
