"""Who may come in: decides about greetings on connections that others opened, before the machine hears of them.

Brokers prove who they are by a certificate or by the key of the network, clients by a certificate or a secret, where
that is wanted. Without any of these everybody is believed, unless the door is closed. Where there are rules, nobody is
believed to be a broker without proof: a broker sees what rules forbid to clients.

`Prelude` handles the frames on a connection before a session: questions, and proofs of identity. The opener proves what
it has to (`OpenersProof`) before its machine hears of the connection. The listener answers questions (`net.reception`)
and checks proofs (`OpenerProofs`) until the opener says `Hello`.
An opener proves who it is once on each connection, in order. A client logs in (`Login`, `Challenge`, `ProofOfSecret`,
`ProofAccepted`); a broker proves that it has the key of the network (`MemberGreeting`, `MemberProof` from both sides).
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from resprout.core.contract import EndCode
from resprout.core.errors import UsageError
from resprout.edge.rights import Rights
from resprout.links.frames import Goodbye, Hello
from resprout.links.handshake import shorten
from resprout.net.address import Address, is_loopback
from resprout.net.connection_limits import BrokerLimits, source_of
from resprout.net.identity.proofs import (
    NO_KEY,
    AcceptorMembership,
    LoginSecret,
    NetworkKey,
    OpenerLogin,
    OpenerMembership,
    OpenersProof,
    ProofError,
    binding_of,
)
from resprout.net.identity.rules import (
    WRONG,
    KnownIdentity,
    LoginBook,
    LoginThrottle,
    PendingLogin,
    Rules,
    read_rules,
    rights_of,
)
from resprout.net.identity.scram import read_login
from resprout.net.sessions import PROOFS, AskAccount, Here, Login, MemberGreeting, MemberProof, ProofOfSecret, Who
from resprout.net.tls import OPERATOR, Keyring, ProvenPeer

if TYPE_CHECKING:
    from resprout.net.connection import TcpConnection
    from resprout.net.host import Host

MAY_NOT_SEE: Final = "it may neither observe nor operate"
HINTED_NAMES: Final = 4
"""Names that a refusal lists at most."""
OWNERS_KEPT: Final = 10_000
"""Names of clients whose identities are remembered."""


class Entrance(msgspec.Struct, frozen=True):
    """What became of a greeting."""

    fault: str = ""
    """Why somebody may not be who it says, in a part of a sentence about it; empty when it may. One of a few texts:
    they are counted by it."""
    identity: str = ""
    """Whom it has proven to be; empty when nobody asked, or when it may be anybody."""
    rights: Rights | None = None
    """What a client may do; None for a broker, and for a client where everybody may do everything."""
    limits: Mapping[str, int] = {}
    """What the rules say about its limits."""
    hint: str = ""
    """What to do instead, for the refused peer only; it is appended to the fault."""


class Door:
    """`keyring`: what this node proves itself with, if connections are encrypted. `clients_certified`: a client needs a
    certificate, too; a broker always does where there is TLS. `rules`: a file of who is known, and what each may do.
    `closed`: nobody is believed who has not proven anything, brokers included. `login`: what this side says of itself
    where it opens connections, `NAME:SECRET`. `limits`: how many may come. `network_key`: by which brokers prove
    themselves where there is no TLS."""

    def __init__(
        self,
        keyring: Keyring | None = None,
        clients_certified: bool = False,
        rules: Path | None = None,
        closed: bool = False,
        login: str | None = None,
        limits: BrokerLimits | None = None,
        network_key: NetworkKey | None = None,
    ) -> None:
        if keyring is not None and network_key is not None:
            raise UsageError("with --tls brokers prove themselves by their certificates: leave out --network-key")
        self.keyring = keyring
        self.limits = limits or BrokerLimits()
        self._clients_certified = clients_certified or (closed and rules is None)
        self._rules_file = rules
        self._closed = closed
        self._rules: Rules | None = read_rules(rules) if rules is not None else None
        self.network_key = network_key
        self.book = LoginBook(self._rules.identities if self._rules is not None else {})
        self.throttle = LoginThrottle()
        self.login = LoginSecret(*read_login(login)) if login is not None else None
        self.changed: Callable[[], None] = lambda: None
        """Called when there are new rules."""
        self.rules_version = 1
        """Counts the rules that were read."""
        self._owners: dict[str, str] = {}
        """What `owner_of` has returned."""

    @property
    def has_rules(self) -> bool:
        return self._rules is not None

    @property
    def is_guarded(self) -> bool:
        """Not all clients may do everything: there are rules, or certificates that say who operates the network."""
        return self._rules is not None or self.keyring is not None

    def keeps(self, durable: str) -> bool:
        """Whether the name of a durable subscription is kept for the identities that list it."""
        return self._rules is not None and self._rules.keeps(durable)

    def is_for_anybody(self, durable: str) -> bool:
        """Whether a client that shows nothing may consume this durable subscription, by the rules."""
        return self._rules is not None and self._rules.is_for_anybody(durable)

    def owner_of(self, client: str) -> str:
        """Return the identity whose clients may have this name: the first that the rules list; empty for none."""
        owner = self._owners.get(client)
        if owner is None:
            if len(self._owners) >= OWNERS_KEPT:
                self._owners.clear()
            owner = self._owners[client] = self._rules.owner_of(client) if self._rules is not None else client
        return owner

    def reload(self) -> None:
        """Read the files again. UsageError, and nothing has changed, when one of them is not good."""
        rules = read_rules(self._rules_file) if self._rules_file is not None else None
        if self.keyring is not None:
            self.keyring.reload()
        if rules is not None:
            self._rules = rules
            self.rules_version += 1
            self._owners.clear()
            self.book = LoginBook(rules.identities)
            self.changed()

    def known(self, identity: str) -> KnownIdentity | None:
        return self._rules.identities.get(identity) if self._rules is not None else None

    def proof_for(self, here: Here, peer: str, certificate: bytes) -> OpenersProof | None:
        """What this side has to prove to a peer that it has called, before it says anything else; None: nothing."""
        if self.login is not None:
            return OpenerLogin(self.login, certificate, peer)
        if self.network_key is not None and here.role == "broker":
            return OpenerMembership(self.network_key, here.name, here.incarnation, peer)
        return None

    def judge(
        self, role: str, name: str, proven: ProvenPeer | None, identity: str | None, incarnation: int = 0
    ) -> Entrance:
        """Of somebody that calls itself so, with this proof, and after a login as this identity."""
        if role != "client":
            return self._judge_broker(name, proven, incarnation)
        if self._rules is not None:
            return self._judge_by_rules(self._rules, name, proven, identity)
        if self.keyring is None:
            return Entrance("it has no certificate, and a client needs one here" if self._clients_certified else "")
        if proven is None:
            fault = "it has no certificate, and a client needs one here" if self._clients_certified else ""
            return Entrance(fault, rights=Rights(unruled=True))
        certified = proven.client_of(name)
        if certified is None:
            return Entrance("its certificate does not say that it is this client")
        return Entrance(identity=certified, rights=Rights(unruled=True, operate=proven.says(OPERATOR, certified)))

    def judge_asker(
        self, role: str, name: str, proven: ProvenPeer | None, identity: str | None, local: bool, near: bool
    ) -> str:
        """Of somebody that wants to see what the network is like: why it may not, empty when it may. Whoever is on this
        machine (`local`) may, where there are no rules; a broker without a certificate is believed to be one where a
        broker is known to be (`near`). Nobody else is told anything before it has shown who it is."""
        if role == "broker":
            fault = self._judge_broker(name, proven).fault
            return fault or ("" if proven is not None or near else "no broker is known to be there")
        entrance = self.judge("client", name, proven, identity)
        if entrance.fault:
            return entrance.fault
        if self._rules is not None:
            may_see = entrance.rights is not None and entrance.rights.sees
            return "" if entrance.identity and may_see else MAY_NOT_SEE
        return "" if local or proven is not None else "it comes from another machine, and has not shown who it is"

    def judge_viewer(self, identity: str) -> str:
        """The same of somebody that has shown by a secret to be this identity, and needs no name."""
        known = self.known(identity)
        if known is None:
            return "its identity is no longer in the rules"
        return "" if known.rights.sees else MAY_NOT_SEE

    def as_proven(self, asked: Who, proven: ProvenPeer | None) -> Who:
        """Of a question, what can be believed: which network a broker is in, only that broker says."""
        if not self._judge_broker(asked.name, proven).fault:
            return asked
        return Who(asked.name)

    def _judge_broker(self, name: str, proven: ProvenPeer | None, incarnation: int = 0) -> Entrance:
        if self.keyring is None:
            return self._judge_member(name, proven, incarnation)
        if proven is None:
            return Entrance("it has no certificate, and a broker needs one here")
        if not proven.says("broker", name):
            return Entrance("its certificate does not say that it is this broker")
        return Entrance(identity=name)

    def _judge_member(self, name: str, proven: ProvenPeer | None, incarnation: int) -> Entrance:
        """Without TLS."""
        if self.network_key is None:
            is_open = not self._closed and not self.has_rules
            return Entrance("" if is_open else "it cannot prove that it is a broker: there is no --network-key here")
        if proven is None:
            return Entrance(NO_KEY)
        if not proven.says("broker", name) or (incarnation and proven.incarnation != incarnation):
            return Entrance("it has proven to be another broker, or another life of it")
        return Entrance(identity=name)

    def _judge_by_rules(self, rules: Rules, name: str, proven: ProvenPeer | None, identity: str | None) -> Entrance:
        if identity is not None:
            known = rules.identities.get(identity)
            if known is None:
                return Entrance("its identity is no longer in the rules")
        else:
            names = (name for role, name in proven.names if role == "client") if proven is not None else iter(())
            known = rules.of_certificate(names)
        if known is None:
            if rules.anybody is None:
                return Entrance("it has no login or certificate that the rules know")
            if rules.is_reserved(name):
                return Entrance("the rules reserve its name for an identity, which it has not proven")
            return Entrance(rights=rights_of(rules.anybody, name))
        if not known.may_be_called(name):
            allowed = ", ".join(known.clients[:HINTED_NAMES])
            return Entrance("its identity may not use this name", hint=f"; clients of {known.name} are named {allowed}")
        return Entrance("", known.name, rights_of(known.rights, name), known.limits)


def told(hello: Hello, proven: ProvenPeer | None, identity: str | None) -> str:
    """Who it says it is, for the log."""
    role = "client" if hello.role == "client" else "broker"
    by = "certificate says" if proven is not None and proven.incarnation is None else "proof says"
    certified = f", whose {by} {proven}," if proven is not None else ""
    logged_in = f", which is {identity}," if identity is not None else ""
    return f"{role} {shorten(hello.name)}{certified}{logged_in}"


def what_is_open(door: Door, listen: Address, insecure: bool) -> str:
    """A line for the operator that names what nothing protects; empty when there is no such thing, or when it was said
    of loopback that it is known (`insecure`)."""
    is_local = is_loopback(listen)
    if (door.keyring is not None and (door.has_rules or not insecure)) or (is_local and insecure):
        return ""
    whoever = "every program on this machine" if is_local else f"every machine that reaches {listen}"
    open_to = []
    if not door.has_rules and (door.keyring is None or not is_local):
        open_to.append("can publish and subscribe everywhere under any name (--rules)")
    if door.keyring is None and door.network_key is None and not door.has_rules:
        open_to.append("can join as any broker (--network-key)")
    if door.keyring is None and not is_local:
        open_to.append("can read and change what is sent if it is on the path (--tls)")
    return f"not protected: {whoever} {', '.join(open_to)}" if open_to else ""


def check_closed(keyring: Keyring | None, rules: Path | None, listens: str) -> None:
    """Raise UsageError if other machines can reach the broker and nothing restricts who may connect."""
    if keyring is None and rules is None:
        raise UsageError(
            f"{listens} can be reached from other machines, and nothing restricts who may connect: give --tls, --rules"
            " or both, or --insecure to let everybody connect"
        )


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
