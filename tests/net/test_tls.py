"""With TLS everybody is who its certificate says; whoever has none, or not the right one, is told why."""

import asyncio
import contextlib
import random
import re
import ssl
from pathlib import Path
from typing import Any

import pytest

from resprout.client.connect import connect
from resprout.client.errors import ConnectError
from resprout.core.contract import Note
from resprout.core.errors import UsageError
from resprout.links.frames import Goodbye, SessionWelcome
from resprout.net.discover import UnreachableError, who_is
from resprout.net.door import Door
from resprout.net.sessions import Who
from resprout.net.tls import Keyring, Tls
from tests.net.pages import refusals
from tests.net.papers import Papers, foreign
from tests.net.stage import Bare, Proxy, bare, broker, hello, run, somebody, until


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path / "certificates")


def details(notes: list[Note]) -> str:
    return "\n".join(str(note.columns.get("detail")) for note in notes)


async def reason(peer: Bare) -> str:
    """Why the broker ends the connection."""
    frame: Any = await peer.hear()
    assert isinstance(frame, Goodbye), frame
    return frame.reason


@pytest.mark.parametrize("fast_loop", [False, True])
def test_two_brokers_and_their_clients_speak_tls(papers: Papers, fast_loop: bool) -> None:
    async def scene() -> None:
        async with (
            broker("b0", door=papers.door("b0")) as b0,
            broker("b1", parent=("b0", b0.address), door=papers.door("b1")) as b1,
            connect(str(b0), name="teller", tls=papers.folder) as teller,
            connect(str(b1), tls=papers.client()) as nobody,
        ):
            inbox = await nobody.subscribe("bank/#")
            large = random.Random(1).randbytes(1 << 20)
            receipts = [await teller.publish("bank/pt", payload) for payload in (b"small", large)]
            assert [(await inbox.next()).payload for _ in range(2)] == [b"small", large]
            for receipt in receipts:
                await receipt.delivered()

    run(scene(), fast_loop=fast_loop)


def test_what_is_published_cannot_be_read_on_the_way(papers: Papers) -> None:
    secret = b"nobody else may read this " * 8

    async def scene(door: Door | None, tls: Tls | None) -> bool:
        async with broker(door=door) as running, Proxy(running.address) as proxy:
            async with connect(str(proxy.address), tls=tls) as client:
                await (await client.publish("bank/pt", secret)).accepted()
            return secret in proxy.passed

    assert run(scene(None, None)), "without TLS it can"
    assert not run(scene(papers.door("b0"), papers.client()))


def test_a_session_over_tls_outlives_broken_connections(papers: Papers) -> None:
    async def scene() -> None:
        async with (
            broker(door=papers.door("b0")) as running,
            Proxy(running.address) as proxy,
            connect(str(proxy.address), name="teller", tls=papers.folder) as client,
        ):
            inbox = await client.subscribe("a")
            for number in range(20):
                receipt = await client.publish("a", b"%d" % number)
                proxy.reset_all()
            assert [(await inbox.next()).payload for _ in range(20)] == [b"%d" % number for number in range(20)]
            await receipt.delivered()

    run(scene())


def test_whoever_does_not_speak_tls_is_told_so(papers: Papers) -> None:
    async def scene() -> str:
        async with broker(door=papers.door("b0")) as running:
            with pytest.raises(ConnectError, match="b0 speaks TLS, and nothing else"):
                await connect(str(running))
            async with bare(running.address) as peer:
                peer.say(hello("teller"))
                assert await reason(peer) == "b0 speaks TLS, and nothing else"
            return details(running.notes)

    assert "127.0.0.1 was turned away: it does not speak TLS" in run(scene())


def test_a_client_with_tls_is_told_that_the_broker_has_none(papers: Papers) -> None:
    async def scene() -> None:
        async with broker() as running:
            with pytest.raises(ConnectError, match="it does not speak TLS"):
                await connect(str(running), tls=papers.folder)

    run(scene())


def test_an_expired_certificate_is_refused_and_both_sides_say_so(papers: Papers) -> None:
    papers.issue("client", "late", days=-1)

    async def scene() -> str:
        async with broker(door=papers.door("b0")) as running:
            with pytest.raises(ConnectError, match="it says that the certificate of this side has expired"):
                await connect(str(running), name="late", tls=papers.folder)
            await until(lambda: "expired" in details(running.notes))
            assert await refusals(running) == {"its certificate has expired": 1}
            return details(running.notes)

    assert "127.0.0.1 was turned away: its certificate has expired" in run(scene())


