"""CONNECT and CONNACK: refusals, announced limits, and packets that arrive before CONNACK."""

import pytest

from resprout.core.errors import UsageError
from resprout.mqtt.actions import CloseConnection, EndSession, OpenSession, PublishMessage, PublishWill
from resprout.mqtt.limits import NEVER_SECONDS, ServerLimits
from resprout.mqtt.packets import (
    V3_1,
    V3_1_1,
    V5,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    Will,
)
from resprout.mqtt.reasons import Reason, ReturnCode
from resprout.mqtt.session import EARLY_BYTES_MAX, Phase
from tests.mqtt.examples import VERSIONS
from tests.mqtt.rig import DEFAULT, Rig


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_connects(version: int) -> None:
    rig = Rig(version)
    assert rig.hear(Connect("me", version, False, 30, username="u", password=b"p")) == []
    asked = rig.take_one(OpenSession)
    assert (asked.client_id, asked.clean_start, asked.username, asked.password) == ("me", False, "u", b"p")
    assert asked.keep_alive == 30
    assert asked.expiry == (0 if version == V5 else NEVER_SECONDS)
    assert rig.machine.is_opening
    (connack,) = rig.run(rig.machine.opened(None, "me", rig.now))
    assert not connack.session_present
    assert connack.reason == 0
    assert rig.machine.phase is Phase.OPEN
    assert rig.hear(Pingreq()) == [Pingresp()]


def test_a_clean_session_of_mqtt_3_ends_with_its_connection() -> None:
    rig = Rig(V3_1_1)
    rig.ask(clean=True)
    assert rig.take_one(OpenSession).expiry == 0


def test_connack_tells_what_the_server_offers() -> None:
    limits = ServerLimits(
        receive_maximum=7, packet_bytes_max=1_000, topic_alias_max=3, session_expiry_max=60, keep_alive_max=20,
        retain_available=False, shared_available=False, maximum_qos=1, response_information="answers",
    )  # fmt: skip
    rig = Rig(limits=limits)
    connack = rig.connect(
        "", keep_alive=30, session_expiry=100, request_response_information=1, state=None
    )  # fmt: skip
    assert connack.properties == Properties(
        receive_maximum=7, maximum_packet_size=1_000, topic_alias_maximum=3, session_expiry=60, server_keep_alive=20,
        retain_available=0, shared_subscription_available=0, maximum_qos=1, response_information="answers/c",
        assigned_client_identifier="c",
    )  # fmt: skip


def test_connack_leaves_out_what_need_not_be_said() -> None:
    connack = Rig(limits=ServerLimits(topic_alias_max=0, receive_maximum=65_535)).connect(keep_alive=30)
    assert connack.properties == Properties(maximum_packet_size=DEFAULT.packet_bytes_max)


def test_a_session_that_is_present() -> None:
    first = Rig()
    first.connect(session_expiry=10)
    first.lose()
    assert first.again().connect(clean=False, session_expiry=10, state=first.state).session_present


def test_empty_client_identifiers() -> None:
    rig = Rig(V5)
    rig.ask("", clean=False)
    assert rig.take_one(OpenSession).client_id == ""
    rig = Rig(V3_1_1)
    rig.ask("", clean=True)
    assert rig.take_one(OpenSession).client_id == ""
    rig = Rig(V3_1_1)
    assert rig.ask("", clean=False) == [Connack(False, ReturnCode.IDENTIFIER_REJECTED)]
    assert rig.is_closed
    assert Rig(V3_1).ask("", clean=True) == [Connack(False, ReturnCode.IDENTIFIER_REJECTED)]


def test_long_client_identifiers_are_refused() -> None:
    limits = ServerLimits(client_id_bytes_max=30)
    for version, reason in ((V5, Reason.CLIENT_IDENTIFIER_NOT_VALID), (V3_1, ReturnCode.IDENTIFIER_REJECTED)):
        rig = Rig(version, limits)
        (connack,) = rig.ask("x" * 31)
        assert connack.reason == reason
        assert rig.take_one(CloseConnection).reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
        rig = Rig(version, limits)
        assert rig.ask("x" * 30) == []


