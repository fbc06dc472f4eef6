"""Questions whether anybody listens, on their way to the broker that serves and back.

A question that was sent and not answered when its broker was lost is asked again of the next one: it changes nothing.
"""

from collections import deque
from typing import Final

from resprout.core.contract import Answer, Effect
from resprout.core.errors import UsageError, WireError
from resprout.core.names import check_topic
from resprout.edge.messages import TOPICS_MAX, AskAudience, AudienceTold
from resprout.edge.requests import AudienceAnswered, AudienceRequest

QUESTIONS_MAX: Final = 65_536
"""That wait for their answers."""


class AudienceQuestions:
    def __init__(self) -> None:
        self.unsent: deque[AskAudience] = deque()
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
        """To be said to the broker that serves."""
        if not self.unsent:
            return None
        asked = self.unsent.popleft()
        self._sent[asked.id] = asked
        return asked

    def give_up(self, out: list[Effect]) -> None:
        """Nobody can be asked: perhaps somebody listens."""
        while self.unsent:
            out.append(Answer(AudienceAnswered(True), self._tokens.pop(self.unsent.popleft().id)))

    def told(self, message: AudienceTold, out: list[Effect]) -> None:
        """WireError for what no honest broker says."""
        if self._sent.pop(message.id, None) is None:
            raise WireError("an answer about listeners that nobody asked for")
        out.append(Answer(AudienceAnswered(message.anybody), self._tokens.pop(message.id)))

    def begin_session(self) -> None:
        """Answers of the session before do not come any more."""
        self.unsent.extendleft(reversed(self._sent.values()))
        self._sent = {}
