"""The shell of a broker: who is heard where, who is cut off, and when outcomes are acted on."""

from collections.abc import Callable
from typing import Any

from resprout.core.contract import (
    Event,
    Forget,
    LinkUp,
    Note,
    Outcome,
    Persist,
    ProtocolMessage,
    Received,
    Retire,
    Send,
    Timer,
    TimerFired,
)  # fmt: skip
from resprout.core.errors import PeerError, StoreError
from resprout.stacks.desk import Desk
from resprout.stacks.shell import Shell, Step
from resprout_lab.blocks import parts_of


class Hello(ProtocolMessage, frozen=True, tag=200):
    pass


class Word(ProtocolMessage, frozen=True, tag=201):
    pass


class Rude(ProtocolMessage, frozen=True, tag=202):
    pass


class Rumour(ProtocolMessage, frozen=True, tag=203):
    """Heard in runs."""


class Wake(Timer, frozen=True):
    """When to wake."""


class Found(Outcome, frozen=True):
    number: int


class Ended(Outcome, frozen=True):
    pass


class Broker(Shell):
    """c1 is a client, b1 a neighbour, b2 another broker; b3 was a neighbour."""

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.some: list[int] = []
        self.more: list[int] = []
        self.core = core = Step()
        clients, links, brokers = {"c1": "client c1"}, {"b1": "link b1"}, {"b1": "peer b1", "b2": "peer b2"}
        super().__init__(
            core,
            events={LinkUp: lambda event: self.did.append(event.peer)},
            desks=(
                Desk(clients.get, {Hello: self.hears("client")}, is_only=True, check=self.check),
                Desk(
                    links.get,
                    {Word: self.hears("link"), Rumour: self.rumour},
                    unknown_peer=lambda name, message: None,
                    heard=lambda n, now_us: self.did.append(f"{n} lives"),
                ),
                Desk(brokers.get, {Hello: self.hears("broker"), Rude: self.refuse}),
            ),
            cut_off=lambda name, reason, code: self.did.append((name, reason)),
            timers={Wake: lambda timer: self.find(1, 2)},
            outcomes={Found: self.found, Ended: lambda outcome: core.end_life(Retire("over"))},
            at_end=(
                (self.some, self.tidy_some),
                (self.more, self.tidy_more),
                lambda: self.did.append("end"),
            ),
            in_runs=(Rumour,),
        )
        self.rumours: list[Outcome | PeerError] = []
        """What comes of the next ones."""

    def hears(self, who: str) -> Callable[[Any, Any], None]:
        return lambda found, message: self.did.append((who, found, type(message).__name__))

    def rumour(self, found: str, message: Any) -> None:
        self.did.append("rumour")
        come = self.rumours.pop(0) if self.rumours else None
        if isinstance(come, PeerError):
            raise come
        if come is not None:
            self.core.outcomes.append(come)

    def check(self, found: str, message: Any) -> None:
        self.did.append("checked")

    def refuse(self, found: str, message: Any) -> None:
        self.core.note("begun", found)
        raise PeerError("that was rude")

    def find(self, *numbers: int) -> None:
        self.core.outcomes.extend(Found(number) for number in numbers)
        self.did.append("asked")

    def found(self, outcome: Found) -> None:
        self.did.append(outcome.number)
        if outcome.number == 1:
            self.core.outcomes.append(Found(3))

    def tidy_some(self) -> None:
        self.did.append("some")
        self.core.outcomes.extend(Found(number) for number in self.some)
        self.some.clear()

    def tidy_more(self) -> None:
        self.did.append("more")
        self.more.clear()

    def does(self, event: Event) -> list[Any]:
        self.did.clear()
        self.step(event, 7)
        return self.did


def test_each_kind_of_peer_has_its_own_desk() -> None:
    broker = Broker()
    assert broker.does(Received("c1", Hello())) == ["checked", ("client", "client c1", "Hello"), "end"]
    assert broker.does(Received("b1", Word())) == ["b1 lives", ("link", "link b1", "Word"), "end"]
    assert broker.does(Received("b1", Hello())) == [("broker", "peer b1", "Hello"), "end"]
    assert broker.does(Received("b2", Hello())) == [("broker", "peer b2", "Hello"), "end"]
    assert broker.does(LinkUp("b9", "broker", 1, 0)) == ["b9", "end"]


def test_what_is_not_for_a_peer_to_say_cuts_it_off_and_nobody_else() -> None:
    broker = Broker()
    assert broker.does(Received("c1", Word())) == [("c1", "Word is not for c1 to say"), "end"]
    assert broker.does(Received("c1", Rude())) == [("c1", "Rude is not for c1 to say"), "end"]
    assert broker.does(Received("b2", Rude())) == [("b2", "that was rude"), "end"]
    assert broker.core.out == [Note("begun", {"detail": "peer b2"})], "what was done before the mistake stands"
    assert broker.does(Received("b9", Hello())) == [("b9", "Hello is not for b9 to say"), "end"]