def test_enhanced_authentication_is_refused() -> None:
    rig = Rig()
    (connack,) = rig.ask(authentication_method="SCRAM-SHA-256", authentication_data=b"x")
    assert connack.reason == Reason.BAD_AUTHENTICATION_METHOD
    assert rig.is_closed


@pytest.mark.parametrize(
    ("will", "limits", "reason"),
    [
        (Will("w", b"x", 2), ServerLimits(maximum_qos=1), Reason.QOS_NOT_SUPPORTED),
        (Will("w", b"x", 0, True), ServerLimits(retain_available=False), Reason.RETAIN_NOT_SUPPORTED),
        (Will("$SYS/x", b"x"), DEFAULT, Reason.NOT_AUTHORIZED),
        (Will("w/" * 40, b"x"), DEFAULT, Reason.TOPIC_NAME_INVALID),
        (Will("w", b"\xff", properties=Properties(payload_format=1)), DEFAULT, Reason.PAYLOAD_FORMAT_INVALID),
        (Will("w", b"", properties=Properties(user=(("a", "b" * 1_025),) * 70)), DEFAULT, Reason.QUOTA_EXCEEDED),
    ],
)
def test_wills_that_cannot_be_published_are_refused_at_once(will: Will, limits: ServerLimits, reason: Reason) -> None:
    rig = Rig(limits=limits)
    (connack,) = rig.ask(will=will)
    assert connack.reason == reason
    assert rig.is_closed
    assert not rig.take(PublishWill)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.NOT_AUTHORIZED, ReturnCode.NOT_AUTHORIZED),
        (Reason.BAD_USER_NAME_OR_PASSWORD, ReturnCode.BAD_USER_NAME_OR_PASSWORD),
        (Reason.SERVER_UNAVAILABLE, ReturnCode.SERVER_UNAVAILABLE),
        (Reason.SERVER_SHUTTING_DOWN, ReturnCode.SERVER_UNAVAILABLE),
        (Reason.CLIENT_IDENTIFIER_NOT_VALID, ReturnCode.IDENTIFIER_REJECTED),
    ],
)
def test_the_tree_refuses_a_client(reason: Reason, code: ReturnCode) -> None:
    rig = Rig(V5)
    rig.ask()
    (connack,) = rig.run(rig.machine.refused(reason, "not you", rig.now))
    expected = Reason.SERVER_UNAVAILABLE if reason is Reason.SERVER_SHUTTING_DOWN else reason
    assert (connack.reason, connack.properties.reason_string) == (expected, "not you")
    assert rig.is_closed
    assert rig.machine.phase is Phase.OVER
    rig = Rig(V3_1_1)
    rig.ask()
    assert rig.run(rig.machine.refused(reason, "not you", rig.now)) == [Connack(False, code)]


def test_unknown_versions_are_answered_in_a_version_that_the_client_may_know() -> None:
    rig = Rig(V3_1_1)
    assert rig.hear_bytes(bytes.fromhex("10 0d 0004 4d515454 03 00 003c 0001 63")) == [Connack(False, 1)]
    assert rig.is_closed
    rig = Rig(V5)
    (connack,) = rig.hear_bytes(bytes.fromhex("10 0d 0004 4d515454 06 00 003c 0001 63"))
    assert connack.reason == Reason.UNSUPPORTED_PROTOCOL_VERSION


def test_a_malformed_connect() -> None:
    rig = Rig(V5)
    (connack,) = rig.hear_bytes(bytes.fromhex("10 11 0004 4d515454 05 00 003c 03 21 0000 0001 63"))
    assert connack.reason == Reason.PROTOCOL_ERROR
    rig = Rig(V3_1_1)
    assert rig.hear_bytes(bytes.fromhex("10 0d 0004 4d515454 04 01 003c 0001 63")) == []
    assert rig.is_closed


def test_another_first_packet_is_not_answered() -> None:
    rig = Rig(V5)
    assert rig.hear_bytes(bytes.fromhex("c000")) == []
    assert rig.is_closed


