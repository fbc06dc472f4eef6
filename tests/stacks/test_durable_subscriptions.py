"""Durable subscriptions of the default stack, under random interleavings in which consumers and brokers die."""

import random
from collections.abc import Iterable

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Request
from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.durable_messages import Consume, Standing, Terms, WhenFull
from resprout.edge.requests import (
    AcknowledgeRequest,
    ClientRequest,
    ConsumerBegan,
    ConsumerOver,
    DroppedBefore,
    EndRequest,
    LeaveRequest,
    PublishRequest,
)
from resprout.order.messages import Forward
from resprout.stacks.resprout import ResproutOptions
from tests.soak import cases
from tests.stacks.tree import Tree

JOBS = Terms("jobs/#", None, False)
GROUP = Terms("jobs/#", None, True)


SPILL = Terms("jobs/#", None, False, WhenFull.SPILL)
SPILL_GROUP = Terms("jobs/#", None, True, WhenFull.SPILL)


def make_tree(
    seed: int = 0, brokers: int = 3, faults: int = 1, publishers: int = 1, options: ResproutOptions | None = None
) -> Tree:
    parents: dict[str, str | None] = {f"b{n}": f"b{n - 1}" if n else None for n in range(brokers)}
    homes = {f"p{n}": f"b{n % brokers}" for n in range(publishers)}
    tree = Tree(parents, homes, seed=seed, options=options or ResproutOptions(faults_tolerated=faults))
    tree.react = acknowledging(tree)
    tree.start()
    settle(tree)
    return tree


def settle(tree: Tree) -> None:
    for _ in range(6):
        tree.run()
        tree.detector()
    tree.run()


def acknowledging(tree: Tree, but: Iterable[str] = ()):  # type: ignore[no-untyped-def]
    """Every consumer acknowledges what it is handed, at once, except these."""

    def react(name: str, message: Message) -> list[ClientRequest]:
        is_consumer = isinstance(tree.machines.get(name), ConsumerMachine)
        return [AcknowledgeRequest((message,))] if is_consumer and name not in but else []  # type: ignore[list-item]

    return react


def publish(tree: Tree, count: int, publisher: str = "p0", **more: object) -> None:
    for number in range(count):
        request = PublishRequest("jobs/a", b"%d" % number, **{"guarantee": Guarantee.CAUSAL, **more})  # type: ignore[arg-type]
        tree.ask(publisher, request)


def payloads(tree: Tree, name: str) -> list[int]:
    return [int(message.payload) for message in tree.delivered[name]]


def began(tree: Tree, name: str) -> bool:
    return any(isinstance(news, ConsumerBegan) for news in tree.news[name])


def over(tree: Tree, name: str) -> Standing | None:
    return next((news.standing for news in tree.news[name] if isinstance(news, ConsumerOver)), None)


def test_it_is_confirmed_and_gives_everything_in_order() -> None:
    tree = make_tree()
    tree.consume("w0", "b2", "orders", JOBS)
    settle(tree)
    assert began(tree, "w0")
    publish(tree, 10)
    settle(tree)
    assert payloads(tree, "w0") == list(range(10))
    assert not any(message.redelivered for message in tree.delivered["w0"])


def test_what_is_published_while_nobody_consumes_waits_for_the_next_consumer_wherever_it_comes() -> None:
    tree = make_tree()
    tree.consume("w0", "b2", "orders", JOBS)
    settle(tree)
    publish(tree, 3)
    settle(tree)
    tree.lose("w0")
    settle(tree)
    publish(tree, 3)
    settle(tree)
    tree.consume("w1", "b0", "orders", JOBS)
    settle(tree)
    assert payloads(tree, "w0") == [0, 1, 2]
    assert payloads(tree, "w1") == [0, 1, 2]
    assert [message.seq for message in tree.delivered["w1"]] == [4, 5, 6]
    assert not any(message.redelivered for message in tree.delivered["w1"])


def test_all_brokers_know_the_consumers_of_a_group_that_come_before_it_is_confirmed() -> None:
    """The next home waits for the consumers that it knows. It did not wait for these, and handed out again, after
    later messages of the same key, what they had acknowledged (`swarm --class queues --first 620002158`)."""
    tree = make_tree()
    for number in range(3):
        tree.consume(f"w{number}", "b1", "orders", GROUP)
    settle(tree)
    for name in ("b0", "b1", "b2"):
        assert sorted(tree.brokers[name].parts.client_book.durables.states["orders"].consumers) == ["w0", "w1", "w2"], (
            name
        )


