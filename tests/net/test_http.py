"""What a broker serves to browsers and monitors: to whom, and what not."""

import asyncio
import base64
from pathlib import Path

import msgspec
import pytest

from resprout import __version__
from resprout.client.connect import connect
from resprout.core.errors import UsageError
from resprout.net.accounts import TreeSurvey
from resprout.net.address import Address
from resprout.net.door import Door
from resprout.net.http import pages as pages_module
from resprout.net.http import server as http_server
from resprout.net.http.pages import LETTERS_AT_ONCE, check_pages_closed, rendered
from resprout.net.identity.scram import verifier_of_token
from tests.cli.hostile_broker import account_of
from tests.mqtt.stage import mqtt_broker
from tests.net.pages import get, said, served, values
from tests.net.stage import bare, broker, run, until

TOKEN = "0123456789abcdef"
RULES = f"""
[[identity]]
name = "watcher"
secrets = ["{verifier_of_token(TOKEN)}"]
observe = true

[[identity]]
name = "teller"
secrets = ["{verifier_of_token(TOKEN)}"]
publish = ["#"]
"""


def login(text: str) -> str:
    return f"Authorization: Basic {base64.b64encode(text.encode()).decode()}"


def test_a_monitor_reads_what_the_broker_has_counted() -> None:
    async def scene() -> None:
        async with broker() as running, served(running) as at, connect(str(running), name="c") as client:
            inbox = await client.subscribe("t")
            for _ in range(3):
                receipt = await client.publish("t", b"x")
                await inbox.next()
                await receipt.delivered()
            async with bare(running.address) as stranger:
                stranger.writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
                await stranger.ended()
            reply = await get(at, "/metrics")
            assert reply.status == 200 and reply.headers["content-type"].startswith("text/plain")
            told = values(reply.text)
            assert told[("resprout_publications_total",)] == told[("resprout_deliveries_total",)] == 3
            assert told[("resprout_receipts_total", "delivered")] == 3
            timed = told[("resprout_receipt_seconds_count", "safe")]
            assert 1 <= timed <= 3 and told[("resprout_receipt_seconds_bucket", "+Inf", "safe")] == timed
            assert told[("resprout_refusals_total", "malformed")] == 1
            assert told[("resprout_sessions", "client")] == 1 and told[("resprout_broker_ready",)] == 1
            assert told[("resprout_notes_total", "few_copies")] == 1  # it is alone
            assert told[("resprout_broker_info", "b0", "resprout", __version__)] == 1
            open_metrics = await get(at, "/metrics", "Accept: application/openmetrics-text")
            assert open_metrics.text.endswith("# EOF\n")

    run(scene())


def test_health_is_told_to_everybody_and_readiness_waits_for_a_place(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)

    async def scene() -> None:
        door = Door(rules=rules)
        async with served(None, door) as at:
            assert (await get(at, "/healthz")).text == "ok\n"
            early = await get(at, "/readyz")
            assert early.status == 503 and early.text == "not ready: it looks for its network\n"
            assert (await get(at, "/status.json", login(f"watcher:{TOKEN}"))).status == 503
        async with broker(door=door) as running, served(running, door) as at:
            await until(lambda: running.broker.books.status().serving)
            assert (await get(at, "/readyz")).text == "ready\n"
            await running.broker.close()
            assert (await get(at, "/readyz")).status == 503

    run(scene())


def test_readiness_waits_for_the_mqtt_sessions() -> None:
    """A rolling restart that stopped the next broker before this one had them would lose them."""

    async def scene() -> None:
        async with mqtt_broker() as broker, served(broker.running) as at:
            await until(lambda: broker.running.broker.books.status().serving)
            assert (await get(at, "/readyz")).text == "ready\n"
            broker.server.serving.clear()
            early = await get(at, "/readyz")
            assert early.status == 503 and early.text == "not ready: it does not have the MQTT sessions yet\n"

    run(scene())


