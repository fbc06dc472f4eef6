"""Durable subscriptions by hand: what the judge makes of single rows, and what it leaves alone."""

from collections.abc import Iterator

import pytest

from resprout.audit.history import QUIET_US, CalmTimes, Shock
from resprout.audit.judge import judge
from resprout.audit.records import NEVER
from resprout.trace.schema import Row, TraceError

S = 1_000_000


class Story:
    """Rows at times in seconds. Publications of `p` are numbered from 1, one per second."""

    def __init__(self, *consumers: str, group: bool = True) -> None:
        self.rows: list[Row] = []
        self._about = {"durable": "d", **({"group": "yes"} if group else {})}
        for name in consumers:
            self.begin(0, name)

    def add(self, at: float, node: str, kind: str, **columns: object) -> None:
        self.rows.append(Row(time_us=int(at * S), node=node, kind=kind, **columns))  # type: ignore[arg-type]

    def begin(self, at: float, name: str) -> None:
        self.add(at, name, "consume", filter="t", attributes=self._about)
        self.add(at, name, "consuming", filter="t", attributes={"durable": "d"})

    def publish(self, count: int, *keys: str) -> None:
        for seq in range(1, count + 1):
            what = {"publisher": "p", "incarnation": 1, "stream": "ordered", "seq": seq}
            self.add(seq, "p", "publish", topic="t", keys=keys, guarantee="causal", **what)
            for receipt in ("accepted", "safe"):
                self.add(seq, "p", "receipt", receipt=receipt, **what)

    def handed(
        self, at: float, name: str, seq: int, again: bool = False, *keys: str, dropped: str | None = None
    ) -> None:
        times = 1 + sum([row.kind == "handed" and row.seq == seq for row in self.rows])
        about = {"durable": "d", **({"redelivered": "yes", "deliveries": str(times)} if again else {})}
        if dropped is not None:
            self.add(at, name, "drops_told", attributes={"durable": "d", "dropped": dropped})
        what = {"publisher": "p", "incarnation": 1, "stream": "ordered", "seq": seq}
        self.add(at, name, "handed", topic="t", keys=keys, guarantee="causal", position=0, attributes=about, **what)

    def done(self, at: float, name: str, seq: int, *, told: bool = True) -> None:
        what = {"publisher": "p", "incarnation": 1, "stream": "ordered", "seq": seq}
        self.add(at, name, "acknowledged", attributes={"durable": "d"}, **what)
        if told:
            self.add(at, "p", "receipt", receipt="delivered", **what)

    def broken(self, end: float = 200) -> dict[str, list[str]]:
        self.add(end, "", "quiescent")
        found: dict[str, list[str]] = {}
        for anomaly in judge(sorted(self.rows, key=lambda row: row.time_us)).anomalies:
            found.setdefault(anomaly.rule, []).append(anomaly.explanation)
        return found


def test_what_dies_with_a_consumer_and_is_never_handed_out_again_is_lost() -> None:
    story = Story("a", "b")
    story.publish(1)
    story.handed(2, "a", 1)
    story.add(3, "a", "crash")
    (text,) = story.broken()["durable"]
    assert text == "d: nobody was handed p:1 after a, which is gone and has not acknowledged it"


@pytest.mark.parametrize("case", ["again", "holds it", "acknowledged", "gone late", "others came late", "nobody"])
def test_it_is_not_lost_if(case: str) -> None:
    story = Story("a") if case in ("others came late", "nobody") else Story("a", "b")
    story.publish(1)
    story.handed(2, "a", 1)
    if case == "acknowledged":
        story.done(2.5, "a", 1)
    if case != "holds it":
        story.add(195 if case == "gone late" else 3, "a", "crash")
    if case == "again":
        story.handed(4, "b", 1, True)
        story.done(5, "b", 1)
    if case == "others came late":
        story.begin(195, "b")
    assert story.broken() == {}


@pytest.mark.parametrize(("told", "lost"), [(("2", "3"), 0), (("3", "3"), 0), (("2", "2"), 3), ((None, None), 3)])
def test_as_many_may_be_missing_as_consumers_were_told_to_be_dropped(
    told: tuple[str | None, str | None], lost: int
) -> None:
    """The number counts from the beginning of the subscription; of 1, 2 and 4 one died with its consumer."""
    story = Story("a", "b")
    story.publish(5)
    story.handed(6, "a", 4, dropped=told[0])
    story.add(7, "a", "crash")
    for seq, dropped in ((3, told[1]), (5, None)):
        story.handed(10 + seq, "b", seq, dropped=dropped)
        story.done(11 + seq, "b", seq)
    assert len(story.broken().get("durable", [])) == lost


