"""The scenes: four things that happen in a network of three or four brokers, and comments on how they go on."""

from collections.abc import Mapping
from typing import Final

import msgspec

from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
)  # fmt: skip

MS: Final = 1_000
ZERO_US: Final = 5_000 * MS
"""By then the tree has formed and subscriptions are confirmed; times of a transcript count from here."""
TREE: Final = (BrokerSpec("b0"), BrokerSpec("b1", "b0", 10 * MS), BrokerSpec("b2", "b0", 20 * MS))
NEWS: Final = (SubscriptionSpec("news/#"),)


class Scene(msgspec.Struct, frozen=True):
    title: str
    section: str
    """Of protocol.md: what the numbers in the comments are about."""
    story: str
    scenario: Scenario
    comments: Mapping[tuple[str, str], str]
    """(who, what it says or what is observed of it) -> the comment before the first such line after the one before."""
    until_us: int
    """From `ZERO_US` on."""
    left_out: tuple[str, ...] = ()
    """Messages that have nothing to do with what the scene is about."""


def publishes(client: str, mix: Mix, keys: int = 0, after_us: int = 0) -> WorkloadSpec:
    """One publication."""
    options = RandomOptions(keys_max=1, attributes=False)
    return WorkloadSpec(
        "random", (client,), ("news/x",), keys=keys, operations=1, mix=mix, interval_us=0, payload=1,
        start_us=ZERO_US + after_us, options=options,
    )  # fmt: skip


JOIN: Final = Scene(
    "A join",
    "Joining",
    "b2 comes to a network of two brokers and asks b1 for a place. b0 - b1 takes 10 ms, b1 - b2 20 ms. The client c0 "
    "of b0 has subscribed to news/#. Connecting costs b2 two round trips before it can say anything.",
    Scenario(
        "join",
        brokers=TREE[:2],
        clients=(ClientSpec("c0", "b0", subscriptions=NEWS),),
        faults=(FaultSpec(ZERO_US, FaultKind.JOIN, ("b2",), parent="b1", latency_us=20 * MS),),
    ),
    {
        ("b2", "JoinRequest"): "1. The newcomer asks, in a session that gives it no right to its name.",
        (
            "b1",
            "Seek",
        ): "2. The name is looked for in the whole tree. Nobody bears it, and nobody has borne it in a later "
        "life; all have been asked.",
        (
            "b1",
            "Tell",
        ): "3. The foretold place of b1, with b2 among its neighbours, goes out in a wave, before anything "
        "depends on it. `ttl` is how many hops it goes on from the receiver. Told: everybody behind has it.",
        (
            "b1",
            "Welcome",
        ): "4. The parcel is the first message of the link, and b2 takes it in one step. What b1 asks of "
        "it (AskedInterest) counts as confirmed: there is nobody behind it.",
        ("b2", "Tell"): "5. Both have opened the link; b2 tells its own place, and is in the tree.",
        (
            "b0",
            "Enrol",
        ): "The configuration, of those who vote about the root, has room for one more. It is decided "
        "when majorities of the old one and the new one have agreed; b2 is asked as soon as there is a session.",
    },
    until_us=600 * MS,
)

REPAIR: Final = Scene(
    "A repair",
    "A repair, step by step",
    "b0 is the root, b1 its child, b2 and b3 are children of b1; the links take 10, 20 and 30 ms. c0 at b0 has "
    "subscribed to news/#. c2 publishes at b2, and b1 crashes while that is on its way: nobody but b2 has it. b0 has "
    "sessions with b2 and b3 from before, so that no connection has to be made.",
    Scenario(
        "repair",
        brokers=(TREE[0], TREE[1], BrokerSpec("b2", "b1", 20 * MS), BrokerSpec("b3", "b1", 30 * MS)),
        clients=(ClientSpec("c0", "b0", subscriptions=NEWS), ClientSpec("c2", "b2")),
        workloads=(publishes("c2", Mix(causal=1.0)),),
        faults=(FaultSpec(ZERO_US + 15 * MS, FaultKind.CRASH, ("b1",)),),
    ),
    {
        ("b2", "Forward"): "Accepted at b2, and forwarded. It is not safe yet: f is 1, so two brokers have to have it.",
        (
            "b0",
            "suspect",
        ): "The connections of b1 are reset; then its host refuses to connect, which is certain (R4). Only "
        "the parent of b1 may declare it dead (R2): b0.",
        (
            "b0",
            "AttachRequest",
        ): "t0. Whoever was next to the dead is asked to attach. Beside it, the dead are registered "
        "with a majority of the configuration (R3), which gets a new version without b1.",
        (
            "b2",
            "Attach",
        ): "t1. Members take b1 for dead and hand over what its link owed: what they know of the tree, what they have "
        "seen, what was asked on the link, and its inventory. side=1: it came from the sender's side.",
        ("b0", "Grant"): "t2. All parcels are there, and the registration: finish, in one step. The Grant is the first "
        "message of each new link, and brings the pool, which both ends number alike. side=1: of the first member.",
        ("b0", "Delivery"): "Three brokers have the pool now, so what is owed to c0 may be shown.",
        ("b2", "Turned"): "t3. With the Grant b2 knows that others have it: safe.",
    },
    until_us=170 * MS,
    left_out=("Tell", "Told", "Successors", "Levels", "Taken", "Decided", "Listener", "KnownClient"),
)

