"""How much one identity may have at a broker: counted over all its clients, refused by name, given back."""

import itertools

import pytest

from resprout.core.contract import Note
from resprout.core.errors import UsageError
from resprout.core.limits import ClientLimits
from resprout.edge.broker import quotas
from resprout.edge.broker.quotas import LimitError
from resprout.edge.messages import Attend, HeldSubscription, Subscribed, SubscribeRefused, Taken
from resprout.filters.predicate import parse_predicate, placement_of, topic_matches
from tests.edge.house import ROOM, House


def house_of(limits: ClientLimits, *clients: str, identity: str = "") -> House:
    house = House()
    for name in clients:
        session = house.clients[name] = house.sessions.arrive(name, 1, ROOM, False, identity, limits)
        house.sessions.welcome(session, Attend(0), (), True, house.out)
    return house


def refusals(house: House, client: str) -> list[str]:
    """Since this was asked last."""
    return [told.reason for told in house.told(client) if isinstance(told, SubscribeRefused)]


def test_filters_that_place_wildcards_in_many_ways_are_refused() -> None:
    """Attack 5: 32,768 filters of 15 levels, each `+` or not, all match one topic. Filters with wildcards at the same
    places never match the same topic, however many there are."""
    house = house_of(ClientLimits(identity_wildcards=8), "a")
    filters = ["/".join(levels) for levels in itertools.product("+x", repeat=4)]
    for id, topic_filter in enumerate(filters):
        house.subscribe("a", id, topic_filter)
    reasons = refusals(house, "a")
    assert len(reasons) == 16 - 1 - 8, "one of them has no wildcard"
    assert set(reasons) == {"a has 8 placements of wildcards in its filters and may have 8 (limit identity_wildcards)"}
    for id in range(100, 200):
        house.subscribe("a", id, f"+/{id}/+/{id}" if id % 2 else f"+/+/+/{id}")
    assert not refusals(house, "a"), "these places are taken already"
    house.sessions.flush(house.out)
    house.unsubscribe("a", 0)
    house.subscribe("a", 300, "+/+/#")
    assert not refusals(house, "a"), "the only one with its wildcards there is gone"
    house.subscribe("a", 301, "+/#")
    assert len(refusals(house, "a")) == 1


def deep(number: int) -> str:
    """A filter of thirteen levels; each number places its wildcards differently."""
    return "/".join(["+" if number >> place & 1 else "x" for place in range(12)] + ["+"])


def test_a_client_gets_placements_beside_64_identities_that_take_all_they_can() -> None:
    """The limit was shared: 64 identities used it up, and others were refused. The honest client comes last here."""
    house = house_of(ClientLimits(), *[f"evil{number}" for number in range(64)], "honest")
    numbers = itertools.count()
    for _ in range(64):
        for attacker in range(64):
            house.subscribe(f"evil{attacker}", number := next(numbers), deep(number))
    assert any("(limit wildcards)" in reason for reason in refusals(house, "evil0"))
    assert len(house.sessions.quotas.deep) < quotas.DEEP_PLACEMENTS
    for id in range(12):
        house.subscribe("honest", id, "honest/" + deep(id))
    assert not refusals(house, "honest")


