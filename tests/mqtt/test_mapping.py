"""Mapping between properties and attributes: round trips and limits."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.guarantee import Guarantee
from resprout.core.limits import ATTRIBUTES_PER_MESSAGE, check_attributes
from resprout.core.message import Message
from resprout.filters.predicate import parse_predicate
from resprout.mqtt.encoder import encode
from resprout.mqtt.mapping import (
    SET_BY_SERVER,
    attributes_of,
    expires_us,
    guarantee_of,
    is_retained,
    properties_of,
    qos_of,
)
from resprout.mqtt.packets import NO_PROPERTIES, V5, Properties, Publish
from resprout.mqtt.reasons import MqttError, Reason
from tests.mqtt.examples import texts, topics

long_texts = texts | st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=250, max_size=1_500)
names = st.sampled_from(("k", "l", "", "mqtt.qos", "x" * 129, "ü")) | texts


def _made(found: dict[str, Any]) -> Properties:
    return Properties(**found) if found else NO_PROPERTIES


published = st.fixed_dictionaries(
    {},
    optional={
        "payload_format": st.integers(0, 1),
        "content_type": long_texts,
        "response_topic": topics,
        "correlation_data": st.binary(max_size=3_000),
        "user": st.lists(st.tuples(names, long_texts), min_size=1, max_size=6).map(tuple),
    },
).map(_made)


@settings(deadline=None)
@given(published, st.integers(0, 2), st.booleans())
def test_properties_come_back(values: Properties, qos: int, retain: bool) -> None:
    attributes = attributes_of(qos, retain, values, 0)
    assert check_attributes(attributes) == attributes
    assert len(attributes) <= ATTRIBUTES_PER_MESSAGE - SET_BY_SERVER
    assert properties_of(attributes) == values
    assert qos_of(attributes) == qos
    assert is_retained(attributes) is retain


def test_a_message_without_properties_has_as_few_attributes_as_can_be() -> None:
    assert attributes_of(2, False, NO_PROPERTIES, 0) == {}
    assert attributes_of(1, False, NO_PROPERTIES, 0) == {"mqtt.qos": 1}
    assert properties_of({}) is NO_PROPERTIES
    assert properties_of({"mqtt.qos": 1}) is NO_PROPERTIES


def test_user_properties_keep_their_order_and_can_be_tested() -> None:
    values = Properties(user=(("z", "1"), ("a", "2"), ("z", "3")))
    attributes = attributes_of(2, False, values, 0)
    assert attributes["z"] == "1"
    assert parse_predicate("#", "a = '2' and z = '1'").matches("t", attributes)
    assert properties_of(attributes).user == values.user


def test_more_user_properties_than_attributes_come_back() -> None:
    values = Properties(user=tuple([(f"name {number}", "value") for number in range(500)]), content_type="c")
    attributes = attributes_of(0, True, values, 0)
    assert len(attributes) <= ATTRIBUTES_PER_MESSAGE - SET_BY_SERVER
    assert properties_of(check_attributes(attributes)) == values


def test_expiry_is_a_moment() -> None:
    attributes = attributes_of(2, False, Properties(message_expiry=3), 1_000)
    assert expires_us(attributes) == 3_001_000
    assert expires_us(attributes_of(2, False, Properties(message_expiry=0), 1_000)) == 1_000
    assert expires_us({}) == 0


def test_the_guarantee_of_a_publication() -> None:
    assert guarantee_of(NO_PROPERTIES) is None
    assert guarantee_of(Properties(user=(("a", "b"),))) is None
    assert guarantee_of(Properties(user=(("resprout-guarantee", "total"),))) == "total"


@pytest.mark.parametrize(
    "values",
    [
        Properties(user=tuple([(str(number), "x" * 64) for number in range(1_000)])),
        Properties(user=(("a", "x"), ("a", "y" * 64_000))),
        Properties(correlation_data=b"x" * 60_000),
    ],
)
def test_more_than_a_message_can_have(values: Properties) -> None:
    with pytest.raises(MqttError) as caught:
        attributes_of(0, True, values, 0)
    assert caught.value.reason is Reason.QUOTA_EXCEEDED


def test_attributes_of_native_clients_become_user_properties() -> None:
    attributes: dict[str, str | int | float | bool] = {"text": "a", "whole": 3, "real": 2.5, "yes": True, "nul": "a\0b"}
    assert properties_of(attributes).user == (
        ("text", "a"), ("whole", "3"), ("real", "2.5"), ("yes", "true"), ("nul", "a\ufffdb"),
    )  # fmt: skip


HOSTILE: dict[str, str | int | float | bool] = {
    "mqtt.qos": 7, "mqtt.retain": "yes", "mqtt.expires": "soon", "mqtt.payload_format": "1", "mqtt.content_type": 4,
    "mqtt.response_topic": "a/#", "mqtt.correlation_data": "not base64!", "mqtt.user": "[1, 2", "mqtt.user.1": 3,
    "k": "v",
}  # fmt: skip


def test_what_a_native_client_writes_with_the_prefix_breaks_nothing() -> None:
    assert properties_of(HOSTILE) == Properties(user=(("k", "v"),))
    assert (qos_of(HOSTILE), is_retained(HOSTILE), expires_us(HOSTILE)) == (2, False, 0)
    assert (qos_of({"mqtt.qos": True}), expires_us({"mqtt.expires": -1})) == (2, 0)
    assert expires_us({"mqtt.expires": 1 << 62}) == 0
    for text in ('[["a\\u0000", "b"]]', '[["\\ud800", "b"]]', '[["a"]]', '{"a": "b"}', ""):
        user = properties_of({"mqtt.user": text}).user
        assert all("\0" not in part for pair in user for part in pair)
        "".join([part for pair in user for part in pair]).encode()


@pytest.mark.parametrize(
    "attributes",
    [
        {"x": "a" * 70_000, "y": 1},
        {"a" * 70_000: "x", "y": 1},
        {"mqtt.content_type": "a" * 70_000, "y": 1},
        {"mqtt.response_topic": "ü" * 40_000, "y": 1},
        {"mqtt.correlation_data": "AAAA" * 20_000, "mqtt.correlation_data.1": "AAAA" * 20_000, "y": 1},
        {"mqtt.user": '[["a", "' + "b" * 70_000 + '"], ["y", "1"]]'},
    ],
)
def test_what_no_packet_can_carry_is_left_out(attributes: dict[str, Any]) -> None:
    """Clients cannot publish it. A hostile broker could: the sessions that were given it never got any further."""
    packet = Publish("t", b"", 1, 1, False, False, properties_of(attributes))
    encode(packet, V5)
    assert packet.properties.user == (("y", "1"),)


def test_attributes_keep_their_order_in_the_tree() -> None:
    """User properties must keep their order."""
    message = Message("p", 1, 1, "t", (), Guarantee.CAUSAL, {"b": "1", "a": "2", "c": "3"}, b"", 0)
    assert [name for name, _ in properties_of(check_attributes(message.attributes)).user] == ["b", "a", "c"]