@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_connect_ends_the_connection(version: int) -> None:
    rig = Rig(version)
    rig.connect()
    sent = rig.ask()
    assert [packet.reason for packet in sent] == ([Reason.PROTOCOL_ERROR] if version == V5 else [])
    assert rig.is_closed


@pytest.mark.parametrize("packet", [Connack(), Pingresp()])
def test_packets_that_only_a_server_sends(packet: Connack | Pingresp) -> None:
    rig = Rig()
    rig.connect()
    (answer,) = rig.hear(packet)
    assert answer.reason == Reason.PROTOCOL_ERROR
    assert rig.is_closed


def test_packets_before_connack_wait() -> None:
    rig = Rig()
    rig.ask()
    assert rig.hear(Pingreq()) == []
    assert rig.publish("t") == []
    assert not rig.take(PublishMessage)
    rig.open()
    assert rig.sent[1:] == [Pingresp()]
    assert rig.take_one(PublishMessage).topic == "t"


def test_packets_before_a_refusal_are_dropped() -> None:
    rig = Rig()
    rig.ask()
    rig.publish("t")
    rig.run(rig.machine.refused(Reason.NOT_AUTHORIZED, "", rig.now))
    assert not rig.take(PublishMessage)
    assert rig.hear(Pingreq()) == []


def test_packets_before_connack_are_bounded() -> None:
    rig = Rig(limits=ServerLimits(early_max=3))
    rig.ask()
    for _ in range(3):
        assert rig.hear(Pingreq()) == []
    (connack,) = rig.hear(Pingreq())
    assert connack.reason == Reason.QUOTA_EXCEEDED
    rig = Rig()
    rig.ask()
    rig.publish("t", b"x" * (EARLY_BYTES_MAX // 2 + 1))
    assert not rig.is_closed
    rig.publish("t", b"x" * (EARLY_BYTES_MAX // 2))
    assert rig.is_closed


def test_the_connection_goes_while_the_tree_opens_the_session() -> None:
    rig = Rig()
    rig.ask(will=Will("w", b"x"))
    rig.lose()
    assert rig.run(rig.machine.opened(None, "c", rig.now)) == []
    rig.take_one(EndSession)
    assert not rig.take(PublishWill), "the client was never told that it has one"
    rig = Rig()
    rig.ask(session_expiry=5)
    rig.lose()
    rig.run(rig.machine.opened(None, "c", rig.now))
    assert rig.machine.phase is Phase.AWAY
    rig.wait(5)
    rig.take_one(EndSession)


def test_deadlines_of_connect_and_of_the_tree() -> None:
    rig = Rig(limits=ServerLimits(connect_seconds=10, opening_seconds=30))
    rig.wait(9.9)
    assert not rig.is_closed
    rig.wait(0.1)
    rig.take_one(CloseConnection)
    assert rig.sent == []
    rig = Rig(limits=ServerLimits(connect_seconds=10, opening_seconds=30))
    rig.ask()
    rig.wait(29.9)
    assert not rig.is_closed
    (connack,) = rig.wait(0.1)
    assert connack.reason == Reason.SERVER_UNAVAILABLE


def test_a_client_without_problem_information_gets_no_reason_strings() -> None:
    """CONNACK and DISCONNECT are the exceptions."""
    rig = Rig()
    rig.connect(request_problem_information=0)
    (puback,) = rig.publish("$SYS/x", qos=1, packet_id=1)
    assert puback.reason == Reason.NOT_AUTHORIZED
    assert puback.properties.reason_string is None
    rig.publish("$SYS/x")
    assert isinstance(rig.sent[-1], Disconnect)
    assert rig.sent[-1].properties.reason_string
    rig = Rig()
    rig.connect()
    (puback,) = rig.publish("$SYS/x", qos=1, packet_id=1)
    assert puback.properties.reason_string


def test_limits_are_checked() -> None:
    for wrong in ({"receive_maximum": 0}, {"maximum_qos": 3}, {"packet_bytes_max": 1 << 30}, {"keep_alive_max": -1}):
        with pytest.raises(UsageError):
            ServerLimits(**wrong)  # type: ignore[arg-type]
