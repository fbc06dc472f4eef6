"""Hypothesis strategies for valid packets in any protocol version."""

from typing import Any

from hypothesis import strategies as st

from resprout.mqtt import packets
from resprout.mqtt.packets import NO_PROPERTIES, V3_1, V3_1_1, V5, Properties

VERSIONS = (V3_1, V3_1_1, V5)

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
topics = st.text(st.characters(codec="utf-8", exclude_characters="\0+#"), min_size=1, max_size=20)
binaries = st.binary(max_size=20)
bits = st.integers(0, 1)
two = st.integers(0, 0xFFFF)
from_one = st.integers(1, 0xFFFF)
four = st.integers(0, 0xFFFFFFFF)
packet_ids = st.integers(1, 0xFFFF)
users = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)

_PUBLISHED: dict[str, st.SearchStrategy[Any]] = {
    "payload_format": bits,
    "message_expiry": four,
    "content_type": texts,
    "response_topic": topics,
    "correlation_data": binaries,
    "user": users,
}
_ACK: dict[str, st.SearchStrategy[Any]] = {"reason_string": texts, "user": users}
_AUTH: dict[str, st.SearchStrategy[Any]] = {"authentication_method": texts, "authentication_data": binaries}


def properties(version: int, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Properties]:
    if version != V5:
        return st.just(NO_PROPERTIES)
    drawn = st.fixed_dictionaries({}, optional=fields).map(lambda found: Properties(**found))
    return drawn.map(lambda values: NO_PROPERTIES if values == NO_PROPERTIES else values)


def wills(version: int) -> st.SearchStrategy[packets.Will]:
    qos = st.integers(0, 2)
    return st.builds(
        packets.Will, topics, binaries, qos, st.booleans(), properties(version, **_PUBLISHED, will_delay=four)
    )


@st.composite
def connects(draw: st.DrawFn, version: int) -> packets.Connect:
    values = draw(
        properties(
            version, session_expiry=four, receive_maximum=from_one, maximum_packet_size=st.integers(1, 0xFFFFFFFF),
            topic_alias_maximum=two, request_problem_information=bits, request_response_information=bits, user=users,
            authentication_method=texts,
        )
    )  # fmt: skip
    username = draw(st.none() | texts)
    has_password = version == V5 or username is not None
    password = draw(st.none() | binaries) if has_password else None
    will = draw(st.none() | wills(version))
    return packets.Connect(draw(texts), version, draw(st.booleans()), draw(two), will, username, password, values)


def connacks(version: int) -> st.SearchStrategy[packets.Connack]:
    if version != V5:
        accepted = st.builds(packets.Connack, st.booleans())
        return accepted | st.builds(packets.Connack, st.just(False), st.integers(1, 5))
    values = properties(
        version, session_expiry=four, receive_maximum=from_one, maximum_qos=bits, retain_available=bits,
        maximum_packet_size=st.integers(1, 0xFFFFFFFF), assigned_client_identifier=texts, topic_alias_maximum=two,
        wildcard_subscription_available=bits, subscription_identifiers_available=bits,
        shared_subscription_available=bits, server_keep_alive=two, response_information=texts, server_reference=texts,
        **_ACK, **_AUTH,
    )  # fmt: skip
    accepted = st.builds(packets.Connack, st.booleans(), st.just(0), values)
    return accepted | st.builds(packets.Connack, st.just(False), st.sampled_from((0x80, 0x87, 0x9C)), values)


@st.composite
def publishes(draw: st.DrawFn, version: int) -> packets.Publish:
    qos = draw(st.integers(0, 2))
    identifiers = st.lists(st.integers(1, 268_435_455), max_size=3).map(tuple)
    values = draw(properties(version, **_PUBLISHED, topic_alias=from_one, subscription_identifiers=identifiers))
    topic = draw(topics) if values.topic_alias is None else draw(st.just("") | topics)
    packet_id = draw(packet_ids) if qos else 0
    dup = draw(st.booleans()) if qos else False
    payload = draw(st.binary(max_size=300))
    return packets.Publish(topic, payload, qos, packet_id, draw(st.booleans()), dup, values)


def acks(kind: type, version: int, *reasons: int) -> st.SearchStrategy[Any]:
    codes = st.sampled_from(reasons) if version == V5 else st.just(0)
    return st.builds(kind, packet_ids, codes, properties(version, **_ACK))


@st.composite
def requests(draw: st.DrawFn, version: int) -> packets.FilterRequest:
    if version != V5:
        return packets.FilterRequest(draw(texts), draw(st.integers(0, 2)))
    handling = draw(st.integers(0, 2))
    return packets.FilterRequest(
        draw(texts), draw(st.integers(0, 2)), draw(st.booleans()), draw(st.booleans()), handling
    )


def subscriptions(version: int) -> st.SearchStrategy[Any]:
    identifier = st.tuples(st.integers(1, 268_435_455))
    values = properties(version, subscription_identifiers=identifier, user=users)
    some = st.lists(requests(version), min_size=1, max_size=4).map(tuple)
    return st.builds(packets.Subscribe, packet_ids, some, values)


def answers(version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for SUBACK, UNSUBSCRIBE, UNSUBACK, DISCONNECT, AUTH, PINGREQ and PINGRESP."""
    is_new = version == V5
    granted = st.sampled_from((0, 1, 2, 0x80, 0x8F)) if is_new else st.sampled_from((0, 1, 2, 0x80))
    removed = st.lists(st.sampled_from((0, 0x11)), min_size=1, max_size=3).map(tuple) if is_new else st.just(())
    filters = st.lists(texts, min_size=1, max_size=4).map(tuple)
    left = st.sampled_from((0, 4, 0x81, 0x8E)) if is_new else st.just(0)
    leaving = properties(version, session_expiry=four, server_reference=texts, **_ACK)
    options = [
        st.builds(
            packets.Suback,
            packet_ids,
            st.lists(granted, min_size=1, max_size=3).map(tuple),
            properties(version, **_ACK),
        ),
        st.builds(packets.Unsubscribe, packet_ids, filters, properties(version, user=users)),
        st.builds(packets.Unsuback, packet_ids, removed, properties(version, **_ACK)),
        st.builds(packets.Disconnect, left, leaving),
        st.just(packets.Pingreq()),
        st.just(packets.Pingresp()),
    ]
    if is_new:
        options.append(st.builds(packets.Auth, st.sampled_from((0, 0x18, 0x19)), properties(version, **_ACK, **_AUTH)))
    return st.one_of(options)


def any_packet(version: int) -> st.SearchStrategy[Any]:
    published = (0, 0x10, 0x87)
    return st.one_of(
        connects(version),
        connacks(version),
        publishes(version),
        acks(packets.Puback, version, *published),
        acks(packets.Pubrec, version, *published),
        acks(packets.Pubrel, version, 0, 0x92),
        acks(packets.Pubcomp, version, 0, 0x92),
        subscriptions(version),
        answers(version),
    )
