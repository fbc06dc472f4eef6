"""Who a client is, and what it may do: secrets, certificates and rules."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resprout.client.client import Client
from resprout.client.connect import Connecting
from resprout.client.connect import connect as connect_soon
from resprout.client.errors import ClosedError, ConnectError, ForgetError, PublishError, SubscribeError
from resprout.core.errors import UsageError
from resprout.edge.messages import Attend, HeldSubscription, Serving, Subscribe, SubscribeRefused, Taken
from resprout.links.frames import Data, Goodbye, SessionWelcome
from resprout.net.door import OUT_OF_ORDER, Door
from resprout.net.identity.proofs import new_network_key
from resprout.net.identity.rules import FREE_FAILURES, read_rules, rights_of
from resprout.net.identity.scram import ITERATIONS_MIN, make_verifier, verifier_of_token
from resprout.net.sessions import Login
from resprout.stacks.stack import find_stack
from tests.net.bare_logins import log_in
from tests.net.pages import refusals
from tests.net.papers import Papers
from tests.net.stage import Running, bare, broker, hello, run, until
from tests.patience import PATIENCE_S

TOKEN = "0123456789abcdef"
NONCE = "a-nonce-of-a-client"
PASSWORD = make_verifier("correct horse", b"0123456789abcdef", ITERATIONS_MIN)

RULES = f"""
[[identity]]
name = "teller"
secrets = ["{verifier_of_token(TOKEN)}"]
clients = ["teller", "teller.*", "teller-*"]
publish = ["bank/#"]
subscribe = ["bank/+", "of/{{client}}/#"]
block = ["bank/#"]

[[identity]]
name = "boss"
secrets = ["{PASSWORD}"]
certificates = ["boss"]
publish = ["#"]
subscribe = ["#", "$reply/+"]
operate = true
"""

ANYBODY = """
[anybody]
subscribe = ["news/#"]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    return file


def told(running: Running) -> str:
    return "\n".join(str(note.columns.get("detail")) for note in running.notes)


def connect(address: str, **more: Any) -> Connecting:
    """However busy the machine is."""
    return connect_soon(address, timeout=PATIENCE_S, **more)


def as_teller(running: Running, name: str | None = "teller") -> Any:
    return connect(str(running), name=name, login=f"teller:{TOKEN}")


def test_a_client_does_what_its_identity_may_and_nothing_else(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running, as_teller(running) as teller:
            inbox = await teller.subscribe("bank/+")
            own = await teller.subscribe("of/teller/#")
            for wanted in ("#", "bank/#", "of/#", "of/boss/#", "news/today"):
                with pytest.raises(SubscribeError, match="teller may not subscribe to"):
                    await teller.subscribe(wanted)
            receipts = [
                await teller.publish(topic, b"x") for topic in ("bank/pt", "news/today", "bank/es", "of/teller/a")
            ]
            for receipt, allowed in zip(receipts, (True, False, True, False), strict=True):
                if allowed:
                    await receipt.accepted()
                else:
                    with pytest.raises(PublishError, match="teller may not publish on") as refused:
                        await receipt.accepted()
                    assert refused.value.definite
            assert [(await inbox.next()).topic for _ in range(2)] == ["bank/pt", "bank/es"]
            assert not len(own)
            with pytest.raises(ForgetError, match="teller may not say so: it is no operator"):
                await teller.forget("b7")
            assert "teller was refused: it may not publish there" in told(running)
            counted = await refusals(running)
            assert (counted["it may not publish there"], counted["it may not subscribe to that"]) == (2, 5)

    run(scene())


@pytest.mark.parametrize("stack", ["flood", "ginger", "gossip"])
def test_rules_hold_whatever_the_stack(rules: Path, stack: str) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules), stack=find_stack(stack)) as running, as_teller(running) as teller:
            guarantee = find_stack(stack).guarantees[0]
            inbox = await teller.subscribe("bank/+")
            with pytest.raises(SubscribeError, match="teller may not subscribe to #"):
                await teller.subscribe("#")
            for topic in ("news/a", "bank/b", "news/c", "bank/d"):
                receipt = await teller.publish(topic, b"", guarantee=guarantee)
            await receipt.accepted()
            assert [(await inbox.next()).topic for _ in range(2)] == ["bank/b", "bank/d"]

    run(scene())


