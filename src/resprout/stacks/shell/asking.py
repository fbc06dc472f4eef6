"""What clients want is asked of the neighbours, and confirmed when all have heard of it (`spread.recorded`)."""

from resprout.edge.broker.sessions import ClientSessions
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout.spread.recorded import Confirmed, RecordedSubscriptions
from resprout.stacks.shell.desk import Handler
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.step import Step

ASKING_MESSAGES = (Interested, InterestConfirmed, Uninterested)


class Asking:
    def __init__(self, step: Step, outbox: Outbox, sessions: ClientSessions, wishes: RecordedSubscriptions) -> None:
        self._step = step
        self._outbox = outbox
        self._sessions = sessions
        self._wishes = wishes
        self.handlers: dict[type, Handler] = {
            Interested: lambda link, message: self.confirm(wishes.hear(link.name, message)),
            InterestConfirmed: lambda link, message: self.confirm(wishes.hear_recorded(link.name, message)),
            Uninterested: lambda link, message: self.confirm(wishes.hear_ended(link.name, message)),
        }
        """What neighbours may say; what their desk finds has a `name`."""

    def begin_link(self, name: str) -> None:
        self._wishes.add_link(name, ())

    def end_link(self, name: str) -> None:
        self.confirm(self._wishes.remove_link(name))

    def confirm(self, confirmed: Confirmed) -> None:
        self._sessions.confirm(confirmed, self._step.out)

    def ask(self) -> None:
        """At the end of a step: what has changed, behind the publications that were passed on before."""
        says, self._wishes.says = self._wishes.says, []
        for name, message in says:
            self._outbox.send(name, message)