def test_filters_of_few_levels_are_refused_to_no_client_because_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tests/filters/test_index.py` counts that they cost a topic at most 510 lookups."""
    monkeypatch.setattr(quotas, "DEEP_PLACEMENTS", 0)
    house = house_of(ClientLimits(identity_wildcards=10_000), "evil", "honest")
    for id, levels in enumerate(itertools.product("+x", repeat=8)):
        house.subscribe("evil", id, "/".join(levels))
    house.subscribe("honest", 1, "a/+/c/+/e/+/g/#")
    assert not refusals(house, "evil") and not refusals(house, "honest")
    house.subscribe("honest", 2, "a/+/c/+/e/+/g/h/#")
    [reason] = refusals(house, "honest")
    assert reason.endswith("in filters of more than 8 levels, and 0 are free for all (limit wildcards)")


def test_deep_placements_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "DEEP_PLACEMENTS", 3)
    monkeypatch.setattr(quotas, "DEEP_SHARE", 1)
    house = house_of(ClientLimits(), "a", "b")
    for id in range(3):
        house.subscribe("a", id, deep(id))
    house.subscribe("b", 1, "b/" + deep(0)[2:])
    assert len(refusals(house, "a")) == 1, "one, of two that are left"
    assert not refusals(house, "b"), "b has a placement that a has, too"
    house.subscribe("b", 2, deep(5))
    assert len(refusals(house, "b")) == 1
    assert house.sessions.quotas.refused == {"3 is the limit (limits.wildcards)": 2}
    house.sessions.leave("a", house.out)
    house.subscribe("b", 3, deep(5))
    assert not refusals(house, "b")
    house.sessions.leave("b", house.out)
    assert not house.sessions.quotas.deep


def test_placements_of_durable_subscriptions_count_for_the_identity_that_begins_them() -> None:
    """Each durable subscription was a party of its own: with 1,000 of them an identity had 1,000 placements."""
    house = house_of(ClientLimits(identity_wildcards=2), "a", identity="mallory")
    session, durables = house.clients["a"], house.sessions.quotas
    durables.take_durable(session, "d0", parse_predicate(deep(0), None))
    house.subscribe("a", 1, deep(1))
    with pytest.raises(LimitError, match=r"mallory has 2 placements .* \(limit identity_wildcards\)"):
        durables.take_durable(session, "d2", parse_predicate(deep(2), None))
    durables.end_durable("d0")
    durables.take_durable(session, "d2", parse_predicate(deep(2), None))


def test_a_topic_matches_no_two_filters_with_wildcards_at_the_same_places() -> None:
    filters = ["/".join(levels) for n in (1, 2, 3) for levels in itertools.product("+xy", repeat=n)]
    filters += [f"{one}/#" for one in filters] + ["#"]
    topics = ["/".join(levels) for n in (1, 2, 3, 4) for levels in itertools.product("xy", repeat=n)]
    for topic in topics:
        matching = [placement_of(one) for one in filters if topic_matches(one, topic)]
        assert len(matching) == len(set(matching))


def test_all_clients_of_an_identity_share_what_it_may_have() -> None:
    limits = ClientLimits(identity_subscriptions=3, client_subscriptions=2)
    house = house_of(limits, "a", "b", identity="crowd")
    for id in (1, 2):
        house.subscribe("a", id, f"t{id}")
        house.subscribe("b", id, f"t{id}")
    assert refusals(house, "a") == []
    assert refusals(house, "b") == [
        "crowd has 3 subscriptions at this broker and may have 3 (limit identity_subscriptions)"
    ]
    house.sessions.leave("a", house.out)
    house.subscribe("b", 3, "t3")
    house.subscribe("b", 4, "t4")
    assert refusals(house, "b") == ["b has 2 subscriptions and may have 2 (limit client_subscriptions)"]


def test_clients_that_have_proven_nothing_stand_for_themselves() -> None:
    house = house_of(ClientLimits(identity_subscriptions=1), "a", "b")
    house.subscribe("a", 1)
    house.subscribe("b", 1)
    assert not refusals(house, "a") and not refusals(house, "b")


def test_the_conditions_of_an_identity_have_a_size_together() -> None:
    """Attack 8: a condition of 4 KB took 239 KB at each broker, and a client could have 100,000 of them."""
    house = house_of(ClientLimits(identity_condition_bytes=1_000), "a")
    for id in range(1, 4):
        house.subscribe("a", id, "t", f"name = '{id}{'x' * 400}'")
    [reason] = refusals(house, "a")
    assert reason.startswith("a has 948 bytes of conditions and may have 1000 (limit identity_condition_bytes)")
    house.unsubscribe("a", 1)
    house.subscribe("a", 4, "t", f"name = '{4}{'x' * 400}'")
    assert not refusals(house, "a")


def test_a_client_that_brings_along_more_than_it_may_have_keeps_the_rest_and_is_told() -> None:
    house = House()
    limits = ClientLimits(client_subscriptions=2)
    session = house.clients["a"] = house.sessions.arrive("a", 1, ROOM, False, "", limits)
    held = tuple(HeldSubscription(id, f"t{id}", None, ()) for id in (1, 2, 3))
    house.sessions.welcome(session, Attend(0, subscriptions=held), (), True, house.out)
    assert set(session.subscriptions) == {1, 2} and not refusals(house, "a")
    house.sessions.taken(session, Taken(0), house.out)
    assert refusals(house, "a") == ["a has 2 subscriptions and may have 2 (limit client_subscriptions)"]


def test_refusals_are_counted_by_limit_and_told_to_people_now_and_then() -> None:
    house = house_of(ClientLimits(client_subscriptions=1), "a")
    for id in range(1, 22):
        house.subscribe("a", id, f"t{id}")
    why = "1 is the limit (limits.client_subscriptions)"
    assert house.sessions.quotas.refused == {why: 20}
    notes = [effect.columns["detail"] for effect in house.out if isinstance(effect, Note)]
    assert notes == [f"a was refused: {why}", f"a was refused: {why}; 10 times by now"]
    assert Subscribed(1) in house.told("a")


def test_thousands_of_plain_subscriptions_and_of_cheap_conditions_are_within_the_limits() -> None:
    house = house_of(ClientLimits(), "a", identity="app")
    for id in range(5_000):
        house.subscribe("a", id, f"device/{id}/state")
    for id in range(10_000, 10_500):
        house.subscribe("a", id, "trades", f"account = {id}")
    assert not refusals(house, "a")


def test_a_limit_is_at_least_one() -> None:
    with pytest.raises(UsageError, match="limit identity_wildcards must be 1 or more, not 0"):
        ClientLimits(identity_wildcards=0)


def test_durable_subscriptions_count_for_the_identity_that_begins_them_until_they_end() -> None:
    """Attack 9, the side of the client: one identity cannot fill the network with them."""
    limits = ClientLimits(identity_durables=2, durable_steps=1_000)
    house = house_of(limits, "a", "b", identity="crowd")
    quotas = house.sessions.quotas
    jobs, short = parse_predicate("jobs/#"), parse_predicate("jobs/#", "kind = 'a'")
    long = parse_predicate("jobs/#", f"kind like '%{'a' * 64}%'")
    quotas.take_durable(house.clients["a"], "one", jobs)
    with pytest.raises(LimitError, match=r"crowd has 0 steps a message .* and may have 1000 \(limit durable_steps\)"):
        quotas.take_durable(house.clients["b"], "two", long)
    quotas.take_durable(house.clients["b"], "two", short)
    with pytest.raises(LimitError, match=r"crowd has 2 durable .* and may have 2 \(limit identity_durables\)"):
        quotas.take_durable(house.clients["a"], "three", jobs)
    for name in ("a", "b"):
        house.sessions.leave(name, house.out)
    quotas.end_durable("one")
    house.clients["a"] = house.sessions.arrive("a", 1, ROOM, False, "crowd", limits)
    quotas.take_durable(house.clients["a"], "three", jobs)
    with pytest.raises(LimitError):
        quotas.take_durable(house.clients["a"], "four", jobs)
    quotas.end_durable("of another broker")
