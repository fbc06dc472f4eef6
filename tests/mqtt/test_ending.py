"""Ends of connections and sessions: keep alive, DISCONNECT, wills, expiry, takeover."""

import pytest

from resprout.mqtt.actions import CloseConnection, EndSession, PublishWill
from resprout.mqtt.limits import NEVER_SECONDS, ServerLimits
from resprout.mqtt.packets import V3_1_1, V5, Disconnect, FilterRequest, Pingreq, Pingresp, Properties, Subscribe, Will
from resprout.mqtt.reasons import Reason
from resprout.mqtt.session import Phase
from tests.mqtt.examples import VERSIONS
from tests.mqtt.rig import DEFAULT, Rig

WILL = Will("w", b"gone", 1, True)


def delayed(seconds: int) -> Will:
    return Will("w", b"gone", properties=Properties(will_delay=seconds))


def connected(
    version: int = V5,
    will: Will | None = WILL,
    keep_alive: int = 0,
    expiry: int = 0,
    limits: ServerLimits = DEFAULT,
) -> Rig:
    rig = Rig(version, limits)
    if version == V5:
        rig.connect(keep_alive=keep_alive, will=will, session_expiry=expiry)
    else:
        rig.connect(keep_alive=keep_alive, will=will, clean=not expiry)
    return rig


# -- keep alive --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_silence_of_one_and_a_half_keep_alives_ends_the_connection(version: int) -> None:
    rig = connected(version, keep_alive=10)
    assert rig.wait(14.9) == []
    assert rig.hear(Pingreq()) == [Pingresp()]
    assert rig.wait(14.9) == []
    sent = rig.wait(0.1)
    assert [packet.reason for packet in sent] == ([Reason.KEEP_ALIVE_TIMEOUT] if version == V5 else [])
    assert rig.take_one(CloseConnection).reason == Reason.KEEP_ALIVE_TIMEOUT
    assert rig.take_one(PublishWill).will == WILL


def test_any_packet_counts_against_silence() -> None:
    rig = connected(keep_alive=10)
    for _ in range(5):
        rig.wait(12)
        rig.publish("t")
    assert not rig.is_closed


def test_without_a_keep_alive_nothing_is_due() -> None:
    rig = connected()
    assert rig.machine.next_deadline_us is None
    rig.wait(1e6)
    assert not rig.is_closed


def test_the_keep_alive_of_the_server_counts() -> None:
    rig = Rig(limits=ServerLimits(keep_alive_max=4))
    assert rig.connect(keep_alive=0).properties.server_keep_alive == 4
    rig.wait(6)
    assert rig.is_closed
    rig = Rig(V3_1_1, ServerLimits(keep_alive_max=4))
    rig.connect(keep_alive=100)
    rig.wait(6)
    assert rig.is_closed


# -- DISCONNECT and wills ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_disconnect_clears_the_will(version: int) -> None:
    rig = connected(version)
    assert rig.hear(Disconnect()) == []
    assert rig.take_one(CloseConnection).reason == 0
    rig.take_one(EndSession)
    assert not rig.actions
    assert rig.machine.phase is Phase.OVER
    rig.lose()
    assert not rig.actions


@pytest.mark.parametrize("reason", [Reason.DISCONNECT_WITH_WILL, Reason.UNSPECIFIED_ERROR])
def test_disconnect_with_another_reason_publishes_the_will(reason: Reason) -> None:
    rig = connected()
    rig.hear(Disconnect(reason))
    assert rig.take_one(PublishWill).will == WILL


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lost_connection_publishes_the_will(version: int) -> None:
    rig = connected(version)
    rig.lose()
    assert [type(action) for action in rig.actions] == [PublishWill, EndSession]


def test_a_protocol_error_publishes_the_will() -> None:
    rig = connected()
    rig.ask()
    assert [type(action) for action in rig.actions] == [CloseConnection, PublishWill, EndSession]


def test_the_server_ends_the_connection() -> None:
    rig = connected()
    (disconnect,) = rig.run(rig.machine.stop(Reason.ADMINISTRATIVE_ACTION, "by hand", rig.now))
    assert (disconnect.reason, disconnect.properties.reason_string) == (Reason.ADMINISTRATIVE_ACTION, "by hand")
    rig.take_one(PublishWill)
    old = connected(V3_1_1)
    assert old.run(old.machine.stop(Reason.SERVER_SHUTTING_DOWN, "", old.now)) == []
    assert old.is_closed


def test_a_reason_that_disconnect_cannot_have() -> None:
    rig = connected()
    (disconnect,) = rig.run(rig.machine.stop(Reason.SERVER_UNAVAILABLE, "", rig.now))
    assert disconnect.reason == Reason.SERVER_BUSY


def test_a_will_is_delayed() -> None:
    rig = connected(will=delayed(5), expiry=60)
    rig.lose()
    rig.wait(4.9)
    assert not rig.actions
    rig.wait(0.1)
    assert rig.take_one(PublishWill).will == delayed(5)
    rig.wait(100)
    rig.take_one(EndSession)
    assert not rig.actions


def test_a_will_is_due_when_the_session_ends() -> None:
    rig = connected(will=delayed(100), expiry=10)
    rig.lose()
    rig.wait(9.9)
    assert not rig.actions
    rig.wait(0.1)
    assert [type(action) for action in rig.actions] == [PublishWill, EndSession]


def test_a_will_without_a_session_is_not_delayed() -> None:
    rig = connected(will=delayed(100), expiry=0)
    rig.lose()
    assert [type(action) for action in rig.actions] == [PublishWill, EndSession]


