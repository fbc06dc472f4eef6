"""Who tells of a run, whether it is over or goes on: what the words of a verdict need to know, and where they go."""

from typing import Protocol

from resprout.audit.interest import TraceInterest
from resprout.audit.naming import MessageId, Naming
from resprout.audit.verdict import Anomaly


class NamedLife(Protocol):
    """A subscriber as verdicts name it: `node` is the client, `name` tells its lives apart."""

    @property
    def number(self) -> int: ...
    @property
    def node(self) -> str: ...
    @property
    def name(self) -> str: ...


class Witness(Protocol):
    """Knows publications and lives by their numbers, as far as they are remembered."""

    @property
    def naming(self) -> Naming: ...
    @property
    def interest(self) -> TraceInterest: ...
    def id_of(self, number: int) -> MessageId: ...
    def life_of(self, number: int) -> NamedLife: ...
    def place(self, life: int, number: int) -> tuple[int, int]:
        """Where and when the life delivered the publication: position, and time in microseconds."""

    def tell(self, anomaly: Anomaly) -> None: ...
