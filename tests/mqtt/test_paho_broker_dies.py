"""Real paho-mqtt clients whose broker is killed in mid-flight. `tools/mqtt_broker_dies.py` plays more rounds."""

import asyncio

import pytest
from tools.mqtt_broker_dies import play


@pytest.mark.parametrize("qos", [1, 2])
def test_a_paho_session_survives_sigkill_of_its_broker(qos: int) -> None:
    """Nothing is lost, and QoS 2 duplicates nothing."""
    one = asyncio.run(play(qos, messages=150))
    assert one.is_good, one
