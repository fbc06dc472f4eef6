"""Bytes as encoded, beside them what a paper counts, and how busy a network card was."""

from random import Random
from typing import Any

import pytest

from resprout.core import limits
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import ProtocolMessage
from resprout.core.guarantee import Guarantee
from resprout.links.frames import FRAMES, Data
from resprout.order.messages import Forward
from resprout.scenario.load import parse_scenario
from resprout.sim.nodes import NodeLoad, Scales, WeighedBodies, claims_size
from resprout.sim.run import RunResult, run_scenario
from resprout.stacks.stack import DEFAULT, find_stack
from resprout.wire.codec import Codec
from resprout_lab import SYSTEMS

SCENARIO = """
{top}
[[broker]]
name = "b0"
bandwidth = "1Mbit"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "c0"
broker = "b0"
[[client]]
name = "c1"
broker = "b1"
subscribe = ["a"]
[[client]]
name = "c2"
broker = "b0"
subscribe = ["a"]
[[workload]]
kind = "random"
clients = ["c0"]
topics = ["a"]
operations = 200
interval = "2ms"
payload = 200
start = "1s"
"""


def played(top: str = "") -> RunResult:
    return run_scenario(parse_scenario(SCENARIO.format(top=top), "<test>"))


def load_of(result: RunResult, node: str) -> dict[str, int]:
    row = next(row for row in result.rows if row.kind == "load" and row.node == node)
    return {name: int(text) for name, text in (row.attributes or {}).items()}


class Paper(ProtocolMessage, frozen=True, tag=9_001):
    """Of a stack whose paper counts eight bytes for each entry."""

    entries: tuple[int, ...]

    @property
    def paper_bytes(self) -> int:
        return 8 * len(self.entries)


class Plain(ProtocolMessage, frozen=True, tag=9_002):
    number: int


def test_the_bytes_of_every_node_are_counted_where_the_scenario_says_so() -> None:
    some, everybody = played(), played("count_bytes = true")
    assert "bytes_sent" not in load_of(some, "b1")
    assert load_of(everybody, "b1")["bytes_sent"] > 200 * 200
    assert load_of(everybody, "c0")["bytes_sent"] > 200 * 200
    assert load_of(some, "b0")["bytes_sent"] == load_of(everybody, "b0")["bytes_sent"]


def test_counting_bytes_changes_nothing_that_anybody_observes() -> None:
    def seen(result: RunResult) -> list[Any]:
        return [row for row in result.rows if row.kind != "load"]

    assert seen(played()) == seen(played("count_bytes = true"))


def test_free_links_of_clients_take_no_bandwidth_and_are_not_counted() -> None:
    charged, free = load_of(played(), "b0"), load_of(played('client_links = "free"'), "b0")
    assert free["sent:Delivery"] == charged["sent:Delivery"] == 200
    assert charged["bytes_sent"] - free["bytes_sent"] > 200 * 200
    assert free["busy_us"] < charged["busy_us"]


def test_a_network_card_is_busy_for_as_long_as_its_bytes_take() -> None:
    result = played()
    load = load_of(result, "b0")
    exact_us = load["bytes_sent"] * 8  # a megabit per second is a bit per microsecond
    assert load["busy_us"] == exact_us
    assert 0 < load["busy_us"] < result.stats.time_us
    assert "busy_us" not in load_of(result, "b1")


def test_what_was_never_sent_is_no_time_that_the_card_was_busy() -> None:
    result = played('time_limit = "1100ms"')
    assert result.ended == "timeout"
    assert load_of(result, "b0")["busy_us"] <= result.stats.time_us


def test_the_totals_of_a_run_are_the_sums_of_its_nodes() -> None:
    result = played("count_bytes = true")
    nodes = ("b0", "b1", "c0", "c1", "c2")
    for what in ("frames_sent", "frames_received", "bytes_sent"):
        assert result.traffic[what] == sum(load_of(result, node)[what] for node in nodes)
    assert result.traffic["busy_us"] == load_of(result, "b0")["busy_us"]


