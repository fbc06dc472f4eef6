"""Finds messages that need not be sent again within a session.

Replicas say again what is not answered, as if any message could be lost. In a session nothing is, and where an answer
takes long, repeats would make it take longer. The owner of a replica asks here before it sends, and says when a session
began anew (`forget`).
"""

from collections.abc import Callable

from resprout.core.contract import ProtocolMessage
from resprout.replicas.messages import NO_BALLOT, Accept, Ballot, Decisions, Fetch, Install, Prepare


class SessionRepeats:
    def __init__(self) -> None:
        self._sent: dict[str, tuple[Ballot, int, int]] = {}
        """By member: in which ballot, from which slot on and up to which it was asked to accept everything in this
        session."""
        self._chosen: dict[str, tuple[Ballot, int]] = {}
        """By member: up to which slot it was told in this session that all is decided, and in which ballot."""
        self._fetched: dict[str, int] = {}
        """By member: after which slot it was asked for more in this session, and has not answered."""
        self._prepared: dict[str, Prepare] = {}
        """By member: what it was asked to promise last in this session."""

    def hear(self, member: str, message: ProtocolMessage) -> None:
        """Note an answer."""
        if isinstance(message, (Decisions, Install)):
            self._fetched.pop(member, None)

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """What was said to these members may be lost."""
        for said in (self._sent, self._chosen, self._fetched, self._prepared):
            for member in [member for member in said if is_gone(member)]:
                del said[member]

    def is_repeat(self, member: str, message: ProtocolMessage) -> bool:
        """Whether this was said in this session before; if not, note that it is said now."""
        if isinstance(message, Fetch):
            is_repeat = self._fetched.get(member) == message.after
            self._fetched[member] = message.after
            return is_repeat
        if isinstance(message, Prepare):
            is_repeat = self._prepared.get(member) == message
            self._prepared[member] = message
            return is_repeat
        if not isinstance(message, Accept):
            return False
        chosen = (message.ballot, message.chosen)
        if message.entries:
            if self._was_sent(member, message.ballot, message.first, message.first + len(message.entries) - 1):
                return True
        elif chosen <= self._chosen.get(member, (NO_BALLOT, -1)):
            return True
        self._chosen[member] = chosen
        return False

    def _was_sent(self, member: str, ballot: Ballot, first: int, last: int) -> bool:
        """All of these slots, in this session. The first that is sent in one that began anew may lie behind what was
        lost with the old one."""
        before, since, upto = self._sent.get(member, (NO_BALLOT, 0, 0))
        if before != ballot or first > upto + 1 or last < since - 1:
            since, upto = first, first - 1
        self._sent[member] = (ballot, min(since, first), max(upto, last))
        return since <= first and last <= upto
