"""A tree of sites without faults: order, routing, receipts, and what is left when nobody wants anything any more."""

from collections import Counter

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.edge.requests import PublishRequest, SubscribeRequest, UnsubscribeRequest
from resprout.scenario.draw import draw_scenario
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Mix, Scenario
from resprout.scenario.source import ScenarioError
from resprout.sim.run import FaultModel, run_scenario
from resprout.stacks.stack import Survival, find_stack
from resprout_lab.blocks import PERIOD_US_MAX, replicated
from resprout_lab.sites import SITES
from resprout_lab.sites.commands import Entering, SiteConfig, name_of
from resprout_lab.sites.messages import Proposal, SiteCarries, SiteWants, SiteWantsNot
from resprout_lab.sites.options import SitesOptions
from resprout_lab.sites.state import dump, first_state, load
from tests.stacks.asking import Asked, ask
from tests.stacks.sites_runs import ROW, STAR, Played, clients, config_of, overhearing, play, scenario, sites, work

HOMES = {"c0": "s0a", "c1": "s1b", "c2": "s2c"}
FIFO = Mix(eventual=0.5, fifo=0.5)


def quiet(order: str = "total") -> Scenario:
    """Sites in a row, and clients that do nothing unasked."""
    return scenario(sites(ROW), clients(HOMES), order=order)


# -- order -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("routing", ["flooding", "filtering"])
@pytest.mark.parametrize("order", ["none", "fifo", "total"])
def test_calm_runs_are_clean(order: str, routing: str) -> None:
    offered = SITES.offered(SITES.parse_options({"order": order}))
    for seed in range(1, 5):
        drawn = draw_scenario(
            seed,
            stack="sites",
            guarantees=offered,
            options={"order": (order,), "routing": (routing,)},
            site_brokers=3,
        )
        result = run_scenario(drawn)
        verdict = judge(result.rows, promise=SITES.promise())
        assert result.ended == "quiescent" and not verdict.anomalies, f"seed {seed}"


def test_what_is_offered_depends_on_the_order() -> None:
    def offers(order: str) -> tuple[Guarantee, ...]:
        return SITES.offered(SITES.parse_options({"order": order}))

    assert offers("none") == (Guarantee.EVENTUAL,)
    assert offers("fifo") == (Guarantee.EVENTUAL, Guarantee.FIFO)
    assert offers("total") == SITES.offered(SITES.parse_options({})) == tuple(Guarantee)
    with pytest.raises(UsageError, match="does not offer 'causal'; it offers eventual, fifo"):
        SITES.check_guarantee(Guarantee.CAUSAL, SITES.parse_options({"order": "fifo"}))
    with pytest.raises(UsageError, match="option 'order'"):
        SITES.parse_options({"order": "casual"})


def test_with_total_order_everybody_reads_one_sequence_whatever_was_asked_for() -> None:
    played = play(scenario(sites(STAR), clients(HOMES, "t"), work(list(HOMES), "t", mix=Mix(eventual=0.9, total=0.1))))
    played.check_clean()
    assert played.delivered("c0") == played.delivered("c1") == played.delivered("c2")
    assert len(played.delivered("c0")) == 3 * 40


def test_without_it_a_publication_does_not_go_to_the_root_first() -> None:
    """c2 reads what it publishes as soon as its own site has decided it: the root is two ways of 2 ms away."""
    for order, is_near in (("fifo", True), ("total", False)):
        played = play(scenario(sites(ROW), clients(HOMES, "t"), work(["c2"], "t", mix=FIFO), order=order))
        played.check_clean()
        published = {row.seq: row.time_us for row in played.rows if row.kind == "publish" and row.stream == "ordered"}
        took = [
            row.time_us - published[row.seq]
            for row in played.rows
            if row.kind == "deliver" and row.node == "c2" and row.stream == "ordered"
        ]
        assert all((one < 4_000) == is_near for one in took)


# -- routing -----------------------------------------------------------------------------------------------------------


