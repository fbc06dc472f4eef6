"""Whatever a network does to connections: every message of a session once and in order, or its end is told."""

from collections.abc import Callable
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resprout.core.contract import Close, Hold, LinkUp, Open, Release, Send
from resprout.links.options import LinkOptions
from tests.links.hostile import PATIENCE_US, Hostile, Node
from tests.links.puppet import Episode, Parcel, Sign
from tests.soak import cases

BOUNDED = settings(
    max_examples=cases(50, 140),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
PARCEL_BYTES_MAX = 40
WINDOW_BYTES = 60
OUTBOX_MESSAGES_MAX = 8

OPTIONS = st.builds(
    LinkOptions,
    window_bytes=st.sampled_from((1, 7, WINDOW_BYTES)),
    ack_messages_max=st.sampled_from((1, 3, 100)),
    heartbeat_us=st.none() | st.just(30_000),
    broker_linger_us=st.none() | st.just(10 * PATIENCE_US),
)
"""A linger longer than the runs: what is under way long enough to exceed it has a test of its own."""

NETWORK = ("deliver", "deliver", "deliver", "deliver", "deliver", "answer", "answer", "cut", "wait")
TALK = ("send", "send", "send", "control")
Moves = list[tuple[str, int]]


def moves(*kinds: str) -> st.SearchStrategy[Moves]:
    """Of a length that is drawn first: lists that are free to end anywhere are mostly short."""
    move = st.tuples(st.sampled_from(kinds), st.integers(0, 9999))
    return st.sampled_from((8, 40, 120)).flatmap(lambda size: st.lists(move, min_size=size, max_size=size))


class Run:
    """Two or three nodes in a hostile network, moved by choices."""

    def __init__(
        self,
        options: LinkOptions,
        names: tuple[str, ...],
        opens: list[tuple[str, str]],
        parcel_bytes_max: int = PARCEL_BYTES_MAX,
    ) -> None:
        self.world = Hostile()
        self.parcel_bytes_max = parcel_bytes_max
        self.options = options
        self.names = names
        self.opens = opens
        self.held: dict[tuple[str, str], tuple[Episode, int]] = {}
        """Sessions that a stack holds, and what had come in them by then."""
        self._numbers = count(1)
        for name in names:
            self._boot(name)

    def _boot(self, name: str) -> None:
        self.world.boot(name, self.options)
        for opener, peer in self.opens:
            if opener == name:
                self.world.ask(name, Open(peer))

    def move(self, kind: str, choice: int) -> None:
        world = self.world
        name = self.names[choice % len(self.names)]
        others = [other for other in self.names if other != name]
        peer = others[choice // 3 % len(others)]
        network: dict[str, Callable[[int], object]] = {
            "deliver": world.deliver, "answer": world.answer, "cut": world.cut, "wait": world.wait
        }  # fmt: skip
        if kind in network:
            network[kind](choice)
        elif kind == "send":
            world.ask(name, (peer, Parcel(next(self._numbers), 1 + choice % PARCEL_BYTES_MAX)))
        elif kind == "large":
            world.ask(name, (peer, Parcel(next(self._numbers), 1 + choice * 7 % self.parcel_bytes_max)))
        elif kind == "sign":
            world.ask(name, Send(peer, Sign(next(self._numbers))))
        elif kind == "control":
            world.ask(name, [(peer, Parcel(next(self._numbers))) for _ in range(1 + choice % 3)])
        elif kind == "hold":
            world.ask(name, Hold(peer))
            if (episode := world.nodes[name].puppet.current.get(peer)) and (name, peer) not in self.held:
                self.held[name, peer] = (episode, bytes_of(episode.received))
        elif kind == "release":
            world.ask(name, Release(peer))
            self.held.pop((name, peer), None)
        elif kind == "close":
            world.ask(name, Close(peer, "enough of you"))
        elif kind == "reopen":
            for opener, target in self.opens:
                if opener == name:
                    world.ask(name, Open(target))
        elif kind == "restart":
            self._boot(name)
        check_bounds(world, self.options, self.parcel_bytes_max)
        for (holder, held), (episode, bytes_before) in list(self.held.items()):
            if world.nodes[holder].puppet.current.get(held) is not episode:
                del self.held[holder, held]
            else:
                came = bytes_of(episode.received) - bytes_before
                assert came < self.options.window_bytes + self.parcel_bytes_max

    def end(self) -> None:
        """The faults stop; everybody is released and wants what was wanted at first."""
        for name in self.names:
            for other in self.names:
                self.world.ask(name, Release(other))
        for opener, peer in self.opens:
            self.world.ask(opener, Open(peer))
        self.world.heal()


def bytes_of(parcels: list[Parcel]) -> int:
    return sum(parcel.cost for parcel in parcels)


def check_bounds(world: Hostile, options: LinkOptions, parcel_bytes_max: int) -> None:
    for node in world.nodes.values():
        for status in node.links.sessions():
            assert status.unconfirmed <= options.outbox_messages_max
            assert status.unconfirmed_bytes <= options.window_bytes + parcel_bytes_max


def episodes(world: Hostile, of: str, peer: str) -> list[tuple[Node, Episode]]:
    """Sessions that any life of a node had with a peer, in order."""
    return [
        (node, episode) for node in world.lives if node.name == of for episode in node.puppet.episodes.get(peer, [])
    ]


def partner(world: Hostile, node: Node, peer: str, episode: Episode) -> Episode | None:
    """The other side of a session in which something was received."""
    return next((other for _, other in episodes(world, peer, node.name) if episode.received[0] in other.sent), None)


def check_order(world: Hostile) -> None:
    """In every session: what was received is a beginning of what was sent in exactly one session of the other side."""
    for node in world.lives:
        for peer, sessions in node.puppet.episodes.items():
            partners: list[Episode] = []
            for episode in sessions:
                if episode.received:
                    other = partner(world, node, peer, episode)
                    assert other is not None
                    assert episode.received == other.sent[: len(episode.received)]
                    assert all(other is not earlier for earlier in partners)
                    partners.append(other)


def check_signs(world: Hostile) -> None:
    """They keep their order among themselves, and none is lost or doubled."""
    for name, node in world.nodes.items():
        for peer, episode in node.puppet.current.items():
            assert world.nodes[peer].puppet.current[name].signs_received == episode.signs_sent


def check_nothing_is_lost(world: Hostile) -> None:
    """Sessions that stand on both sides have brought over everything; and they stand on both sides or on neither."""
    for name, node in world.nodes.items():
        for peer, episode in node.puppet.current.items():
            other = world.nodes[peer].puppet.current.get(name)
            assert other is not None
            assert other.received == episode.sent
            assert episode.up.incarnation == world.nodes[peer].incarnation
            assert not node.puppet.waiting.get(peer)
            assert not episode.silent


def check_causes(world: Hostile) -> None:
    """A life that is said to be over is over, and a peer that is said to have ended a session had the chance to."""
    for node in world.lives:
        for peer, sessions in node.puppet.episodes.items():
            for episode in sessions:
                if episode.cause == "restarted":
                    assert episode.up.incarnation < world.nodes[peer].incarnation
                if episode.cause == "closed":
                    assert episode.down
                    assert "restarted" not in episode.down


def check_links(run: Run) -> None:
    for opener, peer in run.opens:
        assert peer in run.world.nodes[opener].puppet.current


@BOUNDED
@given(OPTIONS, moves(*NETWORK, *TALK, "hold", "release"))
def test_broken_connections_are_invisible(options: LinkOptions, chosen: Moves) -> None:
    run = Run(options, ("b0", "b1"), [("b1", "b0")])
    for kind, choice in chosen:
        run.move(kind, choice)
    run.end()
    check_order(run.world)
    check_causes(run.world)
    check_nothing_is_lost(run.world)
    check_links(run)
    for node in run.world.lives:
        assert len(node.puppet.heard(LinkUp)) == 1
        assert all(episode.down is None for episode in node.puppet.episodes[next(iter(node.puppet.episodes))])
    assert run.world.goodbyes == []


@BOUNDED
@given(OPTIONS, moves(*NETWORK, *TALK, *TALK, "hold", "release", "close", "reopen", "restart"))
def test_restarts_and_closes_end_sessions_and_nothing_else_does(options: LinkOptions, chosen: Moves) -> None:
    run = Run(options, ("b0", "b1"), [("b1", "b0")])
    for kind, choice in chosen:
        run.move(kind, choice)
    run.end()
    check_order(run.world)
    check_causes(run.world)
    check_nothing_is_lost(run.world)
    check_links(run)
    ends = sum(kind in ("close", "restart") for kind, _ in chosen)
    for node in run.world.lives:
        for sessions in node.puppet.episodes.values():
            assert sum(episode.down is not None for episode in sessions) <= ends
    assert not [reason for reason in run.world.goodbyes if is_fault(reason)]


@BOUNDED
@given(OPTIONS, moves(*NETWORK, *NETWORK, *TALK, "hold", "release", "close", "reopen", "restart"))
def test_three_that_all_open_each_other_agree_in_the_end(options: LinkOptions, chosen: Moves) -> None:
    names = ("b0", "b1", "b2")
    run = Run(options, names, [(name, other) for name in names for other in names if name != other])
    for kind, choice in chosen:
        run.move(kind, choice)
    run.end()
    check_order(run.world)
    check_causes(run.world)
    check_nothing_is_lost(run.world)
    check_links(run)
    assert not [reason for reason in run.world.goodbyes if is_fault(reason)]


@BOUNDED
@given(moves(*NETWORK, *TALK, "control", "control", "restart"))
def test_small_outboxes_and_short_memories_lose_only_what_is_told(chosen: Moves) -> None:
    options = LinkOptions(
        window_bytes=WINDOW_BYTES,
        broker_linger_us=60_000,
        outbox_messages_max=OUTBOX_MESSAGES_MAX,
        broker_messages_max=OUTBOX_MESSAGES_MAX,
        heartbeat_us=20_000,
        silence_us=80_000,
        acquaintances_max=1,
    )
    run = Run(options, ("b0", "b1", "b2"), [("b1", "b0"), ("b2", "b0")])
    for kind, choice in chosen:
        run.move(kind, choice)
    run.end()
    check_order(run.world)
    check_causes(run.world)
    check_nothing_is_lost(run.world)
    check_links(run)
    assert not [reason for reason in run.world.goodbyes if is_fault(reason)]


@BOUNDED
@given(st.sampled_from((100, 50_000)), moves(*NETWORK, *NETWORK, "send", "large", "large", "control", "sign", "hold"))
def test_large_messages_and_what_overtakes_them_come_through_broken_connections(window: int, chosen: Moves) -> None:
    options = LinkOptions(window_bytes=window, ack_messages_max=100, broker_linger_us=10 * PATIENCE_US)
    run = Run(options, ("b0", "b1"), [("b1", "b0")], parcel_bytes_max=69_000)
    for kind, choice in chosen:
        run.move(kind, choice)
    run.end()
    check_order(run.world)
    check_nothing_is_lost(run.world)
    check_signs(run.world)
    for node in run.world.lives:
        assert len(node.puppet.heard(LinkUp)) == 1
    assert run.world.goodbyes == []


def is_fault(reason: str) -> bool:
    """Whether somebody was accused of what no honest peer does."""
    return any(words in reason for words in ("granted", "missing", "acknowledged", "within a session", "instead of"))
