"""Whether anybody listens to a topic, as far as this broker knows.

A subscription is confirmed when every broker has it in its interest, so where no neighbour and no local client wants
any of the topics, nobody in the network has a confirmed subscription to them: that is certain, unless a repair is going
on next to this broker. The opposite is not: who has just left may still be known, a condition may not hold, and the
client of a dead broker may never return.
"""

from resprout.core.contract import Send
from resprout.core.errors import PeerError
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import TOPICS_MAX, AskAudience, AudienceTold
from resprout.spread.interest import Interest
from resprout.stacks.resprout.life import BrokerLife


class Audience:
    def __init__(
        self,
        life: BrokerLife,
        interest: Interest,
    ) -> None:
        self._life = life
        self._interest = interest

    def asked(self, session: ClientSession, message: AskAudience) -> None:
        life = self._life
        is_certain = life.attached and life.is_calm and life.goes_on
        if not 1 <= len(message.topics) <= TOPICS_MAX:
            raise PeerError(f"{len(message.topics)} topics in one question; 1 to {TOPICS_MAX} are possible")
        plan = self._interest.index.plan_any(message.topics)
        anybody = not is_certain or plan.conditional or bool(plan.always)
        life.out.append(Send(session.name, AudienceTold(message.id, anybody)))
