"""What clients want is asked of the neighbours, and confirmed when all have heard of it (`spread.recorded`)."""

from collections.abc import Callable

from resprout.core.contract import ProtocolMessage
from resprout.edge.broker.sessions import ClientSessions
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout.stacks.shell.desk import Handler
from resprout.stacks.shell.step import Step
from resprout_lab.blocks.recorded import Confirmed, RecordedSubscriptions

ASKING_MESSAGES = (Interested, InterestConfirmed, Uninterested)


class Asking:
    def __init__(
        self,
        step: Step,
        sessions: ClientSessions,
        wishes: RecordedSubscriptions,
        send: Callable[[str, ProtocolMessage], object],
        asks: bool = True,
    ) -> None:
        """`send` says something to a neighbour, behind what was said before. Unless it `asks`, neighbours send all they
        have, say nothing of what they want, and a wish is confirmed at once."""
        self._step = step
        self._send = send
        self._sessions = sessions
        self._wishes = wishes
        self._asks = asks
        self.handlers: dict[type, Handler] = {}
        """What neighbours may say; what their desk finds has a `name`."""
        if asks:
            self.handlers = {
                Interested: lambda link, message: self.confirm(wishes.hear(link.name, message)),
                InterestConfirmed: lambda link, message: self.confirm(wishes.hear_recorded(link.name, message)),
                Uninterested: lambda link, message: self.confirm(wishes.hear_ended(link.name, message)),
            }

    def begin_link(self, name: str) -> None:
        if self._asks:
            self._wishes.add_link(name, ())

    def end_link(self, name: str) -> None:
        if self._asks:
            self.confirm(self._wishes.remove_link(name))

    def confirm(self, confirmed: Confirmed) -> None:
        self._sessions.confirm(confirmed, self._step.out)

    def ask(self) -> None:
        """At the end of a step: what has changed, behind the publications that were passed on before."""
        outbound = self._wishes.outbound[:]
        self._wishes.outbound.clear()
        for name, message in outbound:
            self._send(name, message)
