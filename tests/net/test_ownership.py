"""Durable subscriptions, topics and names belong to identities: what a client with rights of its own may not take."""

from pathlib import Path
from typing import Any

import pytest

from resprout.client.connect import Connecting
from resprout.client.connect import connect as connect_soon
from resprout.client.errors import ClosedError, ConnectError, ForgetError, PublishError, SubscribeError
from resprout.client.redelivery import Redelivery
from resprout.edge.durable_messages import Consume, Consuming, EndSubscription, Standing, Terms
from resprout.links.frames import PROTOCOL_VERSION, Data, Goodbye, Hello
from resprout.net.door import Door
from resprout.net.identity.scram import verifier_of_token
from tests.net.bare_logins import log_in
from tests.net.pages import refusals
from tests.net.papers import Papers
from tests.net.stage import Bare, Running, bare, broker, run, until
from tests.patience import PATIENCE_S

TOKEN = "0123456789abcdef"


def identity(name: str, text: str = "") -> str:
    return f"""
[[identity]]
name = "{name}"
secrets = ["{verifier_of_token(name + TOKEN)}"]
block = ["#"]
{text}
"""


def written(folder: Path, *identities: str) -> Path:
    file = folder / "rules.toml"
    file.write_text("".join(identities))
    return file


def as_identity(running: Running, name: str, client: str | None = None, **more: Any) -> Connecting:
    return connect_soon(str(running), timeout=PATIENCE_S, name=client or name, login=f"{name}:{name}{TOKEN}", **more)


def test_a_broker_knows_whom_each_client_has_proven_to_be(tmp_path: Path) -> None:
    rules = written(tmp_path, identity("teller", 'clients = ["till-*"]'), "[anybody]\n")

    async def scene() -> None:
        async with (
            broker(door=Door(rules=rules)) as running,
            as_identity(running, "teller", "till-1"),
            connect_soon(str(running), name="guest", timeout=PATIENCE_S),
        ):
            sessions = running.machine.parts.sessions.all
            assert {name: session.identity for name, session in sessions.items()} == {"till-1": "teller", "guest": ""}

    run(scene())


def test_dead_letters_are_kept_in_no_subscription_of_another_identity(tmp_path: Path) -> None:
    """The first to have the name of the group that keeps them had the owner's dead letters lost."""
    rules = written(tmp_path, identity("teller", SHARED), identity("mallory", SHARED))

    async def scene() -> None:
        async with (
            broker(door=Door(rules=rules)) as running,
            as_identity(running, "mallory") as mallory,
            as_identity(running, "teller") as teller,
        ):
            once, twice = [Redelivery(max_deliver=most, dead_letter="bank/dead") for most in (1, 2)]
            async with await mallory.subscribe("bank/pt", group="jobs.dead"):
                with pytest.raises(SubscribeError, match="is there already, and is something else"):
                    await teller.subscribe("bank/jobs", group="jobs", redelivery=once)
            work = await teller.subscribe("bank/jobs", group="work", redelivery=once)
            await work.unsubscribe()
            async with await teller.subscribe("bank/jobs", group="work", redelivery=twice):
                pass  # with the store of the earlier one

    run(scene())


def test_a_certificate_without_rules_proves_the_name_of_a_client(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "certificates")

    async def scene() -> None:
        async with (
            broker(door=papers.door("b0")) as running,
            connect_soon(str(running), name="teller", timeout=PATIENCE_S, tls=papers.folder),
        ):
            assert running.machine.parts.sessions.all["teller"].identity == "teller"

    run(scene())


SHARED = 'publish = ["bank/#"]\nsubscribe = ["bank/#", "$reply/#"]\n'
"""Two identities that may hear the same, and are not one."""


async def told(peer: Bare, kind: type) -> Any:
    """The next message of this kind that a bare connection hears."""
    while True:
        frame = await peer.hear()
        for message in frame.messages if isinstance(frame, Data) else ():
            if isinstance(message, kind):
                return message


