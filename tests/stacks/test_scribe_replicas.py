"""AddReplica and RemoveReplica: operators add brokers to the holders of a topic of `scribe`, and remove them again."""

from functools import cache
from random import Random

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Close, LinkUp, Received
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Publish, PublishRefused
from resprout.edge.requests import PublishRequest
from resprout.sim.run import Run
from resprout_lab.scribe.clients import REPLICAS
from resprout_lab.scribe.log import SetReplica, TakeLead, TopicLog
from resprout_lab.scribe.messages import ChangeReplica
from tests.edge.desk import Desk
from tests.soak import cases
from tests.stacks.scribe_runs import ScribePlayed, fault, ring

BROKERS = 6


def played(
    *commands: tuple[int, str, str], more: str = "", operations: int = 100, interval: str = "100ms"
) -> ScribePlayed:
    """Publications on `t` at all brokers from 3 s to 13 s. A command: its time, its client, and its text."""
    run = Run(ring(BROKERS, operations=operations, interval=interval, more=more), None, ())

    def give(client: str, text: str) -> None:
        process = run.world.nodes[client].process
        assert process is not None, "clients do not crash"
        run.world.request(process, PublishRequest(REPLICAS, text.encode(), Guarantee.TOTAL))

    for at_us, client, text in commands:
        run.world.at(at_us, give, client, text)
    return ScribePlayed(run, run.finish())


def broken(played: ScribePlayed) -> set[str]:
    """Rules that the run breaks. The trace does not hold the commands, so it has receipts without a publication."""
    unknown = "which it had not published"
    return {anomaly.rule for anomaly in played.verdict.anomalies if unknown not in anomaly.explanation}


def receipts(played: ScribePlayed) -> list[str]:
    """What was told of commands."""
    told = [one.explanation for one in played.verdict.anomalies if one.rule == "receipt"]
    return [words.split("'")[1] for words in told]


def holders(played: ScribePlayed) -> set[str]:
    return set(played.holding("t"))


@cache
def by_ring() -> set[str]:
    return holders(played(operations=5))


def other() -> str:
    """A broker that the ring does not give the topic."""
    return min({f"b{number}" for number in range(BROKERS)} - by_ring())


def add() -> tuple[int, str, str]:
    return (4_000_000, other().replace("b", "c"), f"add t {other()}")


def test_an_added_broker_holds_the_topic_besides_those_of_the_ring() -> None:
    told = played(add())
    assert not broken(told) and told.result.ended == "quiescent"
    assert holders(told) == by_ring() | {other()}
    held = told.holding("t")
    assert held[told.leader("t")].log.position == BROKERS * 100
    assert held[other()].log.position >= BROKERS * 100 - 1, "all but the last decision, which a heartbeat tells"
    assert receipts(told) == ["accepted", "safe"], "its operator knows that it is decided"


def test_an_added_broker_may_be_needed_for_the_majority() -> None:
    first, second, _ = sorted(by_ring())
    told = played(add(), more=fault("6s", "crash", first) + fault("9s", "crash", second))
    assert told.result.ended == "quiescent" and other() in holders(told)
    assert not broken(told)


def test_a_removed_broker_does_not_hold_the_topic_any_more_and_may_be_named_anywhere() -> None:
    anywhere = min(by_ring()).replace("b", "c")
    told = played(add(), (8_000_000, anywhere, f"remove t {other()}"))
    assert not broken(told) and holders(told) == by_ring()


def test_an_added_life_that_is_over_is_no_holder() -> None:
    gone = fault("6s", "crash", other()) + fault("8s", "recover", other())
    told = played(add(), more=gone)
    assert told.result.ended == "quiescent" and holders(told) == by_ring()
    assert not broken(told)


@pytest.mark.parametrize("seed", range(cases(3, 100)))
def test_holders_may_be_added_and_removed_while_brokers_crash_and_return(seed: int) -> None:
    rng = Random(seed)
    commands = []
    for _ in range(8):
        name = f"b{rng.randrange(BROKERS)}"
        verb = rng.choice(("add", "add", "remove"))
        commands.append((rng.randint(3_500_000, 30_000_000), name.replace("b", "c"), f"{verb} t {name}"))
    faults = []
    for at_s in (6, 20):
        name = f"b{rng.randrange(BROKERS)}"
        faults += [fault(f"{at_s}s", "crash", name), fault(f"{at_s + rng.randint(1, 6)}s", "recover", name)]
    told = played(*sorted(commands), more="".join(faults), operations=60, interval="500ms")
    assert told.result.ended == "quiescent" and not broken(told)
    (leader,) = [held for held in told.holding("t").values() if held.is_leading]
    added = {name for name, holder in leader.log.added.items() if told.brokers[name].owners.me == holder}
    assert holders(told) == by_ring() | added


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("add t b1", "this is b0: publish the command at b1"),
        ("add t", "a command is a publication of its own"),
        ("drop t b0", "a command is a publication of its own"),
        ("add $scribe/topics b0", "cannot be changed"),
        ("add t/# b0", "wildcard"),
        ("remove t b?", "is refused"),
    ],
)
def test_a_command_that_cannot_be_is_refused_with_a_reason(text: str, reason: str) -> None:
    desk = Desk("scribe")
    desk.serve("c")
    desk.say("c", Publish(Bundle("c", 1, 1, 1, 0, REPLICAS, (), Guarantee.TOTAL, b"", pack_payloads([text.encode()]))))
    (refused,) = [message for message in desk.heard("c") if isinstance(message, PublishRefused)]
    assert reason in refused.reason


def test_a_broker_may_add_only_itself() -> None:
    desk = Desk("scribe")
    desk.step(LinkUp("b1", "broker", 1, 1 << 20))
    for holder in ("b2/1@", "nothing", "/1@"):
        effects = desk.machine.step(Received("b1", ChangeReplica("t", holder, True, 1)), 5)
        assert any(isinstance(effect, Close) and effect.peer == "b1" for effect in effects)
        desk.step(LinkUp("b1", "broker", 1, 1 << 20))


def test_added_holders_are_part_of_a_snapshot() -> None:
    log = TopicLog()
    for change in (TakeLead("b0/1@"), SetReplica("b1/1@", True), SetReplica("b2/1@", True), SetReplica("b1/0@", False)):
        log.apply(change)
    again = TopicLog.load(log.dump())
    assert again.added == {"b2": "b2/1@"}
    again.apply(SetReplica("b2/3@", True))
    assert again.added == {"b2": "b2/3@"}, "a later life replaces an earlier one"