def test_one_frame_in_a_hundred_is_encoded_and_compared() -> None:
    result = played("count_bytes = true")
    assert result.traffic["frames_compared"] == -(-result.traffic["frames_sent"] // 100)


@pytest.mark.parametrize("stack", (DEFAULT, *SYSTEMS))
def test_every_frame_of_a_run_has_the_size_that_was_computed(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scales.__init__, "__defaults__", (1,))
    text = SCENARIO.replace("{top}", f'stack = "{stack}"\ncount_bytes = true\n[options]\nfaults_tolerated = 1\n')
    text = text if stack == "resprout" else text.replace("[options]\nfaults_tolerated = 1\n", "")
    if Guarantee.CAUSAL not in find_stack(stack).guarantees:
        text = text.replace('kind = "random"', 'kind = "random"\nmix = { eventual = 1.0 }')
    fault = '[[fault]]\nat = "1200ms"\nkind = "crash"\nnodes = ["b1"]\n'
    result = run_scenario(parse_scenario(text + fault, "<test>"))
    assert result.traffic["frames_compared"] == result.traffic["frames_sent"]


def test_a_frame_that_is_not_as_long_as_computed_ends_the_run() -> None:
    class Wrong(Codec):
        def frame_bytes(self, frame: Any) -> int:
            return super().frame_bytes(frame) + 1

    scales = Scales(Wrong(FRAMES, (Plain,)))
    with pytest.raises(AssertionError, match=r"a Data of Plain takes \d+ bytes, computed were \d+"):
        scales.weigh(Data(1, 0, 0, (Plain(3),)), NodeLoad())


def test_headers_that_claim_a_paper_size_are_counted_beside_the_encoded_bytes() -> None:
    load = NodeLoad()
    scales = Scales(Codec(FRAMES, (Paper, Plain)))
    size = scales.weigh(Data(1, 0, 0, (Paper((1, 2, 3)), Plain(3), Paper(()))), load)
    assert (load.paper_bytes, load.paper_messages) == (24, 2)
    assert load.bytes_sent == size
    assert load.counts()["paper_bytes"] == 24


def test_only_messages_that_say_so_claim_a_paper_size() -> None:
    assert claims_size(Paper)
    assert not claims_size(Plain)
    load = NodeLoad()
    Scales(Codec(FRAMES, (Plain,))).weigh(Data(1, 0, 0, (Plain(3),)), load)
    assert "paper_bytes" not in load.counts()


def test_a_bundle_with_many_keys_is_compared_with_the_widest_references() -> None:
    rng = Random(5)
    codec = Codec(FRAMES, find_stack("resprout").messages)
    for _ in range(50):
        keys = tuple(sorted({f"k{rng.randrange(10**6)}" for _ in range(rng.randrange(30))}))
        payloads = [rng.randbytes(rng.randrange(300)) for _ in range(rng.randrange(1, 20))]
        first = rng.randrange(1, 1 << rng.randrange(1, 60))
        bundle = Bundle("p", 1, first, len(payloads), first, "t", keys, Guarantee.CAUSAL, b"", pack_payloads(payloads))
        frame = Data(1, 0, 0, (Forward(bundle, 3),))
        assert codec.frame_bytes(frame) == codec.widest_bytes(frame)


class Boulder(ProtocolMessage, frozen=True, tag=999):
    size: int

    @property
    def bulk(self) -> int:
        return self.size


def test_a_message_that_no_connection_would_take_stops_the_run() -> None:
    """Where nothing is encoded it would arrive, and the run would be clean."""
    bodies = WeighedBodies()
    assert len(bodies.pack(1, Boulder(limits.FRAME_BYTES - 1000)))
    with pytest.raises(AssertionError, match="no connection would take it: Boulder takes"):
        bodies.pack(1, Boulder(limits.FRAME_BYTES + 1))