def test_a_durable_subscription_is_not_taken_over_emptied_or_ended_by_another_identity(tmp_path: Path) -> None:
    """Attack 3, over TCP and over a restart: the owner got 1 of 11, and the publisher was told `delivered`."""
    rules = written(tmp_path, identity("teller", SHARED), identity("mallory", SHARED))

    async def takes_nothing(running: Running) -> None:
        async with as_identity(running, "mallory") as mallory:
            for wanted in ("bank/#", "bank/pt"):
                with pytest.raises(SubscribeError, match="may not consume 'billing': it belongs to another") as refused:
                    await mallory.subscribe(wanted, durable="billing")
                assert "bank/" not in str(refused.value), "whoever is refused learns no filter"
            with pytest.raises(SubscribeError, match="may not end 'billing'"):
                await mallory.end_subscription("billing")
        async with bare(running.address) as peer:  # without the client that asks before it says anything
            await log_in(peer, "mallory", "mallory" + TOKEN)
            await peer.greet("mallory.9")
            peer.say_messages(1, Consume("billing", Terms("bank/#", None, False), 10), EndSubscription())
            assert (await told(peer, Consuming)).standing is Standing.REFUSED

    async def scene() -> None:
        data = tmp_path / "data"
        data.mkdir()
        async with (
            broker(door=Door(rules=rules), data=data, options={"durable": "journal"}) as running,
            as_identity(running, "teller") as teller,
        ):
            inbox = await teller.subscribe("bank/#", durable="billing")
            await takes_nothing(running)
            for number in range(11):
                receipt = await teller.publish("bank/pt", b"%d" % number)
            assert [int((await inbox.next()).payload) for _ in range(11)] == list(range(11))
            await inbox.close()
            receipt = await teller.publish("bank/pt", b"kept")
            await receipt.safe()
            counted = await refusals(running)
            assert counted["the durable subscription belongs to another identity"] == 4
        async with broker(door=Door(rules=rules), data=data, incarnation=2, options={"durable": "journal"}) as running:
            await takes_nothing(running)
            async with as_identity(running, "teller") as teller:
                inbox = await teller.subscribe("bank/#", durable="billing")
                while (await inbox.next()).payload != b"kept":  # what was not known to be done comes again
                    pass
                await inbox.unsubscribe()

    run(scene())


def test_a_key_of_another_topic_reaches_nobody_whom_its_publisher_may_not_reach(tmp_path: Path) -> None:
    """Attack 4: `vault/gold#k` brought a publication on an allowed topic to the subscribers of a forbidden one."""
    rules = written(
        tmp_path,
        identity("mallory", 'publish = ["noise/#", "open/+"]'),
        identity("guard", 'subscribe = ["vault/#", "open/#", "$reply/+"]'),
    )

    async def scene() -> None:
        async with (
            broker(door=Door(rules=rules)) as running,
            as_identity(running, "mallory") as mallory,
            as_identity(running, "guard") as guard,
        ):
            inbox = await guard.subscribe("vault/#")
            opened = await guard.subscribe("open/#")
            for key in ("vault/gold#k", "$reply/guard#k"):
                for guarantee in ("causal", "total", "eventual"):
                    receipt = await mallory.publish("noise/x", b"forged", keys=["own", key], guarantee=guarantee)
                    with pytest.raises(PublishError, match=r"mallory may not publish on (vault/gold|\$reply/guard)"):
                        await receipt.accepted()
            await mallory.publish("noise/x", b"fine", keys=["own", "open/a#k"])
            assert (await opened.next()).payload == b"fine"
            assert not len(inbox) and not len(opened)

    run(scene())


def test_replies_of_others_are_not_consumed_by_a_durable_subscription(tmp_path: Path) -> None:
    """Attack 17: refused as a plain subscription, `$reply/#` was granted as a durable one."""
    rules = written(tmp_path, identity("mallory", SHARED))

    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running, as_identity(running, "mallory") as mallory:
            for wanted in ("$reply/#", "$reply/+", "$reply/teller"):
                for more in (None, "replies"):
                    with pytest.raises(SubscribeError, match=r"may not subscribe to \$reply/"):
                        await (mallory.subscribe(wanted) if more is None else mallory.subscribe(wanted, durable=more))

    run(scene())


