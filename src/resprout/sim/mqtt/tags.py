"""`TraceTags`: tells which publication a message is, where MQTT has no words for it.

MQTT subscribers learn neither the publisher of a message nor its number, and the tree numbers publications of MQTT
clients in the name of their embedded clients. So each publication of a run with MQTT clients carries a tag: a user
property, which is an attribute in the tree. Rows of the trace name publications as their publishers did.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from resprout.core.message import Message
from resprout.edge.requests import ClientNews, PublishRequest
from resprout.scenario.app import App, AppWish
from resprout.trace import kinds
from resprout.trace.schema import Row, values

TAG: Final = "tag"
Record = Callable[[Row], None]
Identity = tuple[str | None, int | None, str | None, int | None]


class TraceTags:
    def __init__(self) -> None:
        self._published: dict[str, Row] = {}
        """Row of each publication, by its tag."""
        self._of_mqtt: set[str] = set()
        """Tags of publications of MQTT clients."""
        self._alias: dict[Identity, Row] = {}
        """Row of these publications, by their identity in the tree."""

    def find(self, tag: str) -> Row:
        return self._published[tag]

    def publish(self, tag: str, row: Row) -> None:
        """Note a publication of an MQTT client."""
        self._published[tag] = row
        self._of_mqtt.add(tag)

    def learn(self, messages: Sequence[Message]) -> None:
        """Note who published messages that a native client was given."""
        for message in messages:
            tag = str(message.attributes.get(TAG))
            if tag in self._of_mqtt:
                self._alias[message.publisher, message.epoch, message.stream, message.seq] = self._published[tag]

    def recording(self, record: Record) -> Record:
        """Return a function that records rows of native clients under the identities that publishers gave."""

        def translated(row: Row) -> None:
            if row.kind == kinds.PUBLISH:
                tag = values(row.attributes).get(TAG)
                if isinstance(tag, str):
                    self._published[tag] = row
            elif (known := self._alias.get((row.publisher, row.incarnation, row.stream, row.seq))) is not None:
                row = replace(row, publisher=known.publisher, incarnation=known.incarnation, seq=known.seq)
            record(row)

        return translated


class TaggedApp:
    """Application of a native client whose publications are tagged."""

    def __init__(self, app: App, prefix: str) -> None:
        self._app = app
        self._prefix = prefix
        self._count = 0

    @property
    def done(self) -> bool:
        return self._app.done

    def start(self, now_us: int) -> Sequence[AppWish]:
        return self._tagged(self._app.start(now_us))

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        return self._tagged(self._app.told(news, now_us))

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        return self._tagged(self._app.delivered(message, now_us))

    def woke(self, now_us: int) -> Sequence[AppWish]:
        return self._tagged(self._app.woke(now_us))

    def _tagged(self, wishes: Sequence[AppWish]) -> list[AppWish]:
        return [self._tag(wish) if isinstance(wish, PublishRequest) else wish for wish in wishes]

    def _tag(self, request: PublishRequest) -> PublishRequest:
        self._count += 1
        return replace(request, attributes={**request.attributes, TAG: f"{self._prefix}.{self._count}"})
