"""Requests of a client to its broker: to forget brokers, to read past events, to find out whether a topic has
subscribers, and to store positions in logs.

Each question goes to the broker that serves; where that broker does not offer it, it is answered here. When the broker
is lost before it has answered:

- the next broker is asked again whether a topic has subscribers, for last values, and what became of a write to a
  bucket, which changes nothing, and for changes of positions, each of which acts once however often it is requested;
- a request to forget brokers is answered here: it may or may not have been passed on, and repeating it does no harm;
- a request for past events is answered here: another broker keeps another journal.

One answer about past events is a page: the events come one by one, and are handed on together when the broker says that
the page is complete.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from resprout.core.bundle import unpack_attributes, unpack_payloads
from resprout.core.contract import Answer, Effect, Send
from resprout.core.errors import UsageError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import check_name, check_topic
from resprout.core.message import Message
from resprout.core.partitions import check_log_name
from resprout.edge.messages import (
    TOPICS_MAX,
    AskAudience,
    AudienceTold,
    BrokersForgotten,
    EventRead,
    EventsEnd,
    Extra,
    ForgetBrokers,
    ReadEvents,
)
from resprout.edge.position_messages import AskPosition, ChangeLog, LogChanged, PositionTold
from resprout.edge.requests import (
    AudienceAnswered,
    AudienceRequest,
    ChangeLogRequest,
    EventsAnswered,
    ForgetAnswered,
    ForgetRequest,
    LogChangeAnswered,
    OutcomeAnswered,
    OutcomeRequest,
    PositionAnswered,
    PositionRequest,
    ReadRequest,
    StoredMessage,
    ValuesAnswered,
    ValuesRequest,
)
from resprout.edge.value_messages import AskOutcome, AskValues, OutcomeTold, ValuesTold
from resprout.filters.predicate import parse_predicate, topic_matches

QUESTIONS_MAX: Final = 65_536
"""That wait for their answers."""

NAMES_MAX: Final = 256
"""Brokers that one request may name."""
REQUESTS_MAX: Final = 64
"""That wait for their answers."""


class AudienceQuestions:
    def __init__(self) -> None:
        self.unsent: list[AskAudience] = []
        self._tokens: dict[int, int] = {}
        """By id."""
        self._sent: dict[int, AskAudience] = {}
        self._ids = 0

    def ask(self, request: AudienceRequest, token: int) -> None:
        if len(self._tokens) >= QUESTIONS_MAX:
            raise UsageError(f"{QUESTIONS_MAX} requests wait for the broker to say whether anybody listens")
        if not 1 <= len(request.topics) <= TOPICS_MAX:
            raise UsageError(f"{len(request.topics)} topics in one request; 1 to {TOPICS_MAX} are possible")
        topics = tuple(map(check_topic, request.topics))
        self._ids += 1
        self._tokens[self._ids] = token
        self.unsent.append(AskAudience(self._ids, topics))

    def next(self) -> AskAudience | None:
        """Return the message to send to the current broker, if there is one."""
        if not self.unsent:
            return None
        asked = self.unsent.pop(0)
        self._sent[asked.id] = asked
        return asked

    def give_up(self, out: list[Effect]) -> None:
        """Answer every question that was not sent with "perhaps": no broker can be asked."""
        while self.unsent:
            out.append(Answer(AudienceAnswered(True), self._tokens.pop(self.unsent.pop(0).id)))

    def told(self, message: AudienceTold, out: list[Effect]) -> None:
        """Handle an answer. Raises WireError if an honest broker never sends it."""
        if self._sent.pop(message.id, None) is None:
            raise WireError("an answer about listeners that nobody asked for")
        out.append(Answer(AudienceAnswered(message.anybody), self._tokens.pop(message.id)))

    def begin_session(self) -> None:
        """Ask again in a new session, because answers of the earlier one are lost."""
        self.unsent[:0] = self._sent.values()
        self._sent = {}


class PositionQuestions:
    """Pending requests about stored positions. The next broker gets them again; each change acts once."""

    def __init__(self) -> None:
        self.unsent: list[AskPosition] = []
        self._tokens: dict[int, int] = {}
        """Tokens of pending requests, by id."""
        self._sent: dict[int, AskPosition] = {}
        self._ids = 0

    def ask(self, request: PositionRequest, token: int) -> None:
        if len(self._tokens) >= QUESTIONS_MAX:
            raise UsageError(f"{QUESTIONS_MAX} positions wait to be stored")
        self._ids += 1
        self._tokens[self._ids] = token
        asked = AskPosition(
            self._ids, check_log_name(request.log), check_name(request.name, "name of a position"),
            request.offset, request.version, request.forced, request.owner,
        )  # fmt: skip
        self.unsent.append(asked)

    def next(self) -> AskPosition | None:
        """Return the message to send to the current broker, if there is one."""
        if not self.unsent:
            return None
        asked = self.unsent.pop(0)
        self._sent[asked.id] = asked
        return asked

    def give_up(self, reason: str, out: list[Effect]) -> None:
        while self.unsent:
            token = self._tokens.pop(self.unsent.pop(0).id)
            out.append(Answer(PositionAnswered(-1, 0, 0, reason), token))

    def told(self, message: PositionTold, out: list[Effect]) -> None:
        """Handle an answer. Raises WireError if an honest broker never sends it."""
        if self._sent.pop(message.id, None) is None:
            raise WireError("a position that nobody asked for")
        answer = PositionAnswered(
            message.offset, message.version, message.end, message.reason, message.retryable, message.partitions
        )
        out.append(Answer(answer, self._tokens.pop(message.id)))

    def begin_session(self) -> None:
        """Ask again in a new session, because answers of the earlier one are lost."""
        self.unsent[:0] = self._sent.values()
        self._sent = {}


VALUES_AT_ONCE: Final = 512
"""Questions about last values that a client asks before it has an answer. A broker lets twice as many of one client
wait."""


class ValueQuestions:
    """Pending reads of last values, and of outcomes of writes to buckets. The next broker is asked again."""

    def __init__(self) -> None:
        self.unsent: deque[AskValues | AskOutcome] = deque()
        self._tokens: dict[int, int] = {}
        """Tokens of pending requests, by id."""
        self._sent: dict[int, AskValues | AskOutcome] = {}
        self._ids = 0

    def ask(self, request: ValuesRequest | OutcomeRequest, token: int) -> None:
        if len(self._tokens) >= QUESTIONS_MAX:
            raise UsageError(f"{QUESTIONS_MAX} reads of last values wait for their answers")
        self._ids += 1
        if isinstance(request, OutcomeRequest):
            self.unsent.append(AskOutcome(self._ids, request.seq))
        else:
            parse_predicate(request.filter)
            self.unsent.append(AskValues(self._ids, request.filter, request.after, payloads=request.payloads))
        self._tokens[self._ids] = token

    def next(self) -> AskValues | AskOutcome | None:
        """Return the message to send to the current broker, if there is one."""
        if not self.unsent or len(self._sent) >= VALUES_AT_ONCE:
            return None
        asked = self.unsent.popleft()
        self._sent[asked.id] = asked
        return asked

    def give_up(self, reason: str, out: list[Effect]) -> None:
        while self.unsent:
            asked = self.unsent.popleft()
            if isinstance(asked, AskValues):
                answer: Any = ValuesAnswered(asked.filter, (), -1, reason=reason)
            else:
                answer = OutcomeAnswered(asked.seq, -1, False, 0)
            out.append(Answer(answer, self._tokens.pop(asked.id)))

    def told(self, message: ValuesTold | OutcomeTold, out: list[Effect]) -> None:
        """Handle an answer. Raises WireError if an honest broker never sends it."""
        asked = self._sent.pop(message.id, None)
        if isinstance(message, ValuesTold) and isinstance(asked, AskValues):
            if any(not topic_matches(asked.filter, row.topic) for row in message.rows):
                raise WireError("last values of topics that nobody asked for")
            answer: Any = ValuesAnswered(asked.filter, message.rows, message.place, message.more, message.reason)
        elif isinstance(message, OutcomeTold) and isinstance(asked, AskOutcome):
            answer = OutcomeAnswered(asked.seq, message.place, message.is_applied, message.current)
        else:
            raise WireError(f"{type(message).__name__} that nobody asked for")
        out.append(Answer(answer, self._tokens.pop(message.id)))

    def begin_session(self) -> None:
        """Ask again in a new session, because answers of the earlier one are lost."""
        self.unsent.extendleft(reversed(self._sent.values()))
        self._sent = {}


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """UsageError for what no broker can be called, and for no names at all."""
    if not names:
        raise UsageError("which brokers are to be forgotten? Give at least one name")
    if len(names) > NAMES_MAX:
        raise UsageError(f"{len(names)} brokers to be forgotten at once; at most {NAMES_MAX}")
    return tuple(dict.fromkeys(check_name(name, "broker name") for name in names))


class ForgetRequests:
    def __init__(self) -> None:
        self.unsent: list[tuple[ForgetBrokers, int]] = []
        """With their tokens."""
        self._sent: list[tuple[ForgetBrokers, int]] = []

    def ask(self, request: ForgetRequest, token: int) -> None:
        if len(self.unsent) + len(self._sent) >= REQUESTS_MAX:
            raise UsageError(f"{REQUESTS_MAX} requests to forget brokers wait for their answers")
        self.unsent.append((ForgetBrokers(check_names(request.names), request.force), token))

    def next(self) -> ForgetBrokers | None:
        """To be said to the broker that serves."""
        if not self.unsent:
            return None
        asked = self.unsent.pop(0)
        self._sent.append(asked)
        return asked[0]

    def give_up(self, reason: str, out: list[Effect]) -> None:
        """Fail every request that was not sent: no broker can be told."""
        while self.unsent:
            asked, token = self.unsent.pop(0)
            out.append(Answer(ForgetAnswered(asked.names, reason), token))

    def answered(self, message: BrokersForgotten, out: list[Effect]) -> None:
        if not self._sent or self._sent[0][0].names != message.names:
            raise WireError("an answer to a request to forget brokers that was never made")
        _, token = self._sent.pop(0)
        out.append(Answer(ForgetAnswered(message.names, message.reason), token))

    def begin_session(self, out: list[Effect]) -> None:
        """Answers of the session before do not come any more."""
        while self._sent:
            asked, token = self._sent.pop(0)
            out.append(Answer(ForgetAnswered(asked.names, "the broker was lost before it answered: ask again"), token))


class LogChangeRequests:
    """Requests to create or delete logs. One that a lost broker did not answer is answered here, because it may have
    been carried out."""

    def __init__(self) -> None:
        self.unsent: deque[tuple[ChangeLog, int]] = deque()
        """Unsent requests with their tokens."""
        self._sent: dict[int, int] = {}
        """Tokens of sent requests, by id."""
        self._ids = 0

    def ask(self, request: ChangeLogRequest, token: int) -> None:
        if len(self.unsent) + len(self._sent) >= REQUESTS_MAX:
            raise UsageError(f"{REQUESTS_MAX} requests to create or delete logs wait for their answers")
        self._ids += 1
        message = ChangeLog(
            self._ids, request.change, check_name(request.log, "name of a log"), request.filter, request.replicas,
            request.retain_bytes, request.retain_us, request.flush, request.segment_bytes, request.partitions,
            request.compact, request.compact_grace_us, request.compact_bytes,
        )  # fmt: skip
        self.unsent.append((message, token))

    def next(self) -> ChangeLog | None:
        """Return the message to send to the current broker, if there is one."""
        if not self.unsent:
            return None
        message, token = self.unsent.popleft()
        self._sent[message.id] = token
        return message

    def give_up(self, reason: str, out: list[Effect]) -> None:
        while self.unsent:
            _, token = self.unsent.popleft()
            out.append(Answer(LogChangeAnswered(reason), token))

    def told(self, message: LogChanged, out: list[Effect]) -> None:
        """Handle an answer. Raises WireError if an honest broker never sends it."""
        token = self._sent.pop(message.id, None)
        if token is None:
            raise WireError("a change of a log that nobody asked for")
        out.append(Answer(LogChangeAnswered(message.reason), token))

    def begin_session(self, out: list[Effect]) -> None:
        """Answer what was sent in an earlier session, whose answers are lost."""
        lost, self._sent = self._sent, {}
        answer = LogChangeAnswered("the broker was lost before it answered: look whether the log is there")
        out += [Answer(answer, token) for token in lost.values()]


class ReadRequests:
    def __init__(self) -> None:
        self.unsent: list[tuple[ReadEvents, int]] = []
        """With their tokens."""
        self._sent: dict[int, tuple[int, list[EventRead]]] = {}
        """By id: the token, and what has come."""
        self._ids = 0

    def ask(self, request: ReadRequest, token: int) -> None:
        if len(self.unsent) + len(self._sent) >= REQUESTS_MAX:
            raise UsageError(f"{REQUESTS_MAX} requests to read events wait for their answers")
        for topic_filter in (request.filter, *request.also):
            parse_predicate(topic_filter, request.where)
        self._ids += 1
        asked = ReadEvents(
            self._ids, request.filter, request.where, request.journal, request.position, request.time_us, request.size,
            request.also, request.until, request.whole, request.allow_gaps, request.waits,
        )  # fmt: skip
        self.unsent.append((asked, token))

    def next(self) -> ReadEvents | None:
        """To be said to the broker that serves."""
        if not self.unsent:
            return None
        asked, token = self.unsent.pop(0)
        self._sent[asked.id] = (token, [])
        return asked

    def give_up(self, reason: str, out: list[Effect]) -> None:
        """Fail every question that was not sent: no broker can be asked."""
        while self.unsent:
            _, token = self.unsent.pop(0)
            out.append(Answer(EventsAnswered(reason=reason), token))

    def came(self, message: EventRead, out: list[Effect]) -> None:
        """WireError for what no honest broker sends."""
        asked = self._sent.get(message.id)
        if asked is None:
            raise WireError("events of the past that nobody asked for")
        if message.offsets is not None and len(message.offsets) != message.bundle.count:
            raise WireError(f"{len(message.offsets)} offsets for {message.bundle!r}")
        asked[1].append(message)

    def ended(self, message: EventsEnd, out: list[Effect]) -> None:
        asked = self._sent.pop(message.id, None)
        if asked is None:
            raise WireError("the end of events that nobody asked for")
        token, events = asked
        answer = EventsAnswered(
            tuple(events), message.journal, message.following, message.first, message.end, message.reason,
            message.life, message.gaps, message.retryable, message.begin, message.partitions,
        )  # fmt: skip
        out.append(Answer(answer, token))

    def begin_session(self, out: list[Effect]) -> None:
        """Answers of the session before do not come any more."""
        lost, self._sent = self._sent, {}
        for token, _ in lost.values():
            reason = "the broker was lost before it answered: ask again"
            out.append(Answer(EventsAnswered(reason=reason, retryable=True), token))


def messages_of(message: EventRead, in_log: bool = False, partition: int = 0) -> list[StoredMessage]:
    """Return the messages of a bundle that was read; in a log each has an offset of its own. Raises WireError if an
    honest broker never sends it."""
    bundle, offsets = message.bundle, message.offsets
    payloads, rows = unpack_payloads(bundle), unpack_attributes(bundle)
    places = range(bundle.count) if offsets is None else offsets
    is_total = bundle.guarantee is Guarantee.TOTAL and message.tseq >= 0
    return [
        StoredMessage(
            message.position + place if in_log else message.position,
            0 if in_log else place,
            message.life,
            message.time_us,
            Message(
                bundle.publisher, bundle.incarnation, bundle.first + place, bundle.topic, bundle.keys, bundle.guarantee,
                row, payload, message.position + place if in_log else message.position,
                tseq=message.tseq + place if is_total else -1, partition=partition,
            ),
        )
        for place, row, payload in zip(places, rows, payloads, strict=True)
    ]  # fmt: skip


class Questions:
    def __init__(self) -> None:
        forgetting, reading, audience = ForgetRequests(), ReadRequests(), AudienceQuestions()
        self._forgetting, self._reading, self._audience = forgetting, reading, audience
        positions = self._positions = PositionQuestions()
        changes = self._changes = LogChangeRequests()
        values = self._values = ValueQuestions()
        self.unsent = False
        """There may be something to send."""
        self.on_request: dict[type, Callable[[Any, int, list[Effect]], None]] = {
            ForgetRequest: self._asks(forgetting.ask),
            ReadRequest: self._asks(reading.ask),
            AudienceRequest: self._asks(audience.ask),
            PositionRequest: self._asks(positions.ask),
            ChangeLogRequest: self._asks(changes.ask),
            ValuesRequest: self._asks(values.ask),
            OutcomeRequest: self._asks(values.ask),
        }
        self.on_message: dict[type, Callable[[Any, int, list[Effect]], None]] = {
            BrokersForgotten: lambda message, now_us, out: forgetting.answered(message, out),
            EventRead: lambda message, now_us, out: reading.came(message, out),
            EventsEnd: lambda message, now_us, out: reading.ended(message, out),
            AudienceTold: lambda message, now_us, out: audience.told(message, out),
            PositionTold: lambda message, now_us, out: positions.told(message, out),
            LogChanged: lambda message, now_us, out: changes.told(message, out),
            ValuesTold: self._values_told,
            OutcomeTold: self._values_told,
        }

    def _values_told(self, message: ValuesTold | OutcomeTold, now_us: int, out: list[Effect]) -> None:
        self._values.told(message, out)
        self.unsent = self.unsent or bool(self._values.unsent)

    def release(self) -> None:
        """Break the reference cycles of this object, which is not used any more, so that it is freed at once."""
        self.on_request.clear()
        self.on_message.clear()

    def _asks(self, ask: Callable[[Any, int], None]) -> Callable[[Any, int, list[Effect]], None]:
        def asked(request: Any, token: int, out: list[Effect]) -> None:
            ask(request, token)
            self.unsent = True

        return asked

    def send(self, broker: str, offers: Callable[[Extra], bool], out: list[Effect]) -> None:
        self.unsent = False
        if not offers(Extra.FORGETTING):
            self._forgetting.give_up("brokers of this stack are not told whom to forget: none is waited for", out)
        while (forget := self._forgetting.next()) is not None:
            out.append(Send(broker, forget))
        if not offers(Extra.READING):
            self._reading.give_up(f"{broker} keeps no events: ask a broker that does", out)
        while (read := self._reading.next()) is not None:
            out.append(Send(broker, read))
        if not offers(Extra.POSITIONS):
            self._positions.give_up(f"{broker} knows no logs", out)
            self._changes.give_up(f"{broker} knows no logs", out)
        while (position := self._positions.next()) is not None:
            out.append(Send(broker, position))
        while (change := self._changes.next()) is not None:
            out.append(Send(broker, change))
        if not offers(Extra.VALUES):
            self._values.give_up(f"{broker} holds no last values: the default stack does", out)
        while (values := self._values.next()) is not None:
            out.append(Send(broker, values))
        if not offers(Extra.AUDIENCE):
            self._audience.give_up(out)
        while (question := self._audience.next()) is not None:
            out.append(Send(broker, question))

    def begin_session(self, out: list[Effect]) -> None:
        """Another broker serves, or the same one anew."""
        self._forgetting.begin_session(out)
        self._reading.begin_session(out)
        self._audience.begin_session()
        self._positions.begin_session()
        self._changes.begin_session(out)
        self._values.begin_session()
        self.unsent = True
