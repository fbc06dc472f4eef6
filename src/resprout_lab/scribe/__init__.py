"""Scribe on a ring: a multicast tree for each topic, and for each topic an owner whose log three brokers hold.

*The documents.* Seed 004: Emanuele Vivoli, Joao Miguel Costa and Pedro Guilherme Silva, "ASD Project Phase 3", NOVA FCT
and University of Florence, 2019, second and third phase: Chord (Stoica and others, 2001), Scribe (Rowstron and others,
2002), and Multi-Paxos for owners of topics. What the report only names follows the papers (`Chord`, `Trees`,
`Replica`). docs/stacks/scribe.md has a table of its messages and procedures, and one of departures.

*A topic* (`HeldTopic`, `TopicLog`) belongs to the first broker at or behind its key on the ring. That one and the next
two hold it: a log that decides by majority. One of them leads.

*Owners* (`TopicOwners`) see to it that the right brokers hold their topics when the ring changes: they found topics,
and claim changes, which the holders decide.

*Publishing* (`TopicPublishing`, `Errands`). A broker finds the leader of the topic, and asks for a place until it has
one: the publication is `safe` then. The leader sends what is decided down the topic's tree, with its position.

*Trees* (`TopicWishes`, `Trees`) follow the routes of the ring to the leader, and are repaired when parents or leaders
die. A broker requests what it missed from the leader, which keeps publications for a while. Filters with wildcards
learn of topics from a directory, which is a topic like others.

*Order.* `total`, within each topic: the order of its log, and a client's own publications in theirs. `eventual` takes
the same path, and is numbered apart. `fifo` would be the same as `total` here, and `causal` would bind topics to each
other, which have no common order: both are refused. So is a publication that names keys of other topics.

*Receipts.* `accepted`: the publisher's broker has it. `safe`: a majority of the holders of the topic has it.
`delivered` is never sent.

*Faults.* One broker may be down at a time (half of the `backups`), of three or more, and return at any time; the next
may fail when ring and topics have their holders again. Living clients of a dead broker continue elsewhere: their
publications are not lost and not duplicated, and they miss nothing that the logs of their topics still hold.

*Corrections* S1 to S5 and all departures, known errors among them, are in docs/stacks/scribe.md.

*Assumptions.* Messages between any two brokers take less than a quarter of `suspect_us`; publications made while a
broker is without a parent fit into `keep_bytes`, or its clients are told that they missed messages.
"""

from resprout.core.guarantee import OrderScope
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.stacks.stack import NOTHING, Family, Stack, Survival, WaitTimes
from resprout_lab.scribe.broker import GUARANTEES, RECEIPTS, ScribeBroker
from resprout_lab.scribe.chord import CHORD_MESSAGES
from resprout_lab.scribe.messages import (
    REPLICA_COMMANDS,
    SCRIBE_MESSAGES,
    TOPIC_MESSAGES,
    AskTopic,
    PublicationPlaced,
    PublishAt,
    TopicLed,
)  # fmt: skip
from resprout_lab.scribe.options import ScribeOptions
from resprout_lab.scribe.trees_messages import (
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


def _survives(options: ScribeOptions) -> Survival:
    if not options.faults:
        return NOTHING
    return Survival(
        options.faults, majority=True, least=2 * options.faults + 1, silent_hosts=True, freezes=True, cuts=True,
        joins=True, leaves=True, recovers_with_disk=True, recovers_without_disk=True, returns_early=True, again=True,
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
        Family.MEMBERSHIP: (*CHORD_MESSAGES, *TOPIC_MESSAGES, *REPLICA_COMMANDS),
        Family.REPAIR: (AskMissed, NotKept),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    layers={"resprout_lab.scribe.chord": "overlay", "resprout_lab.scribe.trees": "spread"},
    reach_us=20_000,
    waits=lambda options: WaitTimes(death_us=4 * options.suspect_us + options.again_us),
    survives=_survives,
    drawn={"keep_us": (30_000_000, 30_000_000, 30_000_000, 3_000_000), "end_us": (60_000_000, 1_000_000, 1_000_000)},
    keeps_us=lambda options: options.keep_us,
    idle_us=lambda options: options.keep_us + options.end_us + 3 * options.noop_us,
    known_limits={"lost": "a topic whose holders died within one repair is lost, and so is what only they had"},
)