def test_receipts_of_what_is_allowed_are_not_held_up_by_what_is_refused(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running, as_teller(running) as teller:
            receipts = [await teller.publish("bank/a" if n % 2 else "no/a", b"", guarantee="fifo") for n in range(200)]
            for number, receipt in enumerate(receipts):
                if number % 2:
                    await receipt.delivered()
                else:
                    with pytest.raises(PublishError):
                        await receipt.delivered()
            assert receipts[0].state == "refused" and receipts[1].state == "delivered"

    run(scene())


def test_a_client_may_have_the_names_of_its_identity_and_no_others(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running:
            for name in ("teller", "teller-7"):
                async with as_teller(running, name) as client:
                    assert client.name == name
            async with as_teller(running, None) as client:
                assert client.name.startswith("teller.")
            with pytest.raises(ConnectError, match="its identity may not use this name; clients of teller are named"):
                await as_teller(running, "boss")
            assert "client boss, which is teller, from 127.0.0.1 was turned away" in told(running)

    run(scene())


def test_wrong_secrets_are_refused_and_counted_and_lock_nobody_out(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running:
            for login in ("teller:wrong", "nobody:wrong", "boss:wrong"):
                with pytest.raises(ConnectError, match="this identity and this secret do not belong together"):
                    await connect(str(running), name="teller", login=login)
            for _ in range(FREE_FAILURES):
                with pytest.raises(ConnectError, match="do not belong together"):
                    await connect(str(running), name="teller", login="teller:wrong")
            async with as_teller(running) as teller:
                assert teller.name == "teller", "the right secret is accepted, from the same address"
            counted = await refusals(running)
            assert counted["this identity and this secret do not belong together"] == FREE_FAILURES + 3
            assert "wrong" not in told(running), "no secret stands in the log"

    run(scene())


def test_a_password_is_as_good_as_a_token(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running:
            clients = [connect(str(running), name=f"boss.{n}", login="boss:correct horse") for n in range(8)]
            connected: list[Client] = await asyncio.gather(*clients)
            for client in connected:
                await (await client.publish("anything/at/all", b"")).accepted()
                await client.close()

    run(scene())


def test_whoever_shows_nothing_has_the_rights_of_anybody_and_nobody_elses_name(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running:
            with pytest.raises(ConnectError, match="it has no login or certificate that the rules know"):
                await connect(str(running))
        rules.write_text(RULES + ANYBODY)
        async with broker(door=Door(rules=rules)) as running:
            async with connect(str(running), name="passer-by") as client:
                await client.subscribe("news/#")
                with pytest.raises(SubscribeError):
                    await client.subscribe("bank/+")
            for name in ("teller", "teller-9", "boss"):
                with pytest.raises(ConnectError, match="the rules reserve its name for an identity"):
                    await connect(str(running), name=name)

    run(scene())


def test_a_certificate_shows_who_a_client_is(rules: Path, tmp_path: Path) -> None:
    papers = Papers(tmp_path / "certificates", clients="boss teller")

    async def scene() -> None:
        door = Door(papers.door("b0").keyring, rules=rules)
        async with broker(door=door) as running:
            async with connect(str(running), name="boss", tls=papers.folder) as boss:
                await boss.subscribe("#")
            with pytest.raises(ConnectError, match="it has no login or certificate that the rules know"):
                await connect(str(running), name="teller", tls=papers.folder)
            async with connect(str(running), name="teller", tls=papers.client(), login=f"teller:{TOKEN}"):
                pass

    run(scene())


def test_a_client_that_loses_its_broker_is_identified_by_the_next_one(rules: Path) -> None:
    async def scene() -> None:
        options = {"heartbeat_us": 50_000, "lease_us": 300_000}
        key = new_network_key()
        doors = [Door(rules=rules, network_key=key) for _ in range(2)]
        async with broker("b0", door=doors[0], options=options) as b0:
            async with broker("b1", parent=("b0", b0.address), door=doors[1], options=options) as b1:
                teller = await as_teller(b1)
                inbox = await teller.subscribe("bank/+")
                await b1.broker.close()
            await (await teller.publish("bank/pt", b"after")).accepted()
            assert (await inbox.next()).payload == b"after"
            assert "teller" in b0.sessions
            with pytest.raises(PublishError, match="teller may not publish on news"):
                await (await teller.publish("news", b"")).accepted()
            await teller.close()

    run(scene())


def test_a_subscription_that_is_brought_along_and_not_allowed_is_taken_away(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running, bare(running.address) as peer:
            await log_in(peer, "teller", TOKEN)
            await peer.greet("teller")
            held = tuple(HeldSubscription(n, wanted, None, ()) for n, wanted in enumerate(("#", "bank/+"), start=1))
            peer.say_messages(1, Attend(0, subscriptions=held))
            heard: list[Any] = []
            while not any(isinstance(message, Serving) for message in heard):
                frame = await peer.hear()
                heard += frame.messages if isinstance(frame, Data) else ()
            assert not any(isinstance(message, SubscribeRefused) for message in heard), "Serving comes first"
            peer.say_messages(2, Taken(0))
            while not any(isinstance(message, SubscribeRefused) for message in heard):
                frame = await peer.hear()
                heard += frame.messages if isinstance(frame, Data) else ()
            assert heard[-1] == SubscribeRefused(1, "teller may not subscribe to #")

    run(scene())


def test_new_rules_hold_at_once_for_those_who_are_there(rules: Path) -> None:
    async def scene() -> None:
        door = Door(rules=rules)
        async with broker(door=door) as running, as_teller(running) as teller:
            inbox = await teller.subscribe("bank/+")
            rules.write_text("nonsense")
            with pytest.raises(UsageError, match=r"rules\.toml:1"):
                door.reload()
            await (await teller.publish("bank/pt", b"")).accepted()
            await inbox.next()
            rules.write_text(RULES.replace('publish = ["bank/#"]', 'publish = ["bank/#", "news/#"]'))
            door.reload()
            await (await teller.publish("news/today", b"")).accepted()
            rules.write_text(RULES.replace('subscribe = ["bank/+",', "subscribe = ["))
            door.reload()
            with pytest.raises(ClosedError, match="teller may not subscribe to bank"):
                await inbox.next()
            await (await teller.publish("bank/pt", b"still here")).delivered()
            assert "it may do less than before" in told(running)
            rules.write_text(RULES.replace('"teller"', '"other"', 1))
            door.reload()
            with pytest.raises((ClosedError, PublishError), match="its identity is no longer in the rules"):
                await (await teller.publish("bank/pt", b"")).delivered()

    run(scene())


def test_a_session_of_a_client_that_may_do_less_is_not_resumed(rules: Path) -> None:
    """Only its connection was closed: a client that resumed its session went on hearing what the new rules forbid."""

    async def scene() -> None:
        door = Door(rules=rules)
        async with broker(door=door) as running:
            async with bare(running.address) as peer:
                await log_in(peer, "teller", TOKEN)
                welcome = await peer.greet("teller")
                peer.say_messages(1, Attend(0))
                peer.say_messages(2, Subscribe(1, "bank/+", None))
                await until(lambda: running.machine.parts.sessions.all["teller"].confirmed)
                async with bare(running.address) as again:
                    await log_in(again, "teller", TOKEN)
                    again.say(resume := msgspec.structs.replace(hello("teller"), peer_incarnation=welcome.incarnation))
                    assert isinstance(await again.hear(), SessionWelcome), "with the same rules it goes on"
                    rules.write_text(RULES.replace('subscribe = ["bank/+",', "subscribe = ["))
                    door.reload()
                    await again.ended()
            async with bare(running.address) as peer:
                await log_in(peer, "teller", TOKEN)
                peer.say(resume)
                goodbye = await peer.hear()
                assert isinstance(goodbye, Goodbye) and "is over" in goodbye.reason, goodbye
            assert "teller" not in running.machine.parts.sessions.all

    run(scene())


def test_a_login_is_small_comes_once_and_is_refused_by_a_broker_without_rules(rules: Path) -> None:
    async def scene() -> None:
        async with broker() as running:
            with pytest.raises(ConnectError, match="has no rules, so it cannot check a login: connect without one"):
                await connect(str(running), login="anybody:secret")
        async with broker(door=Door(rules=rules)) as running:
            async with bare(running.address) as peer:
                await log_in(peer, "teller", TOKEN)
                peer.say(Login("teller", NONCE), hello("teller"))
                goodbye = await peer.hear()
                assert goodbye == Goodbye(OUT_OF_ORDER)
            async with bare(running.address) as peer:
                await log_in(peer, "teller", TOKEN)
                peer.writer.write((5000).to_bytes(4, "big"))
                goodbye = await peer.hear()
                assert isinstance(goodbye, Goodbye) and "a frame of 5000 bytes is announced" in goodbye.reason
            async with bare(running.address) as peer:
                await log_in(peer, "teller", TOKEN)
                peer.say(hello("teller"))
                assert isinstance(await peer.hear(), SessionWelcome)

    run(scene())


def test_where_the_door_is_closed_nobody_is_a_broker_without_tls(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules, closed=True)) as running:
            for role in ("broker", "newcomer"):
                async with bare(running.address) as peer:
                    peer.say(hello("b1", role=role))
                    goodbye = await peer.hear()
                    assert isinstance(goodbye, Goodbye)
                    assert "it cannot prove that it is a broker: there is no --network-key here" in goodbye.reason
            async with as_teller(running):
                pass

    run(scene())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[identiti]]", "rules:1: unknown key 'identiti'; did you mean 'identity'?"),
        ("[[identity]]\nname = 'a b'", "rules:2: identity a b: identity 'a b' is refused"),
        ("[[identity]]\nname = 'a'", "rules:1: identity a: no client can prove this identity"),
        (
            "[[identity]]\nname = 'a'\nsecrets = ['abc']",
            "rules:3: identity a: this is no SCRAM-SHA-256 verifier",
        ),
        ("[[identity]]\nname = 'a'\ncertificates = ['a']\nclients = ['a*b']", "rules:4: identity a: 'a*b' is no name"),
        (
            "[[identity]]\nname = 'a'\ncertificates = ['a']\nconsume = ['ok', 'jobs/#']",
            "rules:4: identity a: 'jobs/#' is no name of a durable subscription",
        ),
        ("[[identity]]\nname = 'a'\ncertificates = ['a']\nmanage = true", "rules:4: identity a: manage must be a list"),
        ("[anybody]\nconsum = ['a']", "rules:2: anybody: unknown key 'consum'; did you mean 'consume'?"),
        ("[[identity]]\nname = 'a'\ncertificates = ['a']\npublish = ['a/#/b']", "rules:4: identity a: topic filter"),
        ("[[identity]]\nname = 'a'\ncertificates = ['a']\nallow = []", "rules:4: identity a: unknown key 'allow'"),
        ("[[identity]]\nname = 'a'\ncertificates = ['a']\n" * 2, "there are two identities called a"),
        (
            "[[identity]]\nname = 'a'\ncertificates = ['x']\n[[identity]]\nname = 'b'\ncertificates = ['x']",
            "the certificate of x belongs to two identities",
        ),
        ("[anybody]\nname = 'a'", "anybody: unknown key 'name'"),
    ],
)
def test_what_is_wrong_with_rules_is_said_with_the_line(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_rules(file)
    assert complaint in str(refused.value) and "\n" not in str(refused.value)


def test_names_of_durable_subscriptions_that_rules_list_are_kept_for_those_who_list_them(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    consume = {"a": '["billing", "audit-*", "of-{client}"]', "b": '["*"]', "c": "[]"}
    tables = [
        f"[[identity]]\nname = '{n}'\ncertificates = ['{n}']\nconsume = {names}\n" for n, names in consume.items()
    ]
    file.write_text("".join(tables) + "[anybody]\nconsume = ['public']\n")
    known = read_rules(file)
    names = ("billing", "billing2", "audit-", "audit-7", "public", "of-teller", "other")
    assert [name for name in names if known.keeps(name)] == ["billing", "audit-", "audit-7", "public"]
    assert [name for name in names if known.is_for_anybody(name)] == ["public"]
    assert rights_of(known.identities["a"].rights, "teller").consume == ("billing", "audit-*", "of-teller")


def test_replies_are_for_the_client_that_asked_and_for_nobody_else(rules: Path) -> None:
    async def story() -> None:
        more = rules.read_text().replace('publish = ["bank/#"]', 'publish = ["bank/#", "$reply/+"]')
        rules.write_text(more)
        async with (
            broker(door=Door(rules=rules)) as running,
            connect(str(running.address), name="teller", login=f"teller:{TOKEN}") as teller,
            connect(str(running.address), name="boss", login="boss:correct horse") as boss,
        ):
            service = await teller.serve("bank/pt").ready()
            asked = asyncio.create_task(boss.request("bank/pt", b"?"))
            await (await service.next()).reply(b"!")
            assert (await asked).payload == b"!", "it may subscribe to its own replies"
            for somebody, filter in ((boss, "$reply/teller"), (boss, "$reply/+"), (teller, "$reply/boss")):
                with pytest.raises(SubscribeError, match="may not subscribe"):
                    await somebody.subscribe(filter)
            with pytest.raises(PublishError, match="may not publish"):  # and does not hear whether anybody listens
                await teller.request("secret/plans", b"?", timeout=PATIENCE_S)

    run(story())


def test_a_durable_subscription_is_for_those_who_may_subscribe_and_its_end_for_those_who_manage_it(rules: Path) -> None:
    async def scene() -> None:
        rules.write_text(rules.read_text() + 'manage = ["bill*"]\nblock = ["bank/#"]\n')
        async with broker(door=Door(rules=rules)) as running, as_teller(running) as teller:
            inbox = await teller.subscribe("bank/+", durable="billing")
            await teller.publish("bank/pt", b"x")
            assert (await inbox.next()).payload == b"x"
            with pytest.raises(SubscribeError, match="may not subscribe to news/#"):
                await teller.subscribe("news/#", durable="news")
            async with connect(str(running), name="boss", login="boss:correct horse") as boss:
                await boss.subscribe("bank/#", durable="archive")
                with pytest.raises(SubscribeError, match="may not end 'archive'"):
                    await teller.end_subscription("archive")
                await boss.end_subscription("billing")
            with pytest.raises(ClosedError, match="was ended"):
                await inbox.next()
            with pytest.raises(SubscribeError, match="there is no durable subscription 'billing'"):
                await teller.end_subscription("billing")

    run(scene())