def carried(played: Played, from_site: str, to_site: str) -> list[str]:
    return [
        message.bundle.topic
        for name, peer, message in played.said
        if isinstance(message, SiteCarries) and name.startswith(from_site) and peer.startswith(to_site)
    ]


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_filtering_sends_nothing_where_nobody_asked_and_flooding_everything_everywhere(order: str) -> None:
    readers = (*clients({"c0": "s0a"}, "a"), *clients({"c1": "s1b"}, "b"), *clients({"c2": "s2c"}, "c"))
    mix = Mix(fifo=1.0)

    def way_down(routing: str) -> Played:
        return play(
            scenario(
                sites(ROW), readers, work(["c0"], "a", "b", "c", operations=30, mix=mix), order=order, routing=routing
            )
        )

    filtering, flooding = way_down("filtering"), way_down("flooding")
    filtering.check_clean()
    flooding.check_clean()
    assert set(carried(filtering, "s0", "s1")) == {"b", "c"} and set(carried(filtering, "s1", "s2")) == {"c"}
    assert set(carried(flooding, "s0", "s1")) == set(carried(flooding, "s1", "s2")) == {"a", "b", "c"}
    assert not flooding.messages(SiteWants)


def test_a_publication_crosses_each_link_between_sites_once_and_only_leaders_send() -> None:
    played = play(scenario(sites(ROW), clients(HOMES, "t"), work(list(HOMES), "t", operations=20)))
    played.check_clean()
    ways = [
        (name, peer, message.bundle.publisher, message.bundle.stream, message.bundle.first, message.place > 0)
        for name, peer, message in played.said
        if isinstance(message, SiteCarries)
    ]
    assert len(ways) == len(set(ways))
    assert {name for name, *_ in ways} == {"s0a", "s1a", "s2a"} == {peer for _, peer, *_ in ways}


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_a_subscription_that_ends_takes_its_routes_along(order: str) -> None:
    """The report removed no topic from a routing table."""
    asked = [
        Asked(1_000_000, "c2", SubscribeRequest("t")),
        Asked(1_500_000, "c0", PublishRequest("t", b"x", Guarantee.FIFO)),
        Asked(2_000_000, "c2", UnsubscribeRequest("t")),
        Asked(2_500_000, "c0", PublishRequest("t", b"x", Guarantee.FIFO)),
    ]
    with overhearing() as said:
        told = ask(quiet(order=order), (), asked)
    assert [(row.node, row.seq) for row in told.rows if row.kind == "deliver"] == [("c2", 1)]
    carried = [(name, peer) for name, peer, message in said if isinstance(message, SiteCarries)]
    assert carried == [("s0a", "s1a"), ("s1a", "s2a")], "the second one went nowhere"
    assert len([message for *_, message in said if isinstance(message, SiteWantsNot)]) == 2


def test_routes_end_with_the_last_of_those_who_wanted_them() -> None:
    both = [Asked(1_000_000, name, SubscribeRequest("t")) for name in ("c1", "c2")]
    publications = [
        Asked(at_us, "c0", PublishRequest("t", b"x", Guarantee.FIFO)) for at_us in (2_000_000, 3_000_000, 4_000_000)
    ]
    ends = [Asked(2_500_000, "c2", UnsubscribeRequest("t")), Asked(3_500_000, "c1", UnsubscribeRequest("t"))]
    told = ask(quiet(), (), [*both, *publications, *ends])
    got = [(row.node, row.seq) for row in told.rows if row.kind == "deliver"]
    assert sorted(got) == [("c1", 1), ("c1", 2), ("c2", 1)]


# -- sharing -----------------------------------------------------------------------------------------------------------


def test_where_the_load_is_shared_the_ways_to_neighbours_have_different_brokers() -> None:
    played = play(
        scenario(
            sites({"s0": None, "s1": "s0", "s2": "s1", "s3": "s1"}),
            clients({**HOMES, "c3": "s3a"}, "t"),
            work(["c0", "c1", "c2", "c3"], "t", operations=20),
            sharing="links",
        )
    )
    played.check_clean()
    state = played.state("s1a")
    assert len({state.gateway(site) for site in state.links}) == 3, "one for the parent, one for each child"


