"""The name of a broker is the broker's, whichever client is called so, whoever comes first, whatever its numbers."""

from collections.abc import Sequence

from resprout.core.contract import (
    Connect,
    Connected,
    Disconnect,
    Effect,
    EndCause,
    EndCode,
    LinkDown,
    LinkUp,
    Note,
    Open,
    Transmit,
)
from resprout.links.frames import Goodbye, SessionWelcome
from resprout.links.handshake import KnowsBrokers
from tests.links.puppet import Desk, Puppet, frames

GOES = "b2 is the name of a broker, which has come"


def goodbyes(effects: Sequence[Effect]) -> list[Goodbye]:
    return [frame for frame in frames(effects) if isinstance(frame, Goodbye)]


def test_a_broker_takes_its_name_from_a_client_and_both_hear_of_it() -> None:
    """Attack 10: a client called b2 kept b2 from ever speaking to this broker again."""
    desk = Desk()
    desk.accept(5, "b2", role="client", incarnation=9)
    told = desk.accept(6, "b2", role="broker", incarnation=3)
    assert goodbyes(told) == [Goodbye(GOES, code=EndCode.FORBIDDEN)]
    assert any(isinstance(frame, SessionWelcome) for frame in frames(told)), "though its number is the lower one"
    assert Note("note", {"detail": "client b2 was cut off: a broker of its name has come"}) in told
    assert desk.puppet.events == [
        LinkUp("b2", "client", 9, 1000),
        LinkDown("b2", GOES, EndCause.CLOSED),
        LinkUp("b2", "broker", 3, 1000),
    ]


def test_a_client_does_not_take_the_name_of_a_broker_that_is_here() -> None:
    desk = Desk()
    desk.accept(5, "b2", role="broker", incarnation=3)
    assert goodbyes(desk.accept(6, "b2", role="client", incarnation=9)) == [
        Goodbye("b2 is the name of a broker", 1, EndCode.FORBIDDEN)
    ]
    assert desk.puppet.events == [LinkUp("b2", "broker", 3, 1000)]


def test_a_client_does_not_take_the_name_of_a_broker_that_is_called_and_the_call_goes_on() -> None:
    """Its refusal by the stack would have ended the call as well."""
    desk = Desk()
    assert desk.ask(Open("b2")) == [Connect("b2")]
    assert goodbyes(desk.accept(6, "b2", role="client", incarnation=9)) == [
        Goodbye("b2 is, or was, the name of a broker", 1, EndCode.FORBIDDEN)
    ]
    desk.step(Connected(7, "b2"))
    desk.arrive(7, desk.welcome("b2"))
    assert [up.role for up in desk.puppet.heard(LinkUp)] == ["broker"]


def test_a_broker_that_is_wanted_is_called_though_a_client_has_its_name() -> None:
    desk = Desk()
    desk.accept(5, "b2", role="client", incarnation=9)
    effects = desk.ask(Open("b2"))
    assert effects[:2] == [Transmit(5, Goodbye(GOES, code=EndCode.FORBIDDEN)), Disconnect(5, GOES)]
    assert Connect("b2") in effects and desk.puppet.heard(LinkDown) == [LinkDown("b2", GOES, EndCause.CLOSED)]
    desk.step(Connected(6, "b2"))
    desk.arrive(6, desk.welcome("b2", incarnation=3))
    assert desk.puppet.heard(LinkUp)[-1].role == "broker", "the number of the client outlives no broker"


class Knowing(Puppet):
    """A stack that has heard of a broker far away."""

    def knows_broker(self, name: str) -> bool:
        return name == "b2"


def test_a_client_does_not_take_the_name_of_a_broker_of_which_the_stack_has_heard() -> None:
    desk = Desk()
    desk.puppet = Knowing()
    desk.links.put_between(desk.puppet)
    assert isinstance(desk.puppet, KnowsBrokers)
    refused = desk.accept(5, "b2", role="client")
    assert goodbyes(refused) == [Goodbye("b2 is, or was, the name of a broker", 1, EndCode.FORBIDDEN)]
    assert Note("note", {"detail": "client b2 was turned away: its name is that of a broker"}) in refused
    desk.accept(6, "b3", role="client")
    assert [up.peer for up in desk.puppet.heard(LinkUp)] == ["b3"]
