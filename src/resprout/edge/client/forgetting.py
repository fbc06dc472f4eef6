"""What an operator says about brokers that never return, on its way from a client to its broker.

A request that waits for a broker is sent to the first that serves. One that was sent and not answered when its broker
was lost is answered here: it may or may not have been passed on, and saying it again does no harm.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from resprout.core.contract import Answer, Effect
from resprout.core.errors import UsageError, WireError
from resprout.core.names import check_name
from resprout.edge.messages import BrokersForgotten, ForgetBrokers
from resprout.edge.requests import ForgetAnswered, ForgetRequest

NAMES_MAX: Final = 256
"""Brokers that one request may name."""
REQUESTS_MAX: Final = 64
"""That wait for their answers."""


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """UsageError for what no broker can be called, and for no names at all."""
    if not names:
        raise UsageError("which brokers are to be forgotten? Give at least one name")
    if len(names) > NAMES_MAX:
        raise UsageError(f"{len(names)} brokers to be forgotten at once; at most {NAMES_MAX}")
    return tuple(dict.fromkeys(check_name(name, "broker name") for name in names))


class ForgetRequests:
    def __init__(self) -> None:
        self.unsent: deque[tuple[ForgetBrokers, int]] = deque()
        """With their tokens."""
        self._sent: deque[tuple[ForgetBrokers, int]] = deque()

    def ask(self, request: ForgetRequest, token: int) -> None:
        if len(self.unsent) + len(self._sent) >= REQUESTS_MAX:
            raise UsageError(f"{REQUESTS_MAX} requests to forget brokers wait for their answers")
        self.unsent.append((ForgetBrokers(check_names(request.names), request.force), token))

    def next(self) -> ForgetBrokers | None:
        """To be said to the broker that serves."""
        if not self.unsent:
            return None
        asked = self.unsent.popleft()
        self._sent.append(asked)
        return asked[0]

    def give_up(self, reason: str, out: list[Effect]) -> None:
        """Nobody can be told."""
        while self.unsent:
            asked, token = self.unsent.popleft()
            out.append(Answer(ForgetAnswered(asked.names, reason), token))

    def answered(self, message: BrokersForgotten, out: list[Effect]) -> None:
        if not self._sent or self._sent[0][0].names != message.names:
            raise WireError("an answer to a request to forget brokers that was never made")
        _, token = self._sent.popleft()
        out.append(Answer(ForgetAnswered(message.names, message.reason), token))

    def begin_session(self, out: list[Effect]) -> None:
        """Answers of the session before do not come any more."""
        while self._sent:
            asked, token = self._sent.popleft()
            out.append(Answer(ForgetAnswered(asked.names, "the broker was lost before it answered: ask again"), token))