def test_a_number_of_dropped_messages_that_is_none_is_refused() -> None:
    story = Story("a")
    story.publish(1)
    story.handed(2, "a", 1, dropped="many")
    with pytest.raises(TraceError, match="'many' is no number of messages"):
        story.broken()


def test_what_is_known_to_be_done_is_handed_to_nobody() -> None:
    story = Story("a", "b")
    story.publish(1)
    story.handed(2, "a", 1)
    story.done(3, "a", 1)
    story.add(3 + QUIET_US / S, "b1", "crash")
    story.handed(30, "b", 1, True)
    story.done(31, "b", 1)
    assert story.broken() == {"durable": ["d: b was handed p:1 at 30.000000 s, which a had acknowledged at 3.000000 s"]}


@pytest.mark.parametrize(
    "shock",
    [(15, "b1", "crash"), (15, "a", "crash"), (1, "b1", "freeze"), (1, "b2", "hang"), (1, "", "partition"),
     (15, "b1", "repair_end"), (15, "a", "consume_over")],
)  # fmt: skip
def test_it_may_not_be_known_if_something_happened_before(shock: tuple[int, str, str]) -> None:
    story = Story("a", "b")
    story.publish(1)
    story.handed(2, "a", 1)
    story.done(3, "a", 1)
    at, node, kind = shock
    story.add(at, node, kind, attributes={"durable": "d"} if kind == "consume_over" else None)
    story.handed(25, "b", 1, True)
    story.done(26, "b", 1)
    assert story.broken() == {}


def test_a_key_is_in_one_hand() -> None:
    story = Story("a", "b")
    story.publish(2, "k")
    story.handed(3, "a", 1, False, "k")
    story.handed(4, "b", 2, False, "k")
    story.done(5, "a", 1)
    story.done(6, "b", 2)
    assert story.broken() == {"durable": ["d: b was handed p:2 at 4.000000 s, while a had p:1 of the same key"]}


@pytest.mark.parametrize("case", ["acknowledged", "gone", "over", "frozen", "lately", "same", "no key", "alone"])
def test_a_key_is_not_in_two_hands_if(case: str) -> None:
    keys = () if case == "no key" else ("k",)
    story = Story("a", "b", group=case != "alone")
    if case == "lately":
        story.add(0.5, "b1", "crash")
    story.publish(2, *keys)
    story.handed(3, "a", 1, False, *keys)
    if case == "acknowledged":
        story.done(3.5, "a", 1)
    elif case == "gone":
        story.add(3.5, "a", "leave")
    elif case == "over":
        story.add(3.5, "a", "consume_over", attributes={"durable": "d"})
    elif case == "frozen":
        story.add(3.5, "a", "freeze")
        story.add(5, "a", "unfreeze")
    story.handed(4, "a" if case == "same" else "b", 2, False, *keys)
    story.done(6, "a" if case == "same" else "b", 2)
    if case not in ("acknowledged", "gone", "over"):
        story.done(6, "a", 1)
    if case in ("gone", "over"):
        story.handed(7, "b", 1, True, *keys)
        story.done(7, "b", 1)
    found = story.broken()
    assert "of the same key" not in str(found)


@pytest.mark.parametrize("died", ["both", "the consumer", "the home", "nobody"])
def test_order_of_a_key_is_forgotten_only_with_both_who_knew_the_acknowledgement(died: str) -> None:
    """The first message comes again after the second one, to a consumer that had the second one."""
    story = Story("a", "b")
    story.publish(2, "k")
    story.handed(3, "a", 1, False, "k")
    story.done(3.1, "a", 1, told=False)
    story.handed(3.2, "b", 2, False, "k")
    story.done(3.3, "b", 2, told=False)
    if died in ("both", "the home"):
        story.add(3.4, "b0", "crash")
    if died in ("both", "the consumer"):
        story.add(3.5, "a", "crash")
    story.handed(9, "b", 1, True, "k")
    story.done(9.1, "b", 1, told=False)
    found = [text for text in story.broken().get("durable", []) if "after p:2" in text]
    assert len(found) == (died != "both")


