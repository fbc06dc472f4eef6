"""Notes of sessions: bounded in size, and a session whose note is too large ends."""

import msgspec
import pytest

from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.edge.durable_messages import Standing
from resprout.mqtt.packets import Disconnect, FilterRequest, Properties, Subscribe, Will
from resprout.mqtt.reasons import Reason
from resprout.mqtt.state import SessionState
from resprout.mqtt_sessions import records as records_module
from resprout.mqtt_sessions.ports import OpenerCredentials
from resprout.mqtt_sessions.records import NOTE_BYTES, OWN_KEYS, SESSIONS, SessionNote, SessionRecords
from resprout.mqtt_sessions.sources import DurableSource
from tests.mqtt.peer import mqtt_peer
from tests.mqtt.rig import tree_message
from tests.mqtt.stage import mqtt_broker
from tests.net.stage import run


def test_a_session_that_cannot_be_saved_ends_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionState, "dump", lambda state, unpublished: bytes(2 << 20))

    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as one, mqtt_peer(broker.address) as other:
            await other.connect("other")
            one_state = Properties(session_expiry=60)
            await one.connect("one", properties=one_state)
            one.say(Subscribe(1, (FilterRequest("a"),)))
            (last,) = await one.ended()
            assert isinstance(last, Disconnect)
            assert last.reason == Reason.QUOTA_EXCEEDED
            assert "cannot be saved" in (last.properties.reason_string or "")
            assert "one" not in broker.server.sessions
            assert (await other.subscribe("a")).reasons == (2,)

    run(work())


def test_a_note_has_the_latest_positions_of_a_subscription() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker:

            def hear(source: DurableSource, *given: object) -> None: ...
            def over(source: DurableSource, standing: Standing, reason: str) -> None: ...

            who = OpenerCredentials("127.0.0.1")
            source = DurableSource(broker.server, "one", "a/#", who, None, hear, hear, over, hear)
            messages: list[Message] = [tree_message(publisher=f"p{number}") for number in range(9)]
            source.acknowledge(messages)
            source.acknowledge(messages[:1])
            assert [mark.publisher for mark in source.marks(3)] == ["p7", "p8", "p0"]
            assert len(source.marks(100)) == 9
            await source.close()

    run(work())


def test_an_identity_leaves_room_for_the_sessions_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every broker keeps the notes of all sessions: 1,024 sessions with wills of 1 MB took 1 GB of each."""
    monkeypatch.setattr(records_module, "NOTES_BYTES_MAX", 8 * (NOTE_BYTES + 1_000))
    records = SessionRecords()

    def begin(identity: str, number: int, will: int, stamp: int = 1, data: bytes | None = b"") -> bool:
        name = f"{identity}.{number}"
        note = SessionNote(name, stamp, "b0.1", "", identity, {}, data, bytes(will))
        has_room = records.has_room_for(note)
        payload = msgspec.msgpack.encode(note)
        records.apply(Message(name, 1, 1, SESSIONS, OWN_KEYS, Guarantee.CAUSAL, {}, payload, 0))
        assert (records.get(name) is not None) == (has_room and data is not None)
        return has_room

    assert [begin("one", number, 1_000) for number in range(5)] == [True] * 4 + [False]
    assert [begin("two", number, 1_000) for number in range(3)] == [True] * 2 + [False]
    assert begin("one", 0, 900, 2), "it becomes smaller"
    assert begin("one", 1, 0, 2, None), "it ends"
    assert begin("two", 0, 0, 2, None)
    assert begin("two", 1, 0, 2, None)
    assert begin("one", 5, 1_000)


def test_a_will_for_which_there_is_no_room_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "NOTES_BYTES_MAX", 10_000)

    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as one, mqtt_peer(broker.address) as other:
            await one.connect("one", will=Will("w", bytes(6_000), 0, False))
            (last,) = await one.ended()
            assert isinstance(last, Disconnect)
            assert last.reason == Reason.QUOTA_EXCEEDED
            await other.connect("other", will=Will("w", bytes(1_000), 0, False))
            assert (await other.subscribe("a")).reasons == (2,)

    run(work())


def test_only_the_client_of_a_session_says_what_its_state_is() -> None:
    """Without rules, a client that published the note of another one had its own will published, or ended its
    session."""
    records = SessionRecords()

    def say(publisher: str, note: SessionNote) -> None:
        records.apply(
            Message(publisher, 1, 1, SESSIONS, OWN_KEYS, Guarantee.CAUSAL, {}, msgspec.msgpack.encode(note), 0)
        )

    note = SessionNote("victim", 5, "b0.1", "victim", "", {}, b"state", b"", 0, 60)
    say("victim", note)
    say("evil", msgspec.structs.replace(note, stamp=6, will=b"will"))
    say("evil", msgspec.structs.replace(note, stamp=7, data=None))
    known = records.get("victim")
    assert known is not None and known.note == note