def test_a_neighbour_that_is_none_any_more_is_not_blamed_for_it() -> None:
    assert Broker().does(Received("b3", Word())) == ["end"]


def test_outcomes_are_acted_on_in_turn_after_what_found_them_and_before_the_step_ends() -> None:
    assert Broker().does(TimerFired(Wake())) == ["asked", 1, 2, 3, "end"]


def test_what_a_step_writes_comes_before_all_else_that_it_wants() -> None:
    """Whatever was asked for first: a driver sends nothing before the records that precede it are durable."""
    broker = Broker()
    core = broker.core

    def say_and_write(found: str, message: Any) -> None:
        core.out.append(Send("b1", Word()))
        core.persist(b"one")
        core.forget_records(1)
        core.out.append(Send("b2", Word()))
        core.persist(b"two")

    broker.desks[1].handlers[Word] = say_and_write
    effects = [Persist(b"one"), Forget(1), Persist(b"two"), Send("b1", Word()), Send("b2", Word())]
    assert broker.step(Received("b1", Word()), 7) == effects
    assert broker.step(Received("b1", Word()), 8) == effects, "the records of the step before are not written again"


def test_a_step_that_fails_for_its_store_writes_nothing() -> None:
    broker = Broker()

    def write(found: str, message: Any) -> None:
        broker.core.persist(b"one")
        raise StoreError("gone")

    broker.desks[1].handlers[Word] = write
    assert broker.step(Received("b1", Word()), 7) == [Retire("gone", again=True)]


def test_a_life_that_is_over_does_nothing_more() -> None:
    broker = Broker()
    broker.core.outcomes.extend((Ended(), Found(1)))
    out = broker.step(LinkUp("b9", "broker", 1, 0), 7)
    assert broker.did == ["b9"] and out == [Retire("over")]
    assert broker.does(Received("b1", Word())) == []
    broker.core.end_life(Retire("again"))
    assert broker.core.out == [], "a life ends once"


def test_news_that_came_together_end_one_step() -> None:
    broker = Broker()
    assert broker.does(Received("b1", Rumour(), more=True)) == ["b1 lives", "rumour"]
    assert broker.does(Received("b1", Rumour(), more=True)) == ["b1 lives", "rumour"]
    assert broker.does(Received("b1", Rumour())) == ["b1 lives", "rumour", "end"]


def test_other_messages_are_heard_when_what_the_news_before_them_left_is_done() -> None:
    broker = Broker()
    broker.does(Received("b1", Rumour(), more=True))
    assert broker.does(Received("b1", Word(), more=True)) == ["end", "b1 lives", ("link", "link b1", "Word"), "end"]
    assert broker.does(Received("b1", Rumour())) == ["b1 lives", "rumour", "end"]
    broker.does(Received("b1", Rumour(), more=True))
    assert broker.does(LinkUp("b9", "broker", 1, 0)) == ["end", "b9", "end"]


def test_outcomes_of_news_are_acted_on_before_the_next_one_is_heard() -> None:
    broker = Broker()
    broker.rumours.append(Found(2))
    assert broker.does(Received("b1", Rumour(), more=True)) == ["b1 lives", "rumour", 2]


def test_a_mistake_ends_the_step_whatever_else_came_with_it() -> None:
    broker = Broker()
    broker.rumours.append(PeerError("no"))
    assert broker.does(Received("b1", Rumour(), more=True)) == ["b1 lives", "rumour", ("b1", "no"), "end"]


def test_a_life_that_ends_with_news_hears_nothing_more() -> None:
    broker = Broker()
    broker.does(Received("b1", Rumour(), more=True))
    broker.core.outcomes.append(Ended())
    assert broker.does(Received("b1", Word())) == []


def test_what_a_step_left_to_do_is_done_at_its_end_in_the_order_of_the_table_and_only_then() -> None:
    broker = Broker()
    broker.more.append(0)
    broker.some.append(2)
    told = LinkUp("b9", "broker", 1, 0)
    assert broker.does(told) == ["b9", "some", 2, "more", "end"], "and what the first found out is acted on before"
    assert broker.does(told) == ["b9", "end"]


def test_a_life_that_is_over_does_nothing_that_was_left() -> None:
    broker = Broker()
    broker.rumours.append(Ended())
    broker.more.append(0)
    assert broker.does(Received("b1", Rumour())) == ["b1 lives", "rumour"]


def test_what_is_too_much_for_one_message_comes_in_parts_of_which_each_fits() -> None:
    assert parts_of([3, 4, 5, 9, 1, 1], 8, lambda size: size) == [[3, 4], [5], [9], [1, 1]], "9 is alone in any case"
    assert parts_of([], 8, lambda size: size) == []
