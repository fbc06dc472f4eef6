"""A tree without repair: who joins whom, who waits, and who is the root."""

from typing import Any

from resprout.core.contract import Close, Event, LinkDown, LinkUp, Note, Open, Received, Send, Silent
from resprout.edge.messages import Successor
from resprout.stacks.peers import Outbox
from resprout.stacks.shell import Shell, Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.tree import Join, Joined, LinkBegan, LinkEnded, PlainTree


class Broker(Shell):
    def __init__(self, parent: str | None, *contacts: str) -> None:
        step = Step()
        self.tree = tree = PlainTree(BrokerSeat("me", 2, parent, contacts, "here:1"), step, Outbox(step))
        self._did: list[Any] = []
        self._news: list[Any] = []
        super().__init__(
            step,
            events={LinkUp: tree.up, LinkDown: tree.down, Silent: tree.silent},
            desks=tree.desks({}),
            cut_off=lambda name, reason, code: tree.cut_off(name, reason),
            timers={},
            outcomes={LinkBegan: self._news.append, LinkEnded: self._news.append},
            at_end=(),
        )
        self._did.extend(self.start(0))

    def begin(self) -> None:
        self.tree.begin()

    def happens(self, event: Event) -> None:
        self._did.extend(self.step(event, 0))

    def up(self, name: str) -> None:
        self.happens(LinkUp(name, "broker", 1, 1_000))

    def outbound(self, name: str, message: Any) -> None:
        self.happens(Received(name, message))

    def did(self) -> list[Any]:
        """Since the last time; without the reasons of what was closed."""
        effects = [Close(effect.peer, "") if isinstance(effect, Close) else effect for effect in self._did]
        self._did.clear()
        return effects

    def news(self) -> list[Any]:
        news = list(self._news)
        self._news.clear()
        return news


IS_IN = Note("joined", {"detail": "above"})


def test_a_broker_joins_its_parent_and_lets_others_in_when_it_is_in_itself() -> None:
    broker = Broker("above")
    broker.up("below")
    broker.outbound("below", Join("there:2"))
    assert broker.did() == [Open("above")] and not broker.tree.is_in
    broker.up("above")
    broker.outbound("above", Joined("up:3"))
    assert broker.did() == [Send("above", Join("here:1")), IS_IN, Send("below", Joined("here:1"))]
    assert broker.news() == [LinkBegan("above"), LinkBegan("below")]
    assert broker.tree.successors == (Successor("above", "up:3"), Successor("below", "there:2"))


def test_without_its_parent_a_broker_is_out_of_the_tree_until_that_one_returns() -> None:
    broker = Broker("above")
    for name in ("above", "below"):
        broker.up(name)
    broker.outbound("above", Joined())
    broker.outbound("below", Join())
    broker.news()
    broker.happens(LinkDown("above", "gone"))
    assert broker.news() == [LinkEnded("above")] and not broker.tree.is_in
    assert list(broker.tree.links) == ["below"], "its children stay with it"
    broker.did()
    broker.up("above")
    broker.outbound("above", Joined())
    assert broker.did() == [Send("above", Join("here:1")), IS_IN]
    assert broker.news() == [LinkBegan("above")]
    assert list(broker.tree.links) == ["below", "above"]


def test_a_session_that_begins_anew_is_a_new_link() -> None:
    root = Broker(None)
    root.up("below")
    root.outbound("below", Join())
    root.up("below")
    assert root.news() == [LinkBegan("below"), LinkEnded("below")] and not root.tree.links
    root.outbound("below", Join())
    assert list(root.tree.links) == ["below"]


def test_contacts_are_asked_in_turn_until_one_is_there() -> None:
    broker = Broker(None, "first", "second")
    broker.happens(Silent("first", False))
    broker.happens(Silent("elsewhere", False))
    broker.up("second")
    assert broker.did() == [Open("first"), Close("first", ""), Open("second"), Send("second", Join("here:1"))]
    broker.outbound("second", Joined())
    broker.happens(Silent("second", False))
    assert broker.tree.is_in and broker.tree.parent == "second", "whoever let it in is waited for"


def test_a_parent_that_is_silent_is_waited_for() -> None:
    broker = Broker("above", "other")
    broker.happens(Silent("above", True))
    assert broker.did() == [Open("above")]


def test_whoever_is_asked_back_is_the_root() -> None:
    returned = Broker(None, "child", "grandchild")
    returned.up("child")
    returned.outbound("child", Join())
    assert returned.tree.is_in and returned.tree.parent is None
    assert returned.did()[-1] == Send("child", Joined("here:1")) and returned.news() == [LinkBegan("child")]
