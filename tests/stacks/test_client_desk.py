"""The desk of a broker that serves whoever comes: its door, and news that travel with receipts."""

from collections.abc import Callable
from typing import Any

from resprout.core.contract import LinkUp, Send, SetTimer
from resprout.core.guarantee import Guarantee
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend, GoTo, Serving, Successor
from resprout.stacks.shell import Step
from resprout_lab.blocks.recorded import RecordedSubscriptions
from resprout_lab.blocks.retention import Retention
from resprout_lab.blocks.serving import ClientDesk, ReceiptsDue


class Stage:
    """A desk with clients that have asked to be served."""

    def __init__(self, **given: Any) -> None:
        self.step = Step()
        self.sessions = ClientSessions(Serving("toy", (Guarantee.EVENTUAL,), 0), Retention(10), RecordedSubscriptions())
        self.desk = ClientDesk(self.step, self.sessions, publish=lambda session, message: None, **given)

    def attend(self, name: str, attend: Attend) -> None:
        self.desk.up(LinkUp(name, "client", 1, 1_000))
        self.desk.desk().handlers[Attend](self.sessions.all[name], attend)

    def served(self, now_us: int) -> list[tuple[str, Any]]:
        out = self.step.begin(now_us)
        self.desk.serve()
        return [(effect.peer, effect.message) for effect in out if isinstance(effect, Send)]


def door_of(verdicts: list[bool | Successor], waited: list[int]) -> Callable[..., bool | Successor]:
    def door(session: ClientSession, attend: Attend, waited_us: int) -> bool | Successor:
        waited.append(waited_us)
        return verdicts.pop(0)

    return door


def test_a_client_waits_at_the_door_until_it_opens() -> None:
    waited: list[int] = []
    stage = Stage(door=door_of([False, True], waited))
    stage.attend("c", Attend(0))
    assert stage.served(100) == []
    ((name, serving),) = stage.served(350)
    assert name == "c" and isinstance(serving, Serving)
    assert waited == [100, 350]
    assert stage.served(400) == [], "it is served once"


def test_a_client_may_be_sent_elsewhere() -> None:
    stage = Stage(door=door_of([Successor("b2", "host:1")], []))
    stage.attend("c", Attend(0, ("b1",)))
    assert stage.served(100) == [("c", GoTo(Successor("b2", "host:1")))]
    assert stage.served(200) == []
    assert not stage.sessions.all["c"].attending


def test_nobody_is_asked_in_before_the_broker_is_ready() -> None:
    ready: list[None] = []
    waited: list[int] = []
    stage = Stage(is_ready=lambda: bool(ready), door=door_of([True], waited))
    stage.attend("c", Attend(0))
    assert stage.served(100) == [] and waited == []
    ready.append(None)
    assert len(stage.served(200)) == 1


def test_a_stack_that_makes_good_what_was_missed_welcomes_its_clients_itself() -> None:
    welcomed: list[tuple[str, Attend]] = []
    stage = Stage(welcome=lambda session, attend: welcomed.append((session.name, attend)))
    stage.attend("c", Attend(5))
    assert stage.served(100) == []
    assert welcomed == [("c", Attend(5))]


def test_news_that_nobody_waits_for_are_told_soon_with_the_receipts() -> None:
    told: list[bool] = []

    def news(everything: bool) -> bool:
        told.append(everything)
        return not everything

    stage = Stage(news=news, receipts_us=70)
    out = stage.step.begin(1_000)
    stage.desk.tell()
    stage.desk.tell()
    assert out == [SetTimer(ReceiptsDue(), 1_070)] and told == [False, False]
    stage.step.begin(1_070)
    stage.desk.receipts_due(ReceiptsDue())
    assert told == [False, False, True]
