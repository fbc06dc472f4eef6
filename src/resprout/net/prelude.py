"""What is said on a connection before a session: questions, and proofs of who somebody is.

Whoever opened the connection proves what it has to (`OpenersProof`) before its machine hears that it stands. Whoever
listens answers questions and checks proofs (`proving`) until the opener says `Hello`. Each step takes one frame in a
loop, so many frames in one read cost no more than their number.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from resprout.core.contract import EndCode
from resprout.links.frames import Goodbye
from resprout.net.frames import PROOFS, AskAccount, Who
from resprout.net.identity.proofs import OpenersProof, ProofError

if TYPE_CHECKING:
    from resprout.net.connection import TcpConnection
    from resprout.net.host import Host


class Prelude:
    """Of one connection."""

    def __init__(self, connection: "TcpConnection", host: "Host") -> None:
        self._connection = connection
        self._host = host
        self._proof: OpenersProof | None = None
        """What this side proves before it is heard, if it has opened the connection."""

    @property
    def is_proving(self) -> bool:
        return self._proof is not None

    def open(self) -> None:
        """This side has opened the connection, and TLS stands if there is to be any."""
        connection, host = self._connection, self._host
        assert connection.peer is not None
        self._proof = host.door.proof_for(host.here, connection.peer, connection.certificate)
        if self._proof is None:
            host.connected(connection)
            return
        connection.shaking_hands = True
        host.shakes_hands(connection)
        connection.start_deadline()
        connection.send(self._proof.begin())

    def take(self, frames: Iterator[Any]) -> Iterator[Any] | None:
        """Take what comes before a session. Returns what follows; None when nothing does, now or ever."""
        connection, host = self._connection, self._host
        while (frame := next(frames, None)) is not None:
            if self._proof is not None:
                if not self._hear(self._proof, frame, frames):
                    return None
                if not self.is_proving:
                    return frames
            elif type(frame) in PROOFS:
                if not host.reception.proofs.hear(connection, frame, partial(connection.take_in_turns, frames)):
                    return None
            elif isinstance(frame, Who | AskAccount):
                host.inquiries.answer(connection, frame)
                return None
            else:
                return chain((frame,), frames) if connection.greeted(frame) else None
        connection.read_on()
        return None

    def _hear(self, proof: OpenersProof, frame: Any, rest: Iterator[Any]) -> bool:
        """The other side answers what this one has to prove. False when no more is to be taken for now."""
        connection = self._connection
        if type(frame) is Goodbye:
            self._give_up(frame)
            return False
        if (work := proof.work_for(frame)) is not None:
            connection.hold()
            done = self._host.loop.run_in_executor(None, work)
            done.add_done_callback(lambda _: connection.take_in_turns(chain((frame,), rest)))
            return False
        try:
            answer = proof.hear(frame)
        except ProofError as error:
            self._host.reception.distrust(connection, "", str(error))
            self._give_up(Goodbye(f"{connection.peer}: {error}", code=EndCode.FORBIDDEN))
            return False
        if answer is not None:
            connection.send(answer)
        if proof.is_over:
            self._end()
        return True

    def _give_up(self, goodbye: Goodbye) -> None:
        """The machine hears of it as of a refusal of its `Hello`."""
        self._end()
        self._host.arrived(self._connection.number, [goodbye])
        self._host.take_in()
        self._connection.close(goodbye.reason)

    def _end(self) -> None:
        self._proof = None
        self._connection.stop_deadline()
        self._connection.shaking_hands = False
        self._host.connected(self._connection)
