"""What strangers and hostile brokers do to logins, over TCP."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from resprout.client.connect import connect
from resprout.client.errors import ConnectError
from resprout.links.frames import Goodbye
from resprout.net import basic_logins
from resprout.net.address import Address, parse_address
from resprout.net.discover import UnreachableError
from resprout.net.door import OUT_OF_ORDER, Door
from resprout.net.http import server
from resprout.net.http.server import CONNECTIONS_MAX, HttpAnswer, HttpRequest, HttpServer
from resprout.net.identity.proofs import LoginSecret, OpenerLogin
from resprout.net.identity.rules import WRONG
from resprout.net.identity.scram import SecretKeys, derive_keys, verifier_of_token
from resprout.net.sessions import Challenge, Here, Login, ProofAccepted, ProofOfSecret, Salt, Who
from resprout.net.survey import Asker
from tests.net.bare_logins import log_in
from tests.net.pages import get, refusals, served
from tests.net.papers import Papers
from tests.net.stage import Bare, Running, bare, broker, run, somebody
from tests.patience import PATIENCE_S

TOKEN = "a-secret-that-nobody-must-see"
NONCE = "a-nonce-of-a-client"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.toml"
    secrets = f'secrets = ["{verifier_of_token(TOKEN)}"]'
    file.write_text(f'[[identity]]\nname = "operator"\n{secrets}\noperate = true\nsubscribe = ["#"]\n')
    return file


def lines(running: Running) -> list[str]:
    return [str(note.columns.get("detail")) for note in running.notes]


@contextlib.asynccontextmanager
async def recorded(target: Address) -> AsyncIterator[tuple[Address, bytearray]]:
    """An address that passes everything on to another one, and all bytes that come from its clients."""
    seen = bytearray()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: bytearray) -> None:
        while data := await reader.read(65_536):
            to += data
            writer.write(data)
        writer.close()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(target.host, target.port)
        try:
            await asyncio.gather(pump(reader, back, seen), pump(there, writer, bytearray()))
        finally:
            back.transport.abort()

    async with somebody(behave) as address:
        yield parse_address(address), seen


def test_no_broker_learns_the_secret_of_whoever_logs_in(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running, recorded(running.address) as (address, seen):
            asker = Asker("operator", "client", None, LoginSecret("operator", TOKEN), PATIENCE_S)
            assert (await asker.account(address)).name == "b0"
            client = await connect(str(address), name="operator", login=f"operator:{TOKEN}", timeout=PATIENCE_S)
            await client.subscribe("#")
            await client.close()
            assert b"operator" in seen and TOKEN.encode() not in seen

    run(scene())


@pytest.mark.parametrize("encrypted", [True, False], ids=["TLS", "plain"])
def test_a_member_cannot_pass_a_login_on_to_another_broker(rules: Path, tmp_path: Path, encrypted: bool) -> None:
    """b1 is hostile. The operator logs in there, and b1 says to b0 whatever the operator says."""
    papers = Papers(tmp_path / "certificates", brokers="b0 b1") if encrypted else None
    door = Door(papers.door("b0").keyring if papers is not None else None, rules=rules)
    certificate = b"the digest of the certificate of b1" if encrypted else b""

    async def scene() -> None:
        async with broker(door=door) as running:
            ssl = papers.context() if papers is not None else None
            reader, writer = await asyncio.open_connection("127.0.0.1", running.address.port, ssl=ssl)
            verdict = await log_in(Bare(reader, writer), "operator", TOKEN, "b1", certificate)
            assert isinstance(verdict, Goodbye) and verdict.reason == f"b0 refuses operator: {WRONG}"
            writer.close()
            own = await connect(
                str(running), name="operator", login=f"operator:{TOKEN}", timeout=PATIENCE_S,
                tls=papers.client() if papers is not None else None,
            )  # fmt: skip
            await own.close()

    run(scene())


def test_a_broker_that_does_not_hold_the_verifier_is_not_spoken_to(rules: Path) -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Bare(reader, writer)
        while True:
            heard = await peer.hear()
            if isinstance(heard, Who):
                peer.say(Here("b0", "broker", 1))
            elif isinstance(heard, Login):
                peer.say(Challenge(f"{heard.nonce}x", (Salt(b"salt", 4096),)))
            elif isinstance(heard, ProofOfSecret):
                peer.say(ProofAccepted(0, bytes(32)))
            else:
                said.append(heard)

    said: list[Any] = []

    async def scene() -> None:
        async with somebody(behave) as address:
            with pytest.raises(ConnectError, match="it accepts the login and does not hold the verifier"):
                await connect(address, login=f"operator:{TOKEN}", timeout=PATIENCE_S)
            asker = Asker("operator", "client", None, LoginSecret("operator", TOKEN), PATIENCE_S)
            with pytest.raises(UnreachableError, match="does not hold the verifier"):
                await asker.account(parse_address(address))
        assert not said, "it was told nothing"

    run(scene())


@pytest.mark.parametrize("has_rules", [True, False], ids=["rules", "no rules"])
def test_many_logins_in_one_read_cost_one_line_and_no_traceback(rules: Path, has_rules: bool) -> None:
    async def scene() -> None:
        troubles: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: troubles.append(context))
        async with broker(door=Door(rules=rules if has_rules else None)) as running:
            for _ in range(5):
                async with bare(running.address) as peer:
                    peer.say(*[Login("operator", NONCE)] * 3000)
                    with contextlib.suppress(ConnectionError):
                        await peer.ended()
            async with bare(running.address) as peer:
                await peer.greet("somebody") if not has_rules else await log_in(peer, "operator", TOKEN)
            assert not troubles
            turned_away = [line for line in lines(running) if "turned away" in line]
            assert len(turned_away) == 1, "the log is no larger for it"
            assert sum((await refusals(running)).values()) == 5, "each is counted"

    run(scene())


def test_frames_of_a_proof_out_of_order_are_refused(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running:
            for frames in (
                (ProofOfSecret((bytes(32),)),),
                (Challenge(NONCE, ()),),
                (ProofAccepted(0, b""),),
                (Login("operator", "short"),),
                (Login("operator", NONCE), Login("operator", NONCE)),
            ):
                async with bare(running.address) as peer:
                    peer.say(*frames)
                    heard = await peer.hear()
                    if isinstance(heard, Challenge):
                        heard = await peer.hear()
                    assert heard == Goodbye(OUT_OF_ORDER)

    run(scene())


def test_unknown_identities_get_the_same_answers_as_known_ones(rules: Path) -> None:
    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running:
            heard = {}
            for name in ("operator", "nobody"):
                async with bare(running.address) as peer:
                    login = OpenerLogin(LoginSecret(name, "wrong"), b"", "b0")
                    peer.say(login.begin())
                    challenge = await peer.hear()
                    assert isinstance(challenge, Challenge)
                    peer.say(login.hear(challenge))
                    verdict = await peer.hear()
                    shape = [(len(one.salt), one.iterations) for one in challenge.salts]
                    heard[name] = (shape, len(challenge.nonce), verdict.reason.replace(name, "X"), verdict.code)
            assert heard["operator"] == heard["nobody"]

    run(scene())


def test_pages_compute_as_much_for_an_unknown_identity(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []

    def counted(secret: str, salt: bytes, iterations: int) -> SecretKeys:
        computed.append(iterations)
        return derive_keys(secret, salt, iterations)

    monkeypatch.setattr(basic_logins, "derive_keys", counted)

    async def scene() -> None:
        door = Door(rules=rules)
        async with broker(door=door) as running, served(running, door) as at:
            spent = {}
            for name in ("operator", "nobody"):
                computed.clear()
                assert (await get(at, "/metrics", basic(f"{name}:wrong"))).status == 401
                spent[name] = list(computed)
            assert spent["operator"] == spent["nobody"] != []

    run(scene())


def test_failed_logins_at_the_pages_are_told_counted_and_lock_nobody_out(rules: Path) -> None:
    async def scene() -> None:
        door = Door(rules=rules)
        async with broker(door=door) as running, served(running, door) as at:
            for _ in range(12):
                assert (await get(at, "/metrics", basic("operator:wrong"))).status == 401
            assert (await get(at, "/metrics", basic(f"operator:{TOKEN}"))).status == 200
            told = [line for line in lines(running) if "who wants to see pages" in line]
            assert told == [f"operator from 127.0.0.1, who wants to see pages, was turned away: {WRONG}"]
            assert (await refusals(running))[WRONG] == 12

    run(scene())


def test_slow_connections_do_not_keep_signs_of_health_away() -> None:
    async def scene() -> None:
        async with broker() as running, served(running) as at:
            opened = (asyncio.open_connection("127.0.0.1", at.port) for _ in range(CONNECTIONS_MAX + 40))
            slow = await asyncio.gather(*opened)
            for _, writer in slow:
                writer.write(b"GET /healthz HTTP/1.1\r\n")
            for _ in range(3):
                reply = await get(at, "/healthz")
                assert reply.status == 200 and reply.text == "ok\n"
            assert all([not await reader.read() for reader, _ in slow[:8]]), "the oldest ones have made room"
            for _, writer in slow:
                writer.close()

    run(scene())


def test_signs_of_health_are_answered_however_many_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ANSWERS_MAX", 4)

    async def scene() -> None:
        goes_on = asyncio.Event()

        async def answer(request: HttpRequest) -> HttpAnswer:
            if request.path == "/slow":
                await goes_on.wait()
            return HttpAnswer(b"told")

        http = HttpServer(answer, always=("/healthz",))
        await http.listen(Address("127.0.0.1", 0))
        waiting = [asyncio.create_task(get(http.address, "/slow")) for _ in range(5)]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert {(await one).status for one in done} == {503}, "one more than there is room for"
        assert (await get(http.address, "/healthz")).status == 200
        goes_on.set()
        assert sorted({(await one).status for one in waiting}) == [200, 503]
        assert (await get(http.address, "/slow")).status == 200, "the places are free again"
        await http.close()

    run(scene())


def basic(text: str) -> str:
    return f"Authorization: Basic {base64.b64encode(text.encode()).decode()}"
