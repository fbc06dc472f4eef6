"""One broker of causal barriers: that of any causal multicast, with its order, and with a list of all members.

News of members waits a moment for more of it: when a network begins, everybody comes at once, and each one would be
told to all others by itself.
"""

import random
from typing import Final

from resprout.core.contract import SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.stacks.peers import Peer
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.multicast.broker import MulticastBroker, MulticastOptions, member_of
from resprout_lab.causal_barriers.direct import DirectOrder
from resprout_lab.causal_barriers.messages import MEMBERS_PER_MESSAGE, BarrierMulticast, MembersKnown

NEWS_US: Final = 10_000
"""How long news of members waits for more."""
MEMBERS_MAX: Final = 65_536
"""Known to one broker; a header could not name as many."""


class NewsDue(Timer, frozen=True):
    """When to tell neighbours of new members."""


class BarrierBroker(MulticastBroker[BarrierMulticast]):
    def __init__(self, seat: BrokerSeat, options: MulticastOptions, rng: random.Random) -> None:
        self._direct = DirectOrder(member_of(seat), options.held_back)
        self._members = {seat.name: seat.incarnation}
        """Of each broker its latest life: earlier ones are dead, and nobody's targets."""
        self._news: dict[str, str] = {}
        """Names of new members, and who told of them: that one knows."""
        super().__init__(
            "causal-barriers",
            seat,
            self._direct,
            BarrierMulticast,
            options,
            handlers={MembersKnown: self._learn},
            timers={NewsDue: self._tell_news},
        )

    def _greet(self, name: str) -> None:
        self._tell(name, list(self._members.items()))

    def _learn(self, peer: Peer, message: MembersKnown) -> None:
        new = {
            name: incarnation for name, incarnation in message.members if incarnation > self._members.get(name, -1)
        }  # fmt: skip
        if len(self._members | new) > MEMBERS_MAX:
            raise PeerError(f"there is no room for more than {MEMBERS_MAX} members")
        if not new:
            return
        if not self._news:
            self._step.out.append(SetTimer(NewsDue(), self._step.now_us + NEWS_US))
        self._members |= new
        self._news |= dict.fromkeys(new, peer.name)
        self._direct.targets = tuple(sorted([f"{name}/{life}" for name, life in self._members.items()]))

    def _tell_news(self, timer: NewsDue) -> None:
        news, self._news = self._news, {}
        for link in self._tree.links:
            self._tell(link, [(name, self._members[name]) for name, source in news.items() if source != link])

    def _tell(self, link: str, members: list[tuple[str, int]]) -> None:
        for first in range(0, len(members), MEMBERS_PER_MESSAGE):
            self._outbox.send(link, MembersKnown(tuple(members[first : first + MEMBERS_PER_MESSAGE])))