@pytest.mark.parametrize("terms", [JOBS, GROUP], ids=["alone", "group"])
def test_what_cannot_be_read_is_left_out_also_when_it_is_handed_out_in_parts(terms: Terms) -> None:
    """A member brings it, perhaps from another one, with a column that holds other messages than it says. The broker
    ended with a WireError when it had to split such a bundle."""
    tree = make_tree()
    for name in ("w0", "w1") if terms.group else ("w0",):
        tree.consume(name, "b1", "orders", terms, window=2)
    settle(tree)
    forged = Bundle("far", 1, 1, 9, 5, "jobs/a", (), Guarantee.FIFO, b"", pack_payloads([b"1", b"2"]))
    tree.forge("b2", "b1", Forward(forged, 2))
    settle(tree)
    publish(tree, 4)
    settle(tree)
    assert sorted(n for name in ("w0", "w1") for n in (payloads(tree, name) if name in tree.machines else [])) == [
        0,
        1,
        2,
        3,
    ]
    assert tree.incarnations["b1"] == 1


def test_what_was_not_acknowledged_comes_again_and_says_so() -> None:
    tree = make_tree()
    tree.react = acknowledging(tree, but=["w0"])
    tree.consume("w0", "b2", "orders", JOBS)
    settle(tree)
    publish(tree, 4)
    settle(tree)
    done = tree.delivered["w0"][:2]
    tree.ask("w0", AcknowledgeRequest(tuple(done)))  # type: ignore[arg-type]
    settle(tree)
    tree.lose("w0")
    tree.consume("w1", "b1", "orders", JOBS)
    settle(tree)
    assert [message.seq for message in tree.delivered["w1"]] == [3, 4]
    assert all(message.redelivered for message in tree.delivered["w1"])


def test_whoever_comes_later_fences_off_whoever_had_it() -> None:
    tree = make_tree()
    tree.consume("w0", "b2", "orders", JOBS)
    settle(tree)
    tree.consume("w1", "b0", "orders", JOBS)
    settle(tree)
    assert over(tree, "w0") is Standing.FENCED
    publish(tree, 2)
    settle(tree)
    assert payloads(tree, "w0") == [] and payloads(tree, "w1") == [0, 1]


def test_other_terms_under_a_name_that_is_taken_are_refused() -> None:
    tree = make_tree()
    tree.consume("w0", "b2", "orders", JOBS)
    settle(tree)
    tree.consume("w1", "b0", "orders", Terms("bills/#", None, False))
    settle(tree)
    assert over(tree, "w1") is Standing.DIFFERENT
    assert over(tree, "w0") is None


def test_its_end_is_the_end_for_everybody_and_the_name_is_free_again() -> None:
    tree = make_tree()
    tree.consume("w0", "b2", "orders", GROUP)
    tree.consume("w1", "b1", "orders", GROUP)
    settle(tree)
    tree.ask("w0", EndRequest())  # type: ignore[arg-type]
    settle(tree)
    assert over(tree, "w0") is Standing.ENDED and over(tree, "w1") is Standing.ENDED
    publish(tree, 2)
    settle(tree)
    tree.consume("w2", "b0", "orders", JOBS)
    settle(tree)
    publish(tree, 1)
    settle(tree)
    assert payloads(tree, "w2") == [0]
    for broker in tree.brokers.values():
        assert "=orders" not in broker.parts.sessions.all or broker.life.seat.name == "b0"


def test_two_that_begin_it_at_the_same_time_find_the_same_one() -> None:
    for seed in range(6):
        tree = make_tree(seed)
        tree.consume("w0", "b0", "jobs", GROUP)
        tree.consume("w1", "b2", "jobs", GROUP)
        settle(tree)
        assert began(tree, "w0") and began(tree, "w1")
        homes = [name for name, broker in tree.brokers.items() if "=jobs" in broker.parts.sessions.all]
        assert len(homes) == 1
        publish(tree, 10)
        settle(tree)
        assert sorted(payloads(tree, "w0") + payloads(tree, "w1")) == list(range(10)), seed


def test_where_the_oldest_are_dropped_so_many_wait_and_the_rest_is_counted() -> None:
    tree = make_tree()
    terms = Terms("jobs/#", None, False, WhenFull.DROP_OLDEST, 3)
    tree.consume("w0", "b2", "orders", terms)
    settle(tree)
    tree.lose("w0")
    publish(tree, 10)
    settle(tree)
    tree.consume("w1", "b2", "orders", terms)
    settle(tree)
    assert payloads(tree, "w1") == [7, 8, 9]
    assert [news.count for news in tree.news["w1"] if isinstance(news, DroppedBefore)] == [7]