def test_answers_that_are_too_long_for_a_page_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that makes up brokers answered for each with 4 MiB: all that were asked at the same time were taken."""
    monkeypatch.setattr(pages_module, "SURVEY_BYTES", 1_000)

    async def scene() -> None:
        async with broker("b0") as b0, broker("b1", parent=("b0", b0.address)) as b1, served(b0) as at:
            await until(lambda: b1.broker.books.status().serving)
            found = msgspec.json.decode((await get(at, "/status.json")).body, type=TreeSurvey)
            assert [one.name for one in found.brokers] == ["b0"]
            (missing,) = found.missing
            assert missing.name == "b1" and "too long" in missing.reason

    run(scene())


def test_a_status_is_escaped_in_portions_and_stays_what_it_was() -> None:
    account = account_of("127.0.0.1:1")
    notices = tuple("\u202e" * 100 + "x" * (at % 7) + "ä" for at in range(1_500))
    found = TreeSurvey("b0", 1, "n", notices, 1.0, (account,))
    body = rendered(found)
    assert len(msgspec.json.encode(found).decode()) > 2 * LETTERS_AT_ONCE
    assert body.isascii() and msgspec.json.decode(body, type=TreeSurvey) == found


def test_the_status_is_the_survey_that_commands_read() -> None:
    async def scene() -> None:
        async with broker("b0") as b0, broker("b1", parent=("b0", b0.address)) as b1, served(b1) as at:
            await until(lambda: b1.broker.books.status().serving)
            found = msgspec.json.decode((await get(at, "/status.json")).body, type=TreeSurvey)
            assert [one.name for one in found.brokers] == ["b1", "b0"]
            assert found.brokers[0].http == f"http://{at}/"

    run(scene())


def test_with_rules_only_those_see_pages_that_may_observe(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)

    async def scene() -> None:
        door = Door(rules=rules)
        async with broker(door=door) as running, served(running, door) as at:
            for path in ("/", "/status.json", "/metrics", "/nothing"):
                nobody = await get(at, path)
                assert nobody.status == 401 and nobody.headers["www-authenticate"].startswith("Basic ")
                assert nobody.text == "show who you are\n"
            assert (await get(at, "/metrics", login(f"watcher:{TOKEN}"))).status == 200
            assert "neither observe nor operate" in (await get(at, "/metrics", login(f"teller:{TOKEN}"))).text
            for wrong in ("watcher:x", "who:x", "nothing"):
                assert (await get(at, "/metrics", login(wrong))).status == 401
            assert (await get(at, "/metrics", "Authorization: Basic ###")).status == 401

    run(scene())


def test_beyond_this_machine_nothing_is_shown_unless_somebody_said_to_whom(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    everywhere = Address("", 8450)
    with pytest.raises(UsageError, match="give --rules, or --http-open"):
        check_pages_closed(everywhere, Door(), opens=False)
    check_pages_closed(everywhere, Door(), opens=True)
    check_pages_closed(everywhere, Door(rules=rules), opens=False)
    check_pages_closed(Address("localhost", 8450), Door(), opens=False)


def test_a_page_from_elsewhere_cannot_read_it_under_a_name_of_its_own() -> None:
    async def scene() -> None:
        async with served(None) as at:
            for host in ("evil.example", "evil.example:8450", "", "127.0.0.1.evil.example"):
                reply = await said(at, f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                assert reply.status == 421, host
            for host in ("localhost:1", "127.0.0.1", "[::1]:8450"):
                assert (await said(at, f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())).status == 200
            reply = await get(at, "/healthz", "Origin: http://evil.example")
            assert not any(name.startswith("access-control") for name in reply.headers)

    run(scene())


def test_the_page_may_run_what_is_in_it_and_nothing_else() -> None:
    async def scene() -> None:
        async with served(None) as at:
            reply = await get(at, "/?x=1")
            policy = reply.headers["content-security-policy"]
            assert reply.status == 200 and "default-src 'none'" in policy and "unsafe" not in policy
            assert "http" not in policy and b"http://" not in reply.body.replace(b"http://www.w3.org/2000/svg", b"")
            assert (await get(at, "/", method="HEAD")).body == b""

    run(scene())


def test_nonsense_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS_MAX", 0.2)

    async def scene() -> None:
        async with served(None) as at:
            host = f"Host: {at}"
            for raw, status in (
                (b"POST / HTTP/1.1\r\n" + host.encode() + b"\r\n\r\n", 405),
                (b"hello\r\n\r\n", 400),
                (b"GET http://x/ HTTP/1.1\r\n\r\n", 400),
                (b"GET / HTTP/2\r\n\r\n", 400),
                (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400),
                (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
                (b"GET / HTTP/1.1\r\n" + host.encode() + b"\r\nContent-Length: 5\r\n\r\nhello", 413),
                (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 2000 + b"\r\n", 431),
                (b"GET / HTTP/1.1\r\n" + b"".join(b"a%d: b\r\n" % n for n in range(100)) + b"\r\n", 431),
                (b"GET / HTT", 408),
            ):
                assert (await said(at, raw)).status == status, raw[:40]
            assert (await get(at, "/nothing")).status == 404
            assert (await get(at, "/healthz")).status == 200

    run(scene())


def test_who_opens_many_connections_finds_them_closed_and_the_next_one_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 4)
    monkeypatch.setattr(http_server, "HEAD_SECONDS_MAX", 0.5)

    async def scene() -> None:
        async with served(None) as at:
            idle = [await asyncio.open_connection("127.0.0.1", at.port) for _ in range(10)]
            ended = await asyncio.gather(*[reader.read() for reader, _ in idle], return_exceptions=True)
            assert sum(isinstance(one, bytes) and b"408" in one for one in ended) == 4
            assert (await get(at, "/healthz")).status == 200
            for _, writer in idle:
                writer.close()

    run(scene())
