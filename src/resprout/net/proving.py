"""The half of whoever listens: an opener proves who it is before it says `Hello`, in order, once on each connection.

A client logs in (`Login`, `Challenge`, `ProofOfSecret`, `ProofAccepted`); a broker proves that it has the key of the
network (`MemberGreeting`, `MemberProof` from both sides). The machine hears nothing of a connection meanwhile.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from resprout.core.contract import EndCode
from resprout.links.handshake import shorten
from resprout.net.door import Door
from resprout.net.frames import Login, MemberGreeting, MemberProof, ProofOfSecret
from resprout.net.identity.logins import WRONG, PendingLogin
from resprout.net.identity.network_key import NO_KEY, AcceptorMembership
from resprout.net.identity.proofs import binding_of
from resprout.net.tls.proven import ProvenPeer
from resprout.net.unidentified import source_of

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
