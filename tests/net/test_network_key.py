"""Brokers prove themselves by a shared key where there is no certificate."""

from pathlib import Path

import pytest

from resprout.client.connect import connect
from resprout.client.local import local
from resprout.core.errors import UsageError
from resprout.links.frames import Goodbye, SessionWelcome
from resprout.net.address import Address
from resprout.net.discover import UnreachableError, who_is
from resprout.net.door import OUT_OF_ORDER, Door, what_is_open
from resprout.net.identity.proofs import (
    NO_KEY,
    NetworkKey,
    OpenerMembership,
    new_network_key,
    read_network_key,
    write_network_key,
)
from resprout.net.sessions import MemberGreeting, MemberProof
from resprout.net.survey import Asker
from tests.net.papers import Papers
from tests.net.stage import bare, broker, hello, run, until
from tests.patience import PATIENCE_S

KEY = new_network_key()
HIGHER = 9


def door(key: NetworkKey = KEY) -> Door:
    return Door(network_key=key)


def test_brokers_with_one_key_make_a_network_and_clients_need_none() -> None:
    async def scene() -> None:
        async with broker("b0", door=door()) as b0, broker("b1", parent=("b0", b0.address), door=door()) as b1:
            async with connect(str(b0), timeout=PATIENCE_S) as reader, connect(str(b1), timeout=PATIENCE_S) as writer:
                inbox = await reader.subscribe("a/#")
                await (await writer.publish("a/b", b"passes")).accepted()
                assert (await inbox.next()).payload == b"passes"
            asker = Asker("b1", "broker", None, timeout_s=PATIENCE_S, network_key=KEY)
            assert (await asker.account(b0.address)).name == "b0"

    run(scene())


@pytest.mark.parametrize("role", ["broker", "newcomer"])
def test_a_hello_without_the_key_fences_no_living_broker(role: str) -> None:
    async def scene() -> None:
        async with broker("b0", door=door()) as b0, broker("b1", parent=("b0", b0.address), door=door()) as b1:
            await until(lambda: "b1" in b0.sessions)
            async with bare(b0.address) as peer:
                peer.say(hello("b1", incarnation=HIGHER, role=role))
                goodbye = await peer.hear()
                assert isinstance(goodbye, Goodbye) and goodbye.reason == f"b0 refuses {role} b1: {NO_KEY}"
            assert "b1" in b0.sessions and b1.broker.incarnation == 1
            assert any(NO_KEY in str(note.columns.get("detail")) for note in b0.notes)

    run(scene())


def test_a_proof_is_of_no_use_for_another_life_another_broker_or_another_connection() -> None:
    async def scene() -> None:
        async with broker("b0", door=door()) as b0:
            opener = OpenerMembership(KEY, "b1", 1, "b0")
            async with bare(b0.address) as peer:
                peer.say(opener.begin())
                proof = opener.hear(await peer.hear())
                peer.say(proof, hello("b1", incarnation=HIGHER, role="broker"))
                goodbye = await peer.hear()
                assert isinstance(goodbye, Goodbye) and "another broker, or another life" in goodbye.reason
            async with bare(b0.address) as peer:
                peer.say(opener.begin())
                await peer.hear()
                peer.say(proof)  # it was right for the nonce of the other connection
                goodbye = await peer.hear()
                assert isinstance(goodbye, Goodbye) and NO_KEY in goodbye.reason
            for name, incarnation in (("b2", 1), ("b1", 1)):
                async with bare(b0.address) as peer:
                    other = OpenerMembership(KEY, "b1", 1, "b0")
                    peer.say(other.begin())
                    peer.say(other.hear(await peer.hear()), hello(name, incarnation, role="broker"))
                    assert isinstance(await peer.hear(), SessionWelcome if name == "b1" else Goodbye)

    run(scene())


