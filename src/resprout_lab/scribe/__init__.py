"""Scribe on a ring: a tree for each topic, and for each topic an owner on the ring whose log is held by three brokers.

*The documents.* Vivoli, Costa and Silva, "ASD Project Phase 3" (2019), a report on a system of three phases: Chord,
Scribe, and Multi-Paxos for owners of topics. What it only names is that of the papers (`overlay.chord`,
`spread.scribe`, `replicas`), with the corrections S1 to S5 to the report's pseudocode.

*A topic* (`held`, `log`) belongs to the first broker at or behind its key on the ring. That one and the next two hold
it: a log that decides by majority. One of them leads.

*Owners* (`owners`) see to it that the right brokers hold their topics, whatever happens to the ring: they found topics,
and claim changes, which the holders decide.

*Publishing* (`publishing`, `errands`). A broker finds out who leads the topic, and asks for a place, until it has it:
it is `safe` then. The leader spreads what is decided down the topic's tree, with its position.

*Trees* (`wishes`, `spread.scribe`) grow along the ways of the ring to whoever leads, and are repaired when parents or
leaders die. What a broker missed in between, it asks of the leader, who keeps it for a while. Filters with wildcards
learn of topics from a directory, which is a topic like others.

*Order.* `total`, within each topic: the order of its log, and a client's own publications in theirs. `eventual` beside
it takes the same way, and counts apart. `fifo` would be the same as `total` here, and `causal` would bind topics to
each other, which have no common order: both are refused. So is a publication that names keys of other topics.

*Receipts.* `accepted`: its broker has it. `safe`: most of those who hold the topic do. `delivered` is never said.

*Faults.* One broker may be down at a time (half of the `backups`), and return at any time; the next may fall when the
ring and the topics have those who are to hold them. With three brokers or more. Living clients of a dead broker go on
elsewhere: what they published is not lost and not doubled, what they read goes on in order, and they are told that they
may have missed something in between.

*Departures.* The report's replicas are two dedicated spares of each node, outside the ring; here they are the next two
on the ring, who take over its topics when the owner dies (docs/decisions/31). There is one log for each topic, not
for each node, so that topics move alone. Numbers of positions, and the leader's memory, make trees lossless.

*Assumptions.* Messages between any two brokers take less than a quarter of `suspect_us`; what is published while a
broker is without a parent fits into `keep_bytes`, or its clients are told that they missed something.
"""

from resprout.core.promises import OrderScope
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.stacks.families import Family
from resprout.stacks.stack import Stack, WaitTimes
from resprout.stacks.survival import NOTHING, Survival
from resprout_lab.scribe.broker import GUARANTEES, RECEIPTS, ScribeBroker
from resprout_lab.scribe.chord.messages import CHORD_MESSAGES
from resprout_lab.scribe.messages import (
    SCRIBE_MESSAGES,
    AskRange,
    AskTopic,
    ClaimTopic,
    FoundTopic,
    PublicationPlaced,
    PublishAt,
    RangeCeded,
    TopicGivenUp,
    TopicKnown,
    TopicLed,
)  # fmt: skip
from resprout_lab.scribe.options import ScribeOptions
from resprout_lab.scribe.trees.messages import (
    SCRIBE_TREE_MESSAGES,
    AskMissed,
    JoinTree,
    LeaveTree,
    NotKept,
    Scribed,
    TreeBeat,
    TreeHas,
    TreeJoined,
)  # fmt: skip

_CLIENTS = "what came for the clients of a dead broker, before they are served elsewhere, is not kept; they are told"


def _survives(options: ScribeOptions) -> Survival:
    if not options.faults:
        return NOTHING
    return Survival(
        options.faults, majority=True, least=2 * options.faults + 1, silent_hosts=True, recovers_with_disk=True,
        recovers_without_disk=True, returns_early=True, again=True,
    )  # fmt: skip


SCRIBE = Stack(
    name="scribe",
    guarantees=GUARANTEES,
    options=ScribeOptions,
    messages=CLIENT_MESSAGES + CHORD_MESSAGES + SCRIBE_TREE_MESSAGES + SCRIBE_MESSAGES + REPLICA_MESSAGES,
    make_broker=ScribeBroker,
    order=OrderScope.EACH_TOPIC,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: (Scribed, PublishAt, *REPLICA_MESSAGES),
        Family.REPORTS: (PublicationPlaced, AskTopic, TopicLed, TreeHas),
        Family.SUBSCRIPTIONS: (JoinTree, TreeJoined, LeaveTree, TreeBeat),
        Family.MEMBERSHIP: (*CHORD_MESSAGES, FoundTopic, TopicKnown, TopicGivenUp, ClaimTopic, AskRange, RangeCeded),
        Family.REPAIR: (AskMissed, NotKept),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    layers={"resprout_lab.scribe.chord": "overlay", "resprout_lab.scribe.trees": "spread"},
    reach_us=20_000,
    waits=lambda options: WaitTimes(death_us=4 * options.suspect_us + options.again_us),
    survives=_survives,
    known_anomalies={"lost_told": _CLIENTS},
    known_limits={"lost": "a topic whose holders died within one repair is lost, and so is what only they had"},
)