def test_ways_to_neighbours_fall_to_brokers_by_chance() -> None:
    parents = {"s0": None, **{f"s{number}": "s0" for number in range(1, 9)}}
    homes = {f"c{number}": f"s{number}b" for number in range(9)}
    played = play(scenario(sites(parents), clients(homes, "t"), work(list(homes), "t", operations=5), sharing="random"))
    played.check_clean()
    state = played.state("s0a")
    shares = Counter(name_of(state.gateway(site)) for site in state.links)
    assert set(shares) == {"s0a", "s0b", "s0c"} and sum(shares.values()) == 8


# -- brokers without sites, and other numbers of replicas --------------------------------------------------------------


def test_brokers_without_sites_are_sites_by_themselves() -> None:
    text = (
        'stack = "sites"\ntime_limit = "60s"\n[[broker]]\nname = "b0"\n[[broker]]\nname = "b1"\nparent = "b0"\n'
        '[[client]]\nname = "c0"\nbroker = "b0"\nsubscribe = ["t"]\n[[client]]\nname = "c1"\nbroker = "b1"\n'
        'subscribe = ["t"]\n[[workload]]\nkind = "random"\ntopics = ["t"]\noperations = 20\nmix = { total = 1.0 }\n'
    )
    result = run_scenario(parse_scenario(text))
    verdict = judge(result.rows, promise=SITES.promise())
    assert not verdict.anomalies and verdict.counts["deliveries"] == 80


def test_five_replicas_bear_two_crashes_and_one_none() -> None:
    def survival(replicas: int) -> Survival:
        return SITES.survives(SitesOptions(replicas=replicas))

    assert [survival(replicas).faults for replicas in (1, 2, 3, 5, 7)] == [0, 0, 1, 2, 3]


TWO = """
stack = "sites"
[[broker]]
name = "s0a"
site = "s0"
[[broker]]
name = "s0b"
site = "s0"
parent = "s0a"
"""


def test_a_site_that_lacks_a_broker_or_has_too_many_is_refused_when_the_file_is_read() -> None:
    with pytest.raises(ScenarioError, match=r":5: broker s0a: the site 's0' has 2 brokers; .* 'sites' has 3 in each"):
        parse_scenario(TWO)
    assert parse_scenario(TWO, overrides=["options.replicas=2"]).brokers
    assert parse_scenario(TWO, overrides=["stack=resprout"]).brokers
    third = '[[fault]]\nat = "1s"\nkind = "join"\nnodes = ["s0c"]\nsite = "s0"\nparent = "s0a"\n'
    assert parse_scenario(TWO + third).brokers
    with pytest.raises(ScenarioError, match="has 4 brokers"):
        parse_scenario(TWO + third.replace('["s0c"]', '["s0c", "s0d"]'))