def test_with_certificates_and_no_rules_only_an_operator_forgets_brokers_or_ends_what_others_own(
    tmp_path: Path,
) -> None:
    """Attack 16: any client could `forget --force` a broker."""
    papers = Papers(tmp_path / "certificates")
    papers.issue("operator", "admin")

    async def scene() -> None:
        async with (
            broker(door=papers.door("b0")) as running,
            connect_soon(str(running), name="teller", timeout=PATIENCE_S, tls=papers.folder) as teller,
            connect_soon(str(running), name="guest", timeout=PATIENCE_S, tls=papers.client()) as guest,
            connect_soon(str(running), name="admin", timeout=PATIENCE_S, tls=papers.folder) as admin,
        ):
            inbox = await teller.subscribe("bank/#", durable="billing")
            for somebody in (teller, guest):
                with pytest.raises(ForgetError, match="may not say so: it is no operator"):
                    await somebody.forget("b7", force=True)
            with pytest.raises(SubscribeError, match=r"guest\.billing may not end 'billing'"):
                await guest.end_subscription("billing")
            await guest.publish("bank/pt", b"x")
            assert (await inbox.next()).payload == b"x", "nobody needs rules to publish and to consume"
            with pytest.raises(ForgetError) as unknown:
                await admin.forget("b7", force=True)
            assert "operator" not in str(unknown.value)
            await admin.end_subscription("billing")
            with pytest.raises(ClosedError, match="was ended"):
                await inbox.next()

    run(scene())


def connected(running: Running, name: str) -> Connecting:
    return connect_soon(str(running), name=name, timeout=PATIENCE_S)


def test_a_client_with_the_name_of_a_journal_does_not_stop_it(tmp_path: Path) -> None:
    """Attack 10: a client called `b0.events`, at any broker, ended the client inside b0 that keeps events."""
    data = tmp_path / "data"
    data.mkdir()

    async def scene() -> None:
        async with (
            broker(data=data, keep=("a/#",)) as b0,
            broker("b1", parent=("b0", b0.address)) as b1,
            connected(b0, "reader") as reader,
        ):
            for running in (b1, b0):
                async with connected(running, "b0.events") as impostor, bare(running.address) as peer:
                    await impostor.subscribe("a/#")
                    peer.say(Hello(PROTOCOL_VERSION, "b0:events", "client", 9, running.broker.name, None, 1, 0, 1))
                    goodbye = await peer.hear()
                    assert isinstance(goodbye, Goodbye) and "'b0:events' is refused" in goodbye.reason
                    await reader.publish("a/x", running.broker.name.encode())
            kept: list[bytes] = []
            while len(kept) < 2:  # it is written when it is shown, not when it is accepted
                page = await reader.read("a/#", start="earliest")
                kept = [stored.message.payload for stored in page.messages]
            assert kept == [b"b1", b"b0"]

    run(scene())


def test_a_client_does_not_have_the_name_of_a_broker_that_is_or_was_there() -> None:
    """Attack 10: while b1 was away, a client called b1 kept it from coming back."""

    async def scene() -> None:
        async with broker() as b0:
            async with broker("b1", parent=("b0", b0.address)):
                await until(lambda: "b1" in b0.machine.parts.links)
                with pytest.raises(ConnectError, match="b1 is the name of a broker"):
                    await connected(b0, "b1")
            await until(lambda: "b1" not in b0.machine.parts.links)
            with pytest.raises(ConnectError, match="b1 is, or was, the name of a broker"):
                await connected(b0, "b1")
            assert (await refusals(b0))["its name is that of a broker"] == 2
            async with broker("b1", parent=("b0", b0.address), incarnation=2):
                await until(lambda: "b1" in b0.machine.parts.links)

    run(scene())


def test_a_broker_that_comes_takes_its_name_from_a_client() -> None:
    """Attack 10: of a broker that nobody here has heard of yet."""

    async def scene() -> None:
        async with broker() as b0, connected(b0, "b1") as client, connected(b0, "other") as other:
            inbox = await client.subscribe("a/#")
            async with broker("b1", parent=("b0", b0.address)) as b1, connected(b1, "reader") as reader:
                with pytest.raises(ClosedError, match="b1 is the name of a broker, which has come"):
                    await inbox.next()
                await until(lambda: "b1" in b0.machine.parts.links)
                letters = await reader.subscribe("a/#")
                await other.publish("a/x", b"on")
                assert (await letters.next()).payload == b"on", "the link between the brokers works"
                said = [str(note.columns.get("detail")) for note in b0.notes]
                assert "client b1 is cut off: a broker of its name has come" in said

    run(scene())