def test_a_client_that_comes_back_in_time_has_no_will_published() -> None:
    first = connected(will=delayed(5), expiry=60)
    first.lose()
    first.wait(4)
    second = first.again()
    second.connect(clean=False, session_expiry=60, state=first.state)
    second.wait(100)
    assert not first.actions
    assert not second.actions


# -- session expiry ----------------------------------------------------------------------------------------------------


def test_a_session_lives_until_it_expires() -> None:
    rig = connected(will=None, expiry=10)
    rig.lose()
    assert rig.machine.phase is Phase.AWAY
    rig.wait(9.9)
    assert not rig.actions
    rig.wait(0.1)
    rig.take_one(EndSession)
    assert rig.run(rig.machine.discard(rig.now)) == []


@pytest.mark.parametrize("version", [V3_1_1, V5])
def test_a_session_that_never_expires(version: int) -> None:
    rig = connected(version, will=None, expiry=NEVER_SECONDS)
    rig.lose()
    assert rig.machine.next_deadline_us is None
    rig.wait(1e9)
    assert not rig.actions


def test_the_server_bounds_session_expiry() -> None:
    for version in (V3_1_1, V5):
        rig = connected(version, will=None, expiry=NEVER_SECONDS, limits=ServerLimits(session_expiry_max=60))
        rig.lose()
        rig.wait(60)
        rig.take_one(EndSession)


def test_disconnect_changes_the_expiry() -> None:
    rig = connected(will=None, expiry=10)
    rig.hear(Disconnect(properties=Properties(session_expiry=20)))
    rig.take_one(CloseConnection)
    rig.wait(19.9)
    assert not rig.actions
    rig.wait(0.1)
    rig.take_one(EndSession)
    rig = connected(will=None, expiry=10)
    rig.hear(Disconnect(properties=Properties(session_expiry=0)))
    rig.take_one(EndSession)


def test_disconnect_gives_no_life_to_a_session_that_had_none() -> None:
    rig = connected(expiry=0)
    (disconnect,) = rig.hear(Disconnect(properties=Properties(session_expiry=20)))
    assert disconnect.reason == Reason.PROTOCOL_ERROR
    assert [type(action) for action in rig.actions] == [CloseConnection, PublishWill, EndSession]


# -- takeover ----------------------------------------------------------------------------------------------------------


def test_another_connection_takes_the_session() -> None:
    first = connected(expiry=60)
    first.subscribe("a", qos=1)
    first.deliver("a", b"1")
    (disconnect,) = first.run(first.machine.stop(Reason.SESSION_TAKEN_OVER, "", first.now))
    assert disconnect.reason == Reason.SESSION_TAKEN_OVER
    assert [type(action) for action in first.actions] == [CloseConnection, PublishWill]
    second = first.again()
    assert second.connect(clean=False, session_expiry=60, state=first.state).session_present
    assert [each.payload for each in second.sent[1:]] == [b"1"]


def test_a_takeover_makes_a_delayed_will_void() -> None:
    first = connected(will=delayed(5), expiry=60)
    first.run(first.machine.stop(Reason.SESSION_TAKEN_OVER, "", first.now))
    assert [type(action) for action in first.actions] == [CloseConnection]


def test_a_clean_start_ends_the_session_and_publishes_a_delayed_will() -> None:
    first = connected(will=delayed(5), expiry=60)
    first.run(first.machine.stop(Reason.SESSION_TAKEN_OVER, "", first.now))
    first.run(first.machine.discard(first.now))
    assert [type(action) for action in first.actions] == [CloseConnection, PublishWill, EndSession]
    away = connected(will=delayed(5), expiry=60)
    away.lose()
    away.run(away.machine.discard(away.now))
    assert [type(action) for action in away.actions] == [PublishWill, EndSession]
    open_still = connected(will=None, expiry=60)
    open_still.run(open_still.machine.discard(open_still.now))
    assert [type(action) for action in open_still.actions] == [CloseConnection, EndSession]


def test_a_session_without_expiry_ends_when_it_is_taken_over() -> None:
    first = connected(will=None, expiry=0)
    first.run(first.machine.stop(Reason.SESSION_TAKEN_OVER, "", first.now))
    first.take_one(EndSession)
    assert first.run(first.machine.discard(first.now)) == []


# -- after the end -----------------------------------------------------------------------------------------------------


def test_nothing_is_heard_after_the_end() -> None:
    rig = connected(expiry=60, will=None)
    rig.hear(Disconnect())
    rig.actions.clear()
    assert rig.hear(Pingreq()) == []
    assert rig.publish("t", qos=1, packet_id=1) == []
    assert rig.hear(Subscribe(1, (FilterRequest("a", 1),))) == []
    assert not rig.actions


def test_auth_is_a_protocol_error() -> None:
    rig = connected()
    (disconnect,) = rig.hear_bytes(bytes.fromhex("f000"))
    assert disconnect.reason == Reason.PROTOCOL_ERROR


def test_malformed_packets_are_answered_with_their_reason() -> None:
    rig = connected()
    (disconnect,) = rig.hear_bytes(bytes.fromhex("36 07 0001 61 0001 00 78"))
    assert disconnect.reason == Reason.MALFORMED_PACKET
    old = connected(V3_1_1)
    assert old.hear_bytes(bytes.fromhex("36 06 0001 61 0001 78")) == []
    assert old.take_one(CloseConnection).reason == Reason.MALFORMED_PACKET