TOTAL: Final = Scene(
    "A total",
    "Totals",
    "b0 is the root, b1 and b2 are its children, 10 and 20 ms away. c1 at b1 publishes a total on one key; c2 at b2 "
    "has subscribed to news/#. By the formula c2 gets it after 10 ms to the root, and then as long as the longest way "
    "from the root over any broker to b2 takes: 10 ms to b1, and 30 ms from there.",
    Scenario(
        "total",
        brokers=TREE,
        clients=(ClientSpec("c1", "b1"), ClientSpec("c2", "b2", subscriptions=NEWS)),
        workloads=(publishes("c1", Mix(total=1.0), keys=1),),
    ),
    {
        ("b1", "Submit"): "1. Submit: stamped, and on its way to the root.",
        ("b0", "Lock"): "2. Lock: its place is epoch 0, number 1. The lock goes down every link, also to where it came "
        "from. 3. Whoever has it activates the total: nothing is published plainly on its keys any more.",
        ("b1", "Closed"): "4. Close: a leaf has no other neighbours to wait for. The stamp is its floor.",
        ("b0", "Closed"): "b0 tells each neighbour when all its others have closed; b1 has to wait for b2.",
        (
            "b2",
            "Delivery",
        ): "5. Deliver: b2 has heard from all around. The final stamp is the highest of all floors and one "
        "more, everywhere. It is safe as soon as it is delivered: every broker has it.",
        (
            "c2",
            "Taken",
        ): "`delivered` waits for all readers; totals are acknowledged by name. c1 waits for its receipts, "
        "so all of it is said at once.",
        ("b1", "Turned"): "At b1, the same. Its client is told that the total is safe, which includes accepted.",
    },
    until_us=200 * MS,
)

RETURN: Final = Scene(
    "A client's return",
    "Clients that lose their broker",
    "b0 is the root, b1 and b2 are its children, 10 and 20 ms away. c1 at b1 and c2 at b2 have subscribed to news/#. "
    "c2 publishes; b1 crashes before that has come to c1, and c1 publishes in the same moment, too late for anybody to "
    "hear of it. The root leads the repair, and there is no other member.",
    Scenario(
        "return",
        brokers=TREE,
        clients=(ClientSpec("c1", "b1", subscriptions=NEWS), ClientSpec("c2", "b2", subscriptions=NEWS)),
        workloads=(publishes("c2", Mix(causal=1.0)), publishes("c1", Mix(causal=1.0), after_us=24_950)),
        faults=(FaultSpec(ZERO_US + 25 * MS, FaultKind.CRASH, ("b1",)),),
    ),
    {
        ("b0", "Forward"): "b0 passes it on to b1, where it never arrives.",
        (
            "b0",
            "repair_begin",
        ): "The repair (see repair.txt). A ghost at b0 stands for the clients of b1 from its end on.",
        (
            "c1",
            "Attend",
        ): "The host of b1 refuses, so c1 turns to the successor of b1, b0: who served it last, how far it "
        "has come (nothing yet), and the subscription that it brings along. It is answered when the repair is over.",
        ("b0", "Serving"): "The client is served, and given its share: what the ghost was shown, less what it has.",
        (
            "c1",
            "Publish",
        ): "It says again everything that is not known to be safe; what had been accepted is dropped as a "
        "repeat. This had not.",
        ("c1", "Taken"): "The ghost waited for nobody else, and is gone. Receipts go on as ever.",
    },
    until_us=250 * MS,
    left_out=("Tell", "Told", "Enrol", "Enrolled", "Decided", "Successors"),
)

SCENES: Final[Mapping[str, Scene]] = {"join": JOIN, "repair": REPAIR, "total": TOTAL, "return": RETURN}