def test_proofs_of_members_come_once_and_in_order() -> None:
    async def scene() -> None:
        async with broker("b0", door=door()) as b0:
            greeting = MemberGreeting("b1", 1, b"nonce")
            for frames, answers in (((MemberProof("b1", 1, b"", b""),), 0), ((greeting, greeting), 1)):
                async with bare(b0.address) as peer:
                    peer.say(*frames)
                    heard = [await peer.hear() for _ in range(answers + 1)]
                    assert heard[-1] == Goodbye(OUT_OF_ORDER)
            async with bare(b0.address) as peer:
                opener = OpenerMembership(new_network_key(), "b1", 1, "b0")
                peer.say(opener.begin())
                answer = await peer.hear()
                assert isinstance(answer, MemberProof)
                peer.say(MemberProof("b1", 1, b"", bytes(32)))
                assert isinstance(await peer.hear(), Goodbye)

    run(scene())


def test_brokers_with_different_keys_or_one_without_say_why_they_do_not_meet() -> None:
    async def scene() -> None:
        async with broker("b0", door=door()) as keyed, broker("b0") as keyless:
            with pytest.raises(UnreachableError, match="it has another key of the network than this side"):
                await who_is(keyed.address, PATIENCE_S, "b1", key=new_network_key())
            with pytest.raises(UnreachableError, match="b0 has no key of the network: start it with --network-key"):
                await who_is(keyless.address, PATIENCE_S, "b1", key=KEY)
            here = await who_is(keyed.address, PATIENCE_S, "b1")
            assert here.has_key and not here.has_rules, "whoever has none learns that it needs one"
            async with broker("b1", parent=("b0", keyed.address), door=door(new_network_key())) as b1:
                await until(lambda: any("another key of the network" in str(n.columns.get("detail")) for n in b1.notes))
                assert "b1" not in keyed.sessions

    run(scene())


def test_brokers_of_a_program_take_in_nobody_else() -> None:
    async def scene() -> None:
        async with local(brokers=2) as network:
            async with bare(Address("127.0.0.1", int(network.address.rpartition(":")[2]))) as peer:
                peer.say(hello("b1", incarnation=HIGHER, role="broker"))
                goodbye = await peer.hear()
                assert isinstance(goodbye, Goodbye) and NO_KEY in goodbye.reason
            async with network.connect(broker=1) as client:
                await (await client.publish("a", b"")).accepted()

    run(scene())


def test_a_key_is_in_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    file = write_network_key(tmp_path / "key")
    assert read_network_key(file) == read_network_key(file) and file.stat().st_mode & 0o777 == 0o600
    assert "key" not in repr(read_network_key(file)).lower().replace("networkkey", "")
    with pytest.raises(FileExistsError):
        write_network_key(file)
    file.chmod(0o644)
    with pytest.raises(UsageError, match="everybody on this machine may read"):
        read_network_key(file)
    file.chmod(0o600)
    for text in ("", "resprout-network-key:", "resprout-network-key:YWJj", "secret"):
        file.write_text(text)
        with pytest.raises(UsageError, match="there is no key in it; `resprout secret --network FILE` makes one"):
            read_network_key(file)
    with pytest.raises(UsageError, match="No such file"):
        read_network_key(tmp_path / "nothing")


def test_what_is_open_is_named(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[anybody]\nsubscribe = ["#"]\n')
    papers = Papers(tmp_path / "certificates", brokers="b0")
    here, everywhere = Address("127.0.0.1", 1), Address("0.0.0.0", 1)
    clients, brokers, path = "can publish and subscribe", "can join as any broker", "if it is on the path"
    for one, listen, insecure, expected in (
        (Door(), here, False, (clients, brokers)),
        (Door(), here, True, ()),
        (door(), here, False, (clients,)),
        (Door(rules=rules), here, False, ()),
        (papers.door("b0"), here, False, ()),
        (Door(), everywhere, True, (clients, brokers, path)),
        (door(), everywhere, True, (clients, path)),
        (Door(rules=rules, network_key=KEY), everywhere, False, (path,)),
        (papers.door("b0"), everywhere, False, ()),
        (papers.door("b0"), everywhere, True, (clients,)),
    ):
        line = what_is_open(one, listen, insecure)
        assert {part for part in (clients, brokers, path) if part in line} == set(expected), line
    with pytest.raises(UsageError, match="leave out --network-key"):
        Door(papers.door("b0").keyring, network_key=KEY)