def test_a_certificate_of_another_authority_is_refused_and_both_sides_say_so(papers: Papers, tmp_path: Path) -> None:
    theirs = foreign(papers, tmp_path / "foreign", "teller")

    async def scene() -> str:
        async with broker(door=papers.door("b0")) as running:
            with pytest.raises(ConnectError, match="it says that the certificate of this side is of another authority"):
                await connect(str(running), name="teller", tls=theirs)
            with pytest.raises(ConnectError, match="its certificate is of another authority"):
                await connect(str(running), tls=Papers(tmp_path / "foreign").client())
            await until(lambda: "it says" in details(running.notes))
            assert (await refusals(running))["its certificate is of another authority"] == 1
            return details(running.notes)

    told = run(scene())
    assert "was turned away: its certificate is of another authority" in told
    assert "was turned away: it says that the certificate of this side is of another authority" in told


def test_a_client_has_the_name_that_its_certificate_says(papers: Papers) -> None:
    teller = papers.client("teller")

    async def scene() -> str:
        async with broker(door=papers.door("b0")) as running:
            with pytest.raises(ConnectError, match="refuses client boss: its certificate does not say that it is this"):
                await connect(str(running), name="boss", tls=teller)
            with pytest.raises(UsageError, match="a client with a certificate has the name that it says"):
                await connect(str(running), tls=teller)
            async with connect(str(running), name="teller", tls=teller):
                return details(running.notes)

    assert "client boss, whose certificate says client teller, from 127.0.0.1 was turned away" in run(scene())


def test_clients_need_a_certificate_only_where_that_is_wanted(papers: Papers) -> None:
    async def scene(wanted: bool) -> None:
        async with broker(door=papers.door("b0", wanted)) as running:
            async with connect(str(running), name="teller", tls=papers.folder):
                pass
            refused = pytest.raises(ConnectError, match="it has no certificate, and a client needs one here")
            with refused if wanted else contextlib.nullcontext():
                await (await connect(str(running), name="anybody", tls=papers.folder)).close()

    run(scene(False))
    run(scene(True))


@pytest.mark.parametrize("role", ["broker", "newcomer"])
def test_nobody_is_a_broker_without_the_certificate_of_one(papers: Papers, role: str) -> None:
    async def scene() -> None:
        async with broker(door=papers.door("b0")) as running:
            for certificate, name, fault in (
                (None, "b1", "it has no certificate, and a broker needs one here"),
                ("teller", "teller", "its certificate does not say that it is this broker"),
                ("teller", "b1", "its certificate does not say that it is this broker"),
                ("b1", "b2", "its certificate does not say that it is this broker"),
            ):
                async with bare(running.address, papers.context(certificate)) as peer:
                    peer.say(hello(name, role=role))
                    assert fault in await reason(peer)
            assert running.sessions == []
            async with bare(running.address, papers.context("b1")) as peer:
                peer.say(hello("b1", role=role))
                assert isinstance(await peer.hear(), SessionWelcome)

    run(scene())


def test_a_broker_does_not_join_one_that_is_not_who_it_should_be(papers: Papers) -> None:
    async def scene() -> str:
        async with (
            broker("b0", door=papers.door("b0")) as b0,
            broker("b1", parent=("b7", b0.address), door=papers.door("b1")) as b1,
        ):
            await until(lambda: "is not spoken to" in details(b1.notes))
            assert b0.sessions == b1.sessions == []
            return details(b1.notes)

    told = run(scene())
    assert re.search(r"b7 at 127.0.0.1, whose certificate says broker b0, is not spoken to: its certificate does", told)


def test_a_client_does_not_take_another_client_for_a_broker(papers: Papers) -> None:
    """Its certificate is of the right authority, but not for the end that is called."""

    async def scene() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(papers.folder / "teller.pem", papers.folder / "teller.key")
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=context)
        async with server:
            place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(ConnectError, match="its certificate is not meant for this end of a connection"):
                await connect(place, tls=papers.folder)

    run(scene())


def test_whoever_answers_with_another_name_than_its_certificate_is_not_believed(papers: Papers) -> None:
    async def scene() -> None:
        door = papers.door("b0")
        async with broker("b1", door=door) as running:
            with pytest.raises(UnreachableError, match="it says broker b1, its certificate broker b0"):
                await who_is(running.address, 5, "teller", keyring=Keyring(papers.client()))

    run(scene())


def test_which_network_a_broker_is_in_is_believed_only_with_its_certificate(papers: Papers) -> None:
    async def scene() -> None:
        async with broker(door=papers.door("b0")) as running:
            for certificate, believed in ((None, False), ("teller", False), ("b1", True)):
                async with bare(running.address, papers.context(certificate)) as peer:
                    peer.say(Who("b1", "elsewhere"))
                    await peer.hear()
                assert ("elsewhere" in details(running.notes)) is believed

    run(scene())


