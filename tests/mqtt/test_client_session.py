"""`ClientSession`, the client's half: what it sends, sends again and passes on."""

from resprout.mqtt.client import (
    ClientSession,
    MessageReceived,
    PublicationAcknowledged,
    SubscriptionAnswered,
)
from resprout.mqtt.packets import (
    NO_PROPERTIES,
    Connack,
    FilterRequest,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Unsuback,
)
from resprout.mqtt.reasons import Reason


def connected(session_present: bool = False, receive_maximum: int | None = None) -> tuple[ClientSession, list[Packet]]:
    session = ClientSession("c", 5, 60)
    packet = session.connect(clean_start=False)
    assert (packet.client_id, packet.keep_alive, packet.properties.session_expiry) == ("c", 5, 60)
    properties = Properties(receive_maximum=receive_maximum) if receive_maximum else NO_PROPERTIES
    return session, session.connected(Connack(session_present, properties=properties))


def publish(session: ClientSession, qos: int, token: int = 1) -> list[Packet]:
    return session.publish("t", b"x", qos, token, NO_PROPERTIES)


def test_a_publication_is_finished_by_the_handshake_of_its_qos() -> None:
    session, _ = connected()
    assert publish(session, 0) == [Publish("t", b"x")]
    settled = [session.is_settled]
    assert publish(session, 1, 7) == [Publish("t", b"x", 1, 1)]
    settled.append(session.is_settled)
    assert session.receive(Puback(1)) == ([], [PublicationAcknowledged(7, 0)])
    settled.append(session.is_settled)
    assert publish(session, 2, 8) == [Publish("t", b"x", 2, 2)]
    assert session.receive(Pubrec(2)) == ([Pubrel(2)], [PublicationAcknowledged(8, 0)])
    settled.append(session.is_settled)
    assert session.receive(Pubrec(2)) == ([Pubrel(2)], []), "it is told once"
    assert session.receive(Pubcomp(2)) == ([], [])
    assert [*settled, session.is_settled] == [True, False, True, False, True]


def test_a_refused_publication_is_finished() -> None:
    session, _ = connected()
    publish(session, 2, 3)
    assert session.receive(Pubrec(1, 0x97)) == ([], [PublicationAcknowledged(3, 0x97)])
    assert session.is_settled


def test_what_is_in_flight_is_sent_again_in_order_when_the_session_goes_on() -> None:
    session, _ = connected()
    for qos, token in ((2, 1), (1, 2), (2, 3)):
        publish(session, qos, token)
    session.receive(Pubrec(3))
    session.disconnected()
    assert publish(session, 1, 4) == [], "it waits for the connection"
    assert publish(session, 0) == [], "nobody promises anything"
    assert session.connected(Connack(True)) == [
        Publish("t", b"x", 2, 1, dup=True), Publish("t", b"x", 1, 2, dup=True), Pubrel(3), Publish("t", b"x", 1, 4),
    ]  # fmt: skip


def test_what_is_in_flight_is_published_anew_when_the_server_has_lost_the_session() -> None:
    session, _ = connected()
    publish(session, 2, 1)
    session.receive(Pubrec(1))
    session.receive(Publish("t", b"m", 2, 9))
    session.disconnected()
    assert session.connected(Connack(False)) == [Publish("t", b"x", 2, 1)]
    _, events = session.receive(Publish("t", b"m", 2, 9))
    assert events, "packet identifiers of the lost session mean nothing"


def test_publications_wait_while_the_receive_maximum_is_used_up() -> None:
    session, _ = connected(receive_maximum=2)
    sent = [publish(session, 1, token) for token in (1, 2, 3, 4)]
    assert [len(packets) for packets in sent] == [1, 1, 0, 0]
    assert session.receive(Puback(2)) == ([Publish("t", b"x", 1, 3)], [PublicationAcknowledged(2, 0)])
    assert session.receive(Puback(1)) == ([Publish("t", b"x", 1, 4)], [PublicationAcknowledged(1, 0)])


def test_a_message_with_qos_2_is_passed_on_once_until_it_is_released() -> None:
    session, _ = connected()
    packet = Publish("t", b"m", 2, 5)
    assert session.receive(packet) == ([Pubrec(5)], [MessageReceived(packet)])
    session.disconnected()
    session.connected(Connack(True))
    assert session.receive(Publish("t", b"m", 2, 5, dup=True)) == ([Pubrec(5)], [])
    assert session.receive(Pubrel(5)) == ([Pubcomp(5)], [])
    assert session.receive(packet) == ([Pubrec(5)], [MessageReceived(packet)])


def test_messages_with_less_are_passed_on_each_time() -> None:
    session, _ = connected()
    for _ in range(2):
        assert session.receive(Publish("t", b"m", 1, 5)) == (
            [Puback(5)], [MessageReceived(Publish("t", b"m", 1, 5))],
        )  # fmt: skip
        assert session.receive(Publish("t", b"m")) == ([], [MessageReceived(Publish("t", b"m"))])


def test_requests_are_answered_or_end_with_the_connection() -> None:
    session, _ = connected()
    asked = session.subscribe([FilterRequest("a", 1), FilterRequest("b", 1)])
    left = session.unsubscribe(["a"])
    assert asked.packet_id != left.packet_id
    assert session.receive(Suback(asked.packet_id, (1, 0x87))) == (
        [], [SubscriptionAnswered(("a", "b"), (1, 0x87), True)],
    )  # fmt: skip
    assert session.receive(Unsuback(left.packet_id, (0,))) == ([], [SubscriptionAnswered(("a",), (0,), False)])
    gone = session.subscribe([FilterRequest("c", 1)])
    session.disconnected()
    session.connected(Connack(True))
    assert session.receive(Suback(gone.packet_id, (1,))) == ([], [])


def test_an_unknown_pubrec_is_answered_and_packet_identifiers_in_use_are_left_out() -> None:
    session, _ = connected()
    assert session.receive(Pubrec(77)) == ([Pubrel(77, Reason.PACKET_IDENTIFIER_NOT_FOUND)], [])
    publish(session, 1)
    for number in range(65_534):
        publish(session, 1, 2)
        session.receive(Puback(number + 2))
    (packet,) = publish(session, 1, 3)
    assert isinstance(packet, Publish)
    assert packet.packet_id == 2
