"""Notes of sessions: bounded in size, and a session whose note is too large ends."""

import msgspec
import pytest

from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.edge.durable_messages import Standing
from resprout.mqtt.packets import Disconnect, FilterRequest, Properties, Subscribe
from resprout.mqtt.reasons import Reason
from resprout.mqtt.state import SessionState
from resprout.mqtt_sessions.ports import OpenerCredentials
from resprout.mqtt_sessions.records import OWN_KEYS, SESSIONS, SessionNote, SessionRecords
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