def test_a_handshake_that_gets_nowhere_is_given_up(papers: Papers) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def scene() -> None:
        async with broker("b1", door=papers.door("b1")) as running, somebody(silent) as place:
            with pytest.raises(UnreachableError, match="no answer within"):
                host, _, port = place.partition(":")
                await who_is(type(running.address)(host, int(port)), 0.2, keyring=Keyring(papers.client()))
            running.host.greeting_s_max = 0.1
            async with bare(running.address) as peer:
                peer.writer.write(b"\x16\x03\x01\x02\x00")  # the beginning of a handshake
                await peer.ended()
            await until(lambda: running.host.connections == 0)

    run(scene())


def test_garbage_within_and_instead_of_tls_harms_nobody(papers: Papers) -> None:
    async def scene() -> None:
        async with broker(door=papers.door("b0")) as running:
            for seed in range(100):
                rng = random.Random(seed)
                tls = papers.context("teller") if seed % 4 == 0 else None
                async with bare(running.address, tls) as peer:
                    peer.writer.write(
                        (b"\x16\x03\x01" if seed % 4 == 1 else b"") + rng.randbytes(rng.choice((1, 20, 3000)))
                    )
                    if tls is None:
                        peer.writer.write_eof()
                        await peer.ended()
            async with connect(str(running), tls=papers.client()) as client:
                await (await client.publish("still/here", b"yes")).accepted()
            await until(lambda: running.host.connections == 0)

    run(scene())


def test_new_certificates_are_used_from_the_next_connection_on(papers: Papers, tmp_path: Path) -> None:
    async def scene() -> None:
        door = papers.door("b0")
        assert door.keyring is not None
        async with broker(door=door) as running, connect(str(running), name="teller", tls=papers.folder) as client:
            (papers.folder / "b0.pem").write_bytes((papers.folder / "b1.pem").read_bytes())
            with pytest.raises(UsageError, match=r"b0\.pem: it does not belong to its key"):
                door.keyring.reload()
            papers.issue("broker", "b0", days=-1)
            with pytest.raises(UsageError, match=r"b0\.pem has expired"):
                door.keyring.reload()
            async with connect(str(running), tls=papers.folder):
                pass
            replaced = Papers(tmp_path / "others")
            with pytest.raises(ConnectError, match="its certificate is of another authority"):
                await connect(str(running), tls=replaced.folder)
            for file in replaced.folder.iterdir():
                (papers.folder / file.name).write_bytes(file.read_bytes())
            door.keyring.reload()
            async with connect(str(running), name="teller-2", tls=replaced.client()):
                pass
            await (await client.publish("a", b"the connection stands as it stood")).accepted()

    run(scene())


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda folder: (folder / "ca.pem").unlink(), r"authority .*ca\.pem: no such file"),
        (lambda folder: (folder / "b0.pem").unlink(), r"certificate .*b0\.pem: no such file"),
        (lambda folder: (folder / "b0.key").unlink(), r"key .*b0\.key: no such file"),
        (lambda folder: (folder / "ca.pem").write_text("hello"), r"ca\.pem: there is no good authority in it"),
        (lambda folder: (folder / "b0.pem").write_text("hello"), r"b0\.pem: there is no good certificate in it"),
        (lambda folder: (folder / "b1.key").rename(folder / "b0.key"), r"b0\.pem: it does not belong to its key"),
    ],
)
def test_what_is_wrong_with_the_files_is_said_in_one_line(papers: Papers, spoil: Any, complaint: str) -> None:
    spoil(papers.folder)
    with pytest.raises(UsageError, match=complaint) as refused:
        papers.door("b0")
    assert "\n" not in str(refused.value)


def test_a_broker_needs_a_certificate_with_its_own_name(papers: Papers) -> None:
    files = Tls(papers.folder / "ca.pem", papers.folder / "b1.pem", papers.folder / "b1.key")
    with pytest.raises(UsageError, match="says broker b1, and not broker b0"):
        Keyring(files, "b0")
    with pytest.raises(UsageError, match="broker b0 has no certificate"):
        Keyring(papers.client(), "b0")
    with pytest.raises(UsageError, match="is not meant for this end"):
        Keyring(papers.client("teller"), "teller")
    with pytest.raises(UsageError, match="there is no such folder of certificates"):
        connect("localhost:1", tls=papers.folder / "nowhere")
    assert "expires in 1 days" in Keyring(files, "b1").warning
