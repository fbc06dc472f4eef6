"""A few conversations with liars, always the same ones; `python -m tests.fuzz` has as many as are asked for."""

import random
from typing import Any

import pytest

from resprout.core.contract import Received
from resprout.edge.messages import Taken
from resprout.mqtt.incoming import Incoming
from resprout.stacks.resprout import RESPROUT, ResproutBroker
from tests.fuzz.episode import NAMES, Episode
from tests.fuzz.fuzzed_tree import CODEC, FuzzedTree
from tests.fuzz.grammar import Grammar, Wire
from tests.fuzz.lies import Role
from tests.fuzz.mqtt import fuzz_mqtt
from tests.fuzz.over_tcp import fuzz_over_tcp

CALM: list[tuple[Role, int]] = [("client", 1), ("client", 2), ("client", 3), ("member", 1), ("member", 2)]


@pytest.mark.parametrize(("role", "seed"), CALM)
def test_a_liar_harms_nobody_but_itself(role: Role, seed: int) -> None:
    """No exception, nobody else is cut off, and honest publications are delivered once, in order, and turn safe."""
    assert Episode(role, seed, 100).run() is None


def test_every_message_of_the_stack_can_be_made_and_passes_the_codec() -> None:
    """The fuzzer knows every type that a field may have: a message that is added is fuzzed from then on."""
    grammar, wire = Grammar(random.Random(1), NAMES, ("evil",)), Wire(CODEC)
    for kind in RESPROUT.messages:
        assert any(wire.carry(grammar.make(kind)) is not None for _ in range(200)), kind.__name__


class Broken(ResproutBroker):
    """Believes a number: the fault that the fuzzer has to find."""

    def step(self, event: Any, now_us: int) -> Any:
        if isinstance(event, Received) and isinstance(event.message, Taken):
            assert event.message.deliveries < 1 << 40, "no honest client has taken so much"
        return super().step(event, now_us)


def test_the_fuzzer_finds_a_broker_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says with which seed."""
    monkeypatch.setattr(FuzzedTree, "broker_class", Broken)
    findings = (Episode("client", seed, 60).run() for seed in range(1, 30))
    finding = next(one for one in findings if one is not None)
    assert "no honest client has taken so much" in finding.consequence and finding.last_forged


def test_a_liar_over_tcp_harms_nobody_but_itself() -> None:
    said, trouble = fuzz_over_tcp(60, seed=1)
    assert not trouble and said >= 60


def test_hostile_mqtt_clients_harm_nobody_but_themselves() -> None:
    said, trouble = fuzz_mqtt(400, seed=2)
    assert not trouble and said >= 400


def test_the_fuzzer_finds_an_mqtt_broker_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(incoming: Incoming, packet_id: int, out: list[Any]) -> None:
        raise KeyError(packet_id)

    monkeypatch.setattr(Incoming, "release", fails)
    said, trouble = fuzz_mqtt(2_000, seed=3)
    assert "KeyError" in trouble and said < 2_000