def told_dropped(tree: Tree, *names: str) -> int:
    return sum(news.count for name in names for news in tree.news[name] if isinstance(news, DroppedBefore))


@pytest.mark.parametrize("group", [False, True])
def test_a_consumer_is_told_of_dropped_messages_also_if_it_is_handed_nothing_more(group: bool) -> None:
    """It has as many messages as it may have, acknowledges none, and was told only with the next one."""
    tree = make_tree()
    tree.react = acknowledging(tree, but=["w0"])
    terms = Terms("jobs/#", None, group, WhenFull.DROP_OLDEST, 3)
    tree.consume("w0", "b2", "orders", terms, window=1)
    settle(tree)
    publish(tree, 10)
    settle(tree)
    assert payloads(tree, "w0") == [0] and told_dropped(tree, "w0") == 6
    publish(tree, 2)
    settle(tree)
    assert payloads(tree, "w0") == [0] and told_dropped(tree, "w0") == 8


@pytest.mark.parametrize("group", [False, True])
def test_the_next_home_tells_how_many_were_dropped_when_the_home_dies_before_it_told(group: bool) -> None:
    """The count was known to the home alone, while all brokers knew that these messages were done with."""
    tree = make_tree(brokers=4)
    terms = Terms("jobs/#", None, group, WhenFull.DROP_OLDEST, 3)
    tree.consume("w0", "b2", "orders", terms)
    settle(tree)
    tree.lose("w0")
    publish(tree, 10)
    settle(tree)
    tree.crash("b2")
    settle(tree)
    tree.consume("w1", "b0", "orders", terms)
    settle(tree)
    assert payloads(tree, "w1") == [7, 8, 9]
    assert told_dropped(tree, "w1") == 7


def test_a_consumer_that_was_told_of_dropped_messages_is_not_told_again_by_the_next_home() -> None:
    tree = make_tree(brokers=4)
    terms = Terms("jobs/#", None, False, WhenFull.DROP_OLDEST, 3)
    tree.consume("w0", "b2", "orders", terms)
    settle(tree)
    tree.lose("w0")
    publish(tree, 10)
    settle(tree)
    tree.react = acknowledging(tree, but=["w1"])
    tree.consume("w1", "b2", "orders", terms)
    settle(tree)
    assert told_dropped(tree, "w1") == 7
    tree.crash("b2")
    settle(tree)
    publish(tree, 2)
    settle(tree)
    assert told_dropped(tree, "w1") == 7 and payloads(tree, "w1") == [7, 8, 9, 0, 1]


def test_a_notice_of_dropped_messages_that_a_consumer_did_not_acknowledge_is_for_the_next_consumer() -> None:
    tree = make_tree()
    terms = Terms("jobs/#", None, False, WhenFull.DROP_OLDEST, 3)
    tree.consume("w0", "b2", "orders", terms)
    settle(tree)
    tree.lose("w0")
    publish(tree, 10)
    settle(tree)
    tree.react = acknowledging(tree, but=["w1"])
    for name in ("w1", "w2", "w3"):
        tree.consume(name, "b2", "orders", terms)
        settle(tree)
    assert [told_dropped(tree, name) for name in ("w1", "w2", "w3")] == [7, 7, 0]


def test_when_its_broker_dies_the_consumer_goes_on_without_a_repeat() -> None:
    for seed in range(4):
        tree = make_tree(seed, brokers=4)
        tree.consume("w0", "b2", "orders", JOBS)
        settle(tree)
        publish(tree, 6)
        for _ in range(random.Random(seed).randint(0, 60)):
            tree.one()
        tree.crash("b2")
        settle(tree)
        publish(tree, 4)
        settle(tree)
        assert [message.seq for message in tree.delivered["w0"]] == list(range(1, 11)), seed


def test_what_is_acknowledged_while_the_next_broker_is_asked_is_done_there_as_well() -> None:
    tree = make_tree(brokers=4)
    tree.react = acknowledging(tree, but=["w0"])
    tree.consume("w0", "b2", "orders", JOBS)
    settle(tree)
    publish(tree, 3)
    settle(tree)
    tree.crash("b2")
    while not any(isinstance(said, Consume) for at in tree.brokers for _, said in tree.streams.between("w0", at)):
        assert tree.one()
    tree.ask("w0", AcknowledgeRequest(tuple(tree.delivered["w0"])))  # type: ignore[arg-type]
    settle(tree)
    assert all(not broker.parts.log.entries for broker in tree.brokers.values())