@pytest.mark.parametrize(("is_told", "is_wrong"), [(True, False), (False, True)])
def test_delivered_is_due_when_everybody_has_acknowledged(is_told: bool, is_wrong: bool) -> None:
    story = Story("a", group=False)
    story.publish(1)
    story.handed(2, "a", 1)
    story.done(3, "a", 1, told=is_told)
    assert ("receipt" in story.broken()) == is_wrong


@pytest.mark.parametrize("is_handed", [True, False])
def test_delivered_is_not_due_while_nobody_consumes_a_durable_subscription(is_handed: bool) -> None:
    story = Story("a", group=False)
    story.publish(2)
    story.handed(2, "a", 1)
    story.done(3, "a", 1)
    if is_handed:
        story.handed(4, "a", 2)
    story.add(5, "a", "crash")
    assert story.broken() == {}


def held_story(is_consumed: bool) -> Story:
    """A plain subscriber lacks 2 and 3, which nobody accepted: 2 matches a durable subscription, and 3 follows it."""
    story = Story("a", group=False)
    for topic in ("t", "u"):
        story.add(0, "s", "subscribe", filter=topic)
        story.add(0, "s", "subscribed", filter=topic)
    story.publish(1)
    first = {"publisher": "p", "incarnation": 1, "stream": "ordered", "seq": 1}
    story.add(2, "s", "deliver", topic="t", keys=(), guarantee="causal", position=0, **first)
    if not is_consumed:
        story.add(3, "a", "crash")
    else:
        story.handed(3, "a", 1)
        story.done(3, "a", 1)
    for seq, topic in ((2, "t"), (3, "u")):
        story.add(3 + seq, "p", "publish", topic=topic, keys=(), guarantee="causal", **{**first, "seq": seq})
    return story


@pytest.mark.parametrize("is_consumed", [False, True])
def test_what_waits_at_its_publisher_for_a_subscription_that_nobody_consumes_is_not_lost(is_consumed: bool) -> None:
    """With a consumer at the end nobody is held, so it is lost."""
    broken = held_story(is_consumed).broken()
    assert {rule: len(found) for rule, found in broken.items()} == ({"lost": 2, "durable": 1} if is_consumed else {})


def test_delivered_is_not_due_for_an_acknowledged_part_of_a_bundle_whose_rest_waits_for_a_consumer() -> None:
    """The receipts of a bundle come together. The same trace with a consumer at its end is judged."""
    for is_consumed in (False, True):
        story = Story("a", group=False)
        story.publish(2)
        story.handed(2, "a", 1)
        story.done(3, "a", 1, told=False)
        if not is_consumed:
            story.add(5, "a", "crash")
        else:
            story.handed(4, "a", 2)
            story.done(5, "a", 2)
        assert set(story.broken()) == ({"receipt"} if is_consumed else set())


def shocks(*told: tuple[int, str, str]) -> Iterator[Shock]:
    return (Shock(at * S, kind, node, "") for at, kind, node in told)


def test_it_is_calm_between_shocks_and_not_while_something_hangs() -> None:
    calm = CalmTimes(shocks((100, "freeze", "a"), (150, "crash", "b"), (200, "unfreeze", "a"), (210, "crash", "c")))
    assert calm.quiet_after(50 * S, NEVER) == 65 * S
    assert calm.quiet_after(90 * S, NEVER) == 225 * S
    assert calm.quiet_after(90 * S, 224 * S) == NEVER
    assert calm.covers(0, 99 * S) and not calm.covers(0, 100 * S)
    assert not calm.covers(160 * S, 190 * S) and not calm.covers(215 * S, 300 * S) and calm.covers(225 * S, 300 * S)


def test_a_frozen_node_that_crashes_hangs_no_more_and_a_cut_link_until_it_heals() -> None:
    calm = CalmTimes(
        shocks((1, "freeze", "a"), (2, "crash", "a"), (30, "cut", "x"), (60, "repair_end", "y"), (90, "heal", ""))
    )
    assert calm.quiet_after(3 * S, NEVER) == 18 * S
    assert calm.quiet_after(16 * S, NEVER) == 105 * S