def test_contacts_in_another_site_are_refused_when_the_file_is_read_because_only_a_parent_leads_there() -> None:
    reason = "in the stack 'sites' contacts are brokers of the same site; a parent leads to another one"
    flat = 'stack = "sites"\n[topology]\nkind = "flat"\nbrokers = 3\n'
    with pytest.raises(ScenarioError, match=f":2: broker b1: {reason}$"):
        parse_scenario(flat)
    assert parse_scenario(flat, overrides=["stack=gossip"]).brokers
    join = '[[fault]]\nat = "1s"\nkind = "join"\nnodes = ["x"]\ncontacts = ["s0b"]\n'
    with pytest.raises(ScenarioError, match=f":14: {reason}$"):
        parse_scenario(TWO + join, overrides=["options.replicas=2"])
    same = TWO.replace('parent = "s0a"', 'contacts = ["s0a"]')
    assert parse_scenario(same + join + 'site = "s0"\n').brokers


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"patience_us": 250_000}, "patience_us must be more than heartbeat_us, 250000, not 250000"),
        ({"heartbeat_us": 1_000_000}, "patience_us must be more than heartbeat_us, 1000000, not 1000000"),
        ({"return_us": 10**20}, f"option 'return_us': expected `int` <= {PERIOD_US_MAX}"),
        ({"patience_us": PERIOD_US_MAX + 1}, f"option 'patience_us': expected `int` <= {PERIOD_US_MAX}"),
    ],
)
def test_times_that_cannot_be_are_refused_in_one_line(given: dict[str, int], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        SITES.parse_options(given)
    assert str(caught.value) == complaint


def test_a_swarm_strikes_one_broker_of_each_site_at_most() -> None:
    model = FaultModel(sites(ROW), find_stack("sites").survives(SitesOptions()))
    assert model.bears(["s0a", "s1b", "s2c"]) and not model.bears(["s0a", "s0b"])
    assert not model.bears_crashes(["s1a", "s2a", "s1c"])


# -- the state ---------------------------------------------------------------------------------------------------------


def test_a_state_is_the_same_after_a_snapshot() -> None:
    played = play(
        scenario(sites(ROW), clients(HOMES, "t", "u/+"), work(list(HOMES), "t", "u/a", mix=FIFO), order="fifo")
    )
    options = SitesOptions(order="fifo")
    for name in ("s0a", "s1b", "s2c"):
        image, config = dump(played.state(name)), config_of(sites(ROW), name)
        again = load(image, config, options)
        assert dump(again) == image and again == played.state(name)
        with pytest.raises(ValueError, match="cannot be read"):
            load(b"\x93nothing", config, options)
        with pytest.raises(ValueError, match="no state of this one"):
            load(image, SiteConfig("other", ()), options)


def test_publications_that_wait_for_those_before_are_part_of_a_snapshot() -> None:
    options, config = SitesOptions(), config_of(sites(ROW), "s0a")
    state = first_state(config, options)
    late = [Bundle("p", 1, first, 1, 0, "t", (), Guarantee.FIFO, b"", pack_payloads([b"x"])) for first in (2, 3, 1)]
    for bundle in late[:2]:
        state.apply(5, Entering(bundle))
    again = load(dump(state), config, options)
    again.apply(6, Entering(late[2]))
    assert [placed.bundle.first for placed in again.recent] == [1, 2, 3]


def test_the_log_of_a_site_and_what_it_keeps_for_readers_stay_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated, "SNAPSHOT_SLOTS", 64)
    played = play(scenario(sites(ROW), clients(HOMES, "t"), work(list(HOMES), "t", operations=400, interval_us=500)))
    played.check_clean()
    for name, broker in played.brokers.items():
        replica = broker.agreement.replica
        assert replica is not None and len(replica.ledger.votes) < 200
        assert len(played.state(name).recent) < 600


def test_a_site_whose_lines_are_full_keeps_its_leader_and_decides_everything() -> None:
    """Large publications on thin lines: signs of life do not wait behind them, and what only takes its time is not said
    again and again."""
    brokers = [
        msgspec.structs.replace(broker, bandwidth_bps=4_000_000) for broker in sites({"s0": None}, near_us=2_000)
    ]
    large = msgspec.structs.replace(work(["c0", "c1"], "t", operations=6), payload=100_000)
    played = play(scenario(brokers, clients({"c0": "s0a", "c1": "s0b"}, "t"), large))
    played.check_clean()
    assert played.leaders("s0") == ["s0a/1"]
    proposed = [message.command for message in played.messages(Proposal) if len(message.command) > 1_000]
    assert len(set(proposed)) == 6 and len(proposed) <= 12, "a leader that needs time is not told again and again"


def test_a_log_of_large_commands_is_short_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated, "SNAPSHOT_LOG_BYTES", 100_000)
    large = msgspec.structs.replace(work(["c0"], "t", operations=20, interval_us=100_000), payload=20_000)
    played = play(scenario(sites({"s0": None}), clients({"c0": "s0a", "c1": "s0b"}, "t"), large))
    played.check_clean()
    for broker in played.brokers.values():
        replica = broker.agreement.replica
        assert replica is not None and replica.ledger.snapshot.slot > 0
        assert sum(len(vote.entry.command) for vote in replica.ledger.votes.values()) < 200_000


def test_messages_between_sites_have_families() -> None:
    assert SITES.family_of("SiteCarries") == "publications" and SITES.family_of("SiteWantsNot") == "subscriptions"