def test_a_broker_that_leaves_tells_first_what_was_acknowledged_since_its_last_heartbeat() -> None:
    tree = make_tree()
    tree.consume("w0", "b2", "orders", JOBS)
    settle(tree)
    publish(tree, 3)
    tree.run()
    tree.lose("w0")
    books = [broker.parts.client_book.durables for broker in tree.brokers.values()]
    assert len(tree.delivered["w0"]) == 3
    assert [book.done_of("orders") for book in books] == [((), ())] * 3, "no heartbeat has told it yet"
    tree.step("b2", Request(LeaveRequest(0)))
    tree.run()
    assert [[mark.seq for mark in book.done_of("orders")[0]] for book in books] == [[3], [3], [3]]


@pytest.mark.parametrize("block", range(cases(1, 24)))
@pytest.mark.parametrize("terms", [JOBS, GROUP, SPILL, SPILL_GROUP])
def test_over_deaths_of_consumers_and_brokers_nothing_is_lost_and_repeats_say_so(block: int, terms: Terms) -> None:
    spilled = 0
    for seed in range(block * 5, block * 5 + 5):
        rng = random.Random(f"durable {seed}")
        faults = rng.choice((1, 1, 2))
        brokers = 2 * faults + rng.randint(1, 4)
        options, size = None, 0
        if terms.when_full is WhenFull.SPILL:
            room = rng.choice((1 << 12, 1 << 14, 1 << 20))
            options, size = ResproutOptions(faults_tolerated=faults, log_bytes=4096, spill_bytes=room), 600
        tree = make_tree(seed, brokers, faults, publishers=2, options=options)
        slow = {"w0"} if rng.random() < 0.5 else set()
        tree.react = acknowledging(tree, but=slow)
        workers = ["w0", "w1"] if terms.group else ["w0"]
        for name in workers:
            tree.consume(name, rng.choice(list(tree.parents)), "orders", terms, window=rng.choice((None, 3)))
        settle(tree)
        asked = {"p0": 0, "p1": 0}
        alive = list(workers)
        deaths = faults
        next_worker = 2
        for _ in range(rng.randint(20, 60)):
            action = rng.random()
            if action < 0.5:
                publisher = rng.choice(("p0", "p1"))
                asked[publisher] += 1
                keys = (f"k{rng.randrange(3)}",) if rng.random() < 0.5 else ()
                tree.ask(publisher, PublishRequest("jobs/a", b"%d" % asked[publisher] + bytes(size), keys=keys))
            elif action < 0.56 and alive:
                tree.lose(alive.pop(rng.randrange(len(alive))))
            elif action < 0.64:
                name = f"w{next_worker}"
                next_worker += 1
                tree.consume(name, rng.choice(list(tree.brokers)), "orders", terms, window=rng.choice((None, 3)))
                alive = [*alive, name] if terms.group else [name]
            elif action < 0.68 and deaths:
                deaths -= 1
                tree.crash(rng.choice(sorted(tree.brokers)))
            else:
                for _ in range(rng.randint(1, 30)):
                    tree.one()
        slow.clear()
        settle(tree)
        tree.consume("last", sorted(tree.brokers)[0], "orders", terms)
        if terms.group:
            for name in [name for name in alive if name in tree.machines]:
                tree.lose(name)
        for _ in range(6):
            settle(tree)
        check(tree, asked, seed)
        spilled += sum(broker.parts.spilling.bytes_spilled for broker in tree.brokers.values())
    assert (spilled > 0) == (terms.when_full is WhenFull.SPILL)


def check(tree: Tree, asked: dict[str, int], seed: int) -> None:
    """Of all consumers together: nothing lost, handed out for the first time once, and to each consumer every publisher
    in order; in a group, every key of it."""
    given: dict[tuple[str, int], bool] = {}
    latest: dict[tuple[str, ...], int] = {}
    is_group = isinstance(machine := tree.machines["last"], ConsumerMachine) and machine.terms.group
    for name, what, message in tree.history:
        if what != "delivered" or not isinstance(message, Message) or name.startswith("p"):
            continue
        key = (message.publisher, message.seq)
        is_first = not message.redelivered
        assert not (given.get(key, False) and is_first), (seed, name, key)
        given[key] = given.get(key, False) or is_first
        if not is_group or message.keys:
            order = (name, message.publisher, *(message.keys if is_group else ()))
            assert message.seq > latest.get(order, 0), (seed, name, key)
            latest[order] = message.seq
    for publisher, count in asked.items():
        missing = [seq for seq in range(1, count + 1) if (publisher, seq) not in given]
        assert not missing, (seed, publisher, missing)
