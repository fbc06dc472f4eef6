"""The frames on a connection before a session: questions, and proofs of who the opener is.

The opener proves what it has to (`OpenersProof`) before its machine hears of the connection. The listener answers
questions (`net.reception`) and checks proofs (`OpenerProofs`) until the opener says `Hello`. Each step takes one frame
in a loop, so many frames in one read cost no more than their number.

An opener proves who it is once on each connection, in order. A client logs in (`Login`, `Challenge`, `ProofOfSecret`,
`ProofAccepted`); a broker proves that it has the key of the network (`MemberGreeting`, `MemberProof` from both sides).
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from resprout.core.contract import EndCode
from resprout.links.frames import Goodbye
from resprout.links.handshake import shorten
from resprout.net.connection_limits import source_of
from resprout.net.door import Door
from resprout.net.identity.proofs import NO_KEY, AcceptorMembership, OpenersProof, ProofError, binding_of
from resprout.net.identity.rules import WRONG, PendingLogin
from resprout.net.sessions import PROOFS, AskAccount, Login, MemberGreeting, MemberProof, ProofOfSecret, Who
from resprout.net.tls import ProvenPeer

if TYPE_CHECKING:
    from resprout.net.connection import TcpConnection
    from resprout.net.host import Host

FORBIDDEN: Final = EndCode.FORBIDDEN
NONCE_LETTERS: Final = range(16, 129)

OUT_OF_ORDER: Final = "it did not prove who it is in the order that the protocol has"
NO_RULES: Final = "it logs in, and there are no rules here"
NO_KEY_HERE: Final = "it proves that it has a key of the network, and there is none here"
WRONG_KEY: Final = "it has another key of the network"

Pending = PendingLogin | AcceptorMembership


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


class OpenerProofs:
    """`refuse` tells the opener why, with a text for the log that is one of a few, and cuts it off. `began` is told of
    an opener that has begun to prove who it is."""

    def __init__(
        self,
        host: "Host",
        door: Door,
        refuse: Callable[["TcpConnection", str, str, str, EndCode], None],
        began: Callable[["TcpConnection"], None],
    ) -> None:
        self._host = host
        self._door = door
        self._refuse = refuse
        self._began = began

    def hear(self, connection: "TcpConnection", frame: Any, go_on: Callable[[], None]) -> bool:
        """Take one frame of a proof. False when the opener was refused, or when the next frame has to wait until
        `go_on` is called."""
        pending = connection.pending_proof
        if type(frame) is Login and pending is None and connection.has_proven_nothing:
            return self._login(connection, frame, go_on)
        if type(frame) is MemberGreeting and pending is None and connection.has_proven_nothing:
            return self._greet_member(connection, frame)
        if type(frame) is ProofOfSecret and isinstance(pending, PendingLogin):
            connection.pending_proof = None
            return self._check_secret(connection, pending, frame)
        if type(frame) is MemberProof and isinstance(pending, AcceptorMembership):
            connection.pending_proof = None
            return self._check_member(connection, pending, frame)
        return self._turn_away(connection, "", OUT_OF_ORDER, OUT_OF_ORDER, EndCode.NONE)

    def _login(self, connection: "TcpConnection", login: Login, go_on: Callable[[], None]) -> bool:
        here = self._host.here.name
        if not self._door.has_rules:
            reason = f"{here} has no rules, so it cannot check a login: connect without one"
            return self._turn_away(connection, login.name, NO_RULES, reason)
        if len(login.nonce) not in NONCE_LETTERS or "," in login.nonce or not login.nonce.isprintable():
            return self._turn_away(connection, login.name, OUT_OF_ORDER, OUT_OF_ORDER, EndCode.NONE)
        self._began(connection)
        connection.pending_proof = pending = self._door.book.begin(login)
        loop = self._host.loop
        delay_s = self._door.throttle.delay_s(login.name, source_of(connection.address), loop.time())
        if not delay_s:
            connection.send(pending.challenge)
            return True

        def later() -> None:
            connection.send(pending.challenge)
            go_on()

        connection.hold()
        loop.call_later(delay_s, later)
        return False

    def _check_secret(self, connection: "TcpConnection", pending: PendingLogin, frame: ProofOfSecret) -> bool:
        name = pending.identity
        accepted = pending.check(frame, *binding_of(connection.certificate, self._host.here.name))
        if accepted is None:
            self._door.throttle.failed(name, source_of(connection.address), self._host.loop.time())
            return self._turn_away(connection, name, WRONG, f"{self._host.here.name} refuses {name}: {WRONG}")
        connection.identity = name
        connection.send(accepted)
        return True

    def _greet_member(self, connection: "TcpConnection", greeting: MemberGreeting) -> bool:
        here, key = self._host.here, self._door.network_key
        if self._host.is_barred(greeting.name):
            connection.abort("cut off")
            return False
        if key is None:
            reason = f"{here.name} has no key of the network: start it with --network-key, or this broker without"
            return self._turn_away(connection, greeting.name, NO_KEY_HERE, reason)
        self._began(connection)
        connection.pending_proof = pending = AcceptorMembership(key, greeting, here.name, here.incarnation)
        connection.send(pending.proof)
        return True

    def _check_member(self, connection: "TcpConnection", pending: AcceptorMembership, frame: MemberProof) -> bool:
        if not pending.accepts(frame):
            reason = f"{self._host.here.name} refuses broker {shorten(frame.name)}: {NO_KEY}"
            return self._turn_away(connection, frame.name, WRONG_KEY, reason)
        member = pending.opener
        connection.member = ProvenPeer(frozenset({("broker", member.name)}), member.incarnation)
        return True

    def _turn_away(
        self, connection: "TcpConnection", who: str, why: str, reason: str, code: EndCode = FORBIDDEN
    ) -> bool:
        self._refuse(connection, who, why, reason, code)
        return False
