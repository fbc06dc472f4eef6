"""Questions about last values: a party that asks for much waits, and nobody else does."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from resprout.core.contract import SetTimer
from resprout.core.errors import PeerError
from resprout.edge.broker.session import ClientSession
from resprout.edge.value_messages import AskValues
from resprout.stacks.resprout.value_reads import (
    ANSWERS_OF_PARTY,
    ASKED_MAX,
    ASKED_OF_PARTY_MAX,
    BURST_US,
    LOOK_NS,
    SHARE,
    AnswerValues,
    ValueReads,
)


class Scene:
    def __init__(self, looked_at: int) -> None:
        self.life: Any = cast(Any, SimpleNamespace(now_us=0, out=[]))
        self.answered: list[str] = []
        self._looked_at = looked_at
        self.reads = ValueReads(self.life, self._read)

    def _read(self, session: ClientSession, message: AskValues) -> int:
        self.answered.append(session.name)
        return self._looked_at

    def ask(self, session: ClientSession, count: int = 1) -> None:
        for number in range(count):
            self.reads.count(session)
            self.reads.ask(session, AskValues(number, "#"))

    def give(self, session: ClientSession) -> None:
        self.reads.answered(session)
        self.reads.given(session)


def client(name: str, identity: str = "") -> ClientSession:
    return ClientSession(name, 1, 0, identity=identity)


def test_a_party_that_asks_for_much_takes_a_tenth_of_the_time_and_others_do_not_wait() -> None:
    looked_at = 100_000
    scene, busy, other = Scene(looked_at), client("busy"), client("other")
    served = 0
    for _ in range(1_000):
        scene.life.now_us += 10_000
        scene.ask(busy)
        before = len(scene.answered)
        scene.reads.go_on("busy")
        for _ in scene.answered[before:]:
            scene.give(busy)
        served = len(scene.answered)
    took_us = served * looked_at * LOOK_NS // 1_000
    assert took_us <= (scene.life.now_us + BURST_US) // SHARE + looked_at * LOOK_NS // 1_000
    assert SetTimer(AnswerValues("busy"), scene.life.out[-1].at_us) == scene.life.out[-1]
    scene.ask(other)
    assert scene.answered[-1] == "other"


def test_what_all_programs_ask_costs_nothing() -> None:
    scene, reader = Scene(1), client("reader")
    for _ in range(10_000):
        scene.ask(reader)
        scene.give(reader)
    assert len(scene.answered) == 10_000 and not scene.life.out


def test_a_few_answers_are_made_before_they_can_be_given() -> None:
    """Each of 1,024 questions of a client had an answer of 256 KiB while the log was held back."""
    scene, reader = Scene(1), client("reader")
    scene.ask(reader, 100)
    assert len(scene.answered) == ANSWERS_OF_PARTY
    for _ in range(100):
        scene.give(reader)
    assert len(scene.answered) == 100 and not len(scene.reads)


def test_questions_of_a_client_and_of_an_identity_are_bounded() -> None:
    scene = Scene(1)
    with pytest.raises(PeerError, match=f"{ASKED_MAX} questions"):
        scene.ask(client("a", "one"), ASKED_MAX + 1)
    with pytest.raises(PeerError, match=f"{ASKED_OF_PARTY_MAX} questions"):
        for number in range(33):
            scene.ask(client(f"c{number}", "one"), ASKED_MAX)
    scene.ask(client("d", "two"))


def test_a_client_that_leaves_takes_its_questions_along() -> None:
    scene, one, other = Scene(1), client("a", "one"), client("b", "one")
    scene.ask(one, 50)
    scene.ask(other, 50)
    assert scene.reads.leave(one)
    one.gone = True
    for _ in range(ANSWERS_OF_PARTY):
        scene.reads.given(one)
    assert scene.answered.count("b") == ANSWERS_OF_PARTY
    for _ in range(50):
        scene.give(other)
    assert scene.answered.count("b") == 50 and not len(scene.reads)
    assert not scene.reads.leave(one)


def test_a_subscription_with_many_last_values_has_to_be_paid_before_the_next_one() -> None:
    scene, busy = Scene(1), client("busy")
    assert scene.reads.may_begin(busy)
    scene.reads.begun(busy, 100_000, 100_000)
    assert not scene.reads.may_begin(busy) and scene.reads.may_begin(client("other"))
    scene.life.now_us += 10_000_000
    assert scene.reads.may_begin(busy)
