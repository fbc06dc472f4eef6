"""A broker that serves whoever comes, and passes on to its neighbours what they publish: its parts, put together.

A stack's broker is a subclass. It begins with the parts that all such brokers have, makes its own ones from them, and
then says who hears what (`_open`). Each step ends with clients that wait being served, with what the stack does then,
and with clients and neighbours being told.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from resprout.edge.broker.ports import SubscriptionPort
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend, Publish, Serving, Successor
from resprout.stacks.shell.desk import Desk, Handler
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.readers import readers_here
from resprout.stacks.shell.shell import EndOfStep, Shell, Table
from resprout.stacks.shell.step import Step
from resprout.stacks.status import StackStatus, TopicReaders
from resprout_lab.blocks.clients import ClientDesk, ClientDoor, ReceiptsDue
from resprout_lab.blocks.item import KeptItem
from resprout_lab.blocks.passing import Passing
from resprout_lab.blocks.retention import Retention
from resprout_lab.blocks.sessions import BrokerSessions, SessionEvents
from resprout_lab.blocks.subscriptions import Matches


class TreeOfBrokers(BrokerSessions, Protocol):
    """Knows the other brokers, and hears what they say about the tree."""

    def begin(self) -> None: ...
    def status(self) -> StackStatus: ...
    def desks(self, handlers: Mapping[type, Handler]) -> tuple[Desk, ...]:
        """What brokers may say; `handlers`: what neighbours may, besides."""


class ServingShell(Shell):
    def __init__(self, serving: Serving, wishes: SubscriptionPort, buffer: int) -> None:
        """`buffer`: messages of one neighbour or client that are kept here before it is held back."""
        self._step = Step()
        self._outbox = Outbox(self._step)
        self._kept = Retention(buffer)
        self._passing = Passing(self._outbox, self._kept)
        self._sessions = ClientSessions(serving, self._kept, wishes)

    def _open(
        self,
        brokers: TreeOfBrokers,
        handlers: Mapping[type, Handler],
        *,
        publish: Callable[[ClientSession, Publish], None],
        is_ready: Callable[[], bool],
        door: ClientDoor = lambda session, attend, waited_us: True,
        welcome: Callable[[ClientSession, Attend], None] | None = None,
        successors: Callable[[], tuple[Successor, ...]] = tuple,
        events: Table | None = None,
        timers: Mapping[type, Any] | None = None,
        outcomes: Table,
        at_end: Sequence[EndOfStep | tuple[Collection[object], EndOfStep]] = (),
    ) -> None:
        """The last thing that a constructor does. `at_end`: before clients and neighbours are told."""
        step, kept = self._step, self._kept
        clients = ClientDesk(
            step,
            self._sessions,
            publish=publish,
            is_ready=is_ready,
            door=door,
            welcome=welcome,
            successors=successors,
            left=kept.forget,
        )
        sessions = SessionEvents(step, clients, brokers, self._passing.writable)
        self._brokers = brokers
        super().__init__(
            step,
            events={**sessions.table, **(events or {})},
            desks=(clients.desk(), *brokers.desks(handlers)),
            cut_off=sessions.cut_off,
            timers={ReceiptsDue: clients.receipts_due, **(timers or {})},
            outcomes=outcomes,
            at_end=(clients.serve, *at_end, clients.tell, lambda: kept.push_back(step.out)),
        )

    def begin(self) -> None:
        self._brokers.begin()

    def status(self) -> StackStatus:
        return self._brokers.status()

    def readers(self, topic: str) -> TopicReaders:
        return readers_here(self._sessions, topic)

    def _show_to(self, readers: Matches, item: KeptItem) -> None:
        """It is their turn to be shown it."""
        self._kept.place(item)
        self._sessions.address(item, item.bundle, readers)
        self._sessions.show(item, self._step.out)
