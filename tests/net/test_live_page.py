"""The live page in a real browser, while the process of a broker is killed."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from resprout.client.connect import connect
from resprout.core.contract import Note
from resprout.net.address import Address
from resprout.net.door import Door
from resprout.net.http.pages import Pages
from resprout.net.identity.scram import verifier_of_token
from resprout.net.process import BrokerPlan, BrokerProcess
from resprout.stacks.stack import Stack
from resprout_lab.scribe import SCRIBE
from resprout_lab.sites import SITES
from tests.browser import Page, browse, find_browser
from tests.net.stage import Running, bare, broker, run, until

BROWSER = find_browser()
PICTURES = os.environ.get("RESPROUT_PICTURES")
"""A folder, to look at what the browser shows."""

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="there is no browser here: install chromium, or name one in RESPROUT_BROWSER"
)

PATIENT = {"lease_us": 60_000_000}
"""Beside a browser a broker may have to wait for its turn; one whose port is closed is gone at once."""
MARKUP = "<img src=x onerror=\"document.title='spoilt'\">"
"""As somebody might call itself, to be shown to operators."""
STATES = """JSON.stringify(Object.fromEntries([...document.querySelectorAll("#tree .node")].map(
    node => [node.dataset.name, node.getAttribute("class").split(" ")[1]])))"""
EDGES = """JSON.stringify([...document.querySelectorAll("#tree .edge:not(.repair)")].map(
    line => line.dataset.from + ">" + line.dataset.to).sort())"""
EVENTS = "[...document.querySelectorAll('#events li')].map(one => one.textContent)"
OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


async def told(page: Page, expression: str) -> Any:
    return json.loads(await page.evaluate(expression))


async def picture(page: Page, name: str) -> None:
    if PICTURES is not None:
        await page.picture(Path(PICTURES) / f"{name}.png")


def test_the_page_shows_the_tree_and_moves_when_a_broker_dies(tmp_path: Path) -> None:
    async def scene() -> None:
        assert BROWSER is not None
        pages = Pages("b0", Door(), opens=False)
        await pages.listen(Address("127.0.0.1", 0))
        async with (
            broker("b0", options=PATIENT) as b0,
            victim_of(b0) as b1,
            broker("b4", parent=("b0", b0.address), options=PATIENT) as b4,
        ):
            await until(lambda: {"b1", "b4"} <= set(b0.broker.books.status().neighbours))
            async with (
                broker("b2", parent=("b1", b1.address), options=PATIENT) as b2,
                broker("b3", parent=("b1", b1.address), options=PATIENT) as b3,
                connect(str(b2), name="reader") as reader,
                connect(str(b4), name="teller") as teller,
                browse(BROWSER, tmp_path / "browser") as page,
            ):
                await until(lambda: all(one.broker.books.status().serving for one in (b2, b3)))
                pages.show(b0.broker)
                b0.broker.books.note(Note("note", {"detail": MARKUP}))
                for kind in ("__proto__", "hasOwnProperty", "constructor"):  # a member names its events as it likes
                    b0.broker.books.note(Note(kind, {"detail": f"an event of the kind {kind}"}))
                busy = asyncio.get_running_loop().create_task(_traffic(teller, reader))
                async with bare(b0.address) as stranger:
                    stranger.writer.write(b"<b>who?</b>" * 10)
                    await stranger.ended()
                points = len(b0.broker.books.account().history)
                await until(lambda: len(b0.broker.books.account().history) > points)  # it has seen b1 alive
                try:
                    await _watch(page, pages, b1)
                finally:
                    busy.cancel()
                    await asyncio.wait((busy,))
        await pages.close()

    run(scene())


def test_the_page_behind_a_name_and_a_secret_shows_the_tree(tmp_path: Path) -> None:
    """Opened with both in the address, as people and bookmarks do."""
    token = "t0123456789abcdef"
    rules = tmp_path / "rules.toml"
    rules.write_text(f'[[identity]]\nname = "monitor"\nsecrets = ["{verifier_of_token(token)}"]\nobserve = true\n')

    async def scene() -> None:
        assert BROWSER is not None
        door = Door(rules=rules)
        pages = Pages("b0", door, opens=False)
        await pages.listen(Address("127.0.0.1", 0))
        async with broker("b0", options=PATIENT, door=door) as b0, browse(BROWSER, tmp_path / "browser") as page:
            pages.show(b0.broker)
            await page.visit(pages.url.replace("http://", f"http://monitor:{token}@"))
            await page.until(
                'document.querySelector("#tree .node") !== null || document.getElementById("banner")?.hidden === false'
            )
            assert await page.evaluate('document.getElementById("banner").hidden'), "it says that nobody answers"
            assert not page.complaints
        await pages.close()

    run(scene(), seconds=110)


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        (SITES, "site b0; leads the site b0 since term 2; orders all publications"),
        (SCRIBE, "leads 2 topics ($scribe/topics, news); owns 2, holds 2"),
    ],
)
def test_the_page_shows_what_a_broker_of_a_site_or_ring_is_to_the_others(
    stack: Stack[Any], part: str, tmp_path: Path
) -> None:
    async def scene() -> None:
        assert BROWSER is not None
        pages = Pages("b0", Door(), opens=False)
        await pages.listen(Address("127.0.0.1", 0))
        async with (
            broker("b0", stack=stack, data=tmp_path / "b0" if stack is SITES else None) as b0,
            connect(str(b0), name="reader") as reader,
            browse(BROWSER, tmp_path / "browser") as page,
        ):
            await reader.subscribe("news")
            pages.show(b0.broker)
            await page.visit(pages.url)
            for place in ("#brokers", "#tree .node title"):
                await page.until(
                    f"document.querySelector('{place}')?.textContent.includes({json.dumps(part)}) === true"
                )
            assert not page.complaints
        await pages.close()

    run(scene(), seconds=110)


@contextlib.asynccontextmanager
async def victim_of(parent: Running) -> AsyncIterator[BrokerProcess]:
    """b1, in a process of its own."""
    process = BrokerProcess(BrokerPlan(name="b1", parent=parent.address, options=PATIENT))
    await process.start()
    try:
        yield process
    finally:
        await process.stop(1)


async def _watch(page: Page, pages: Pages, victim: BrokerProcess) -> None:
    await page.resize(1280, 900)
    await page.prefer("light")
    await page.visit(pages.url)
    await page.until("document.querySelectorAll('#tree .node').length === 5")
    await page.until("document.querySelectorAll('#refusals tr').length === 2")
    assert await told(page, STATES) == dict.fromkeys(("b0", "b1", "b2", "b3", "b4"), "ready")
    assert await told(page, EDGES) == ["b0>b1", "b0>b4", "b1>b2", "b1>b3"]
    assert not await page.evaluate(OVERFLOWS)
    assert MARKUP in await page.evaluate("document.querySelector('#events').textContent")
    await asyncio.sleep(1.5 if PICTURES is not None else 0)
    await picture(page, "1-light")
    for kind in ("__proto__", "hasOwnProperty", "constructor"):
        assert f"b0: an event of the kind {kind}." in await page.evaluate(
            "document.querySelector('#events').textContent"
        )
    before = await page.evaluate("""document.querySelector('#tree [data-name="b2"]').getAttribute("transform")""")
    victim.kill()
    await page.until(f'{EDGES} === \'["b0>b1","b0>b2","b0>b3","b0>b4"]\'')
    await page.until("document.querySelectorAll('#tree .edge.lost').length === 1")  # others may still ask it before
    states = await told(page, STATES)
    assert states.pop("b1") == "gone" and set(states) == {"b0", "b2", "b3", "b4"}
    await page.until(
        f"""document.querySelector('#tree [data-name="b2"]').getAttribute("transform") !== {json.dumps(before)}"""
    )
    await page.until(f"{EVENTS}.some(one => one.includes('The tree is repaired around b1.'))")
    await page.until("document.querySelectorAll('#chart .in, #chart .death').length === 2")
    await page.visit(pages.url)  # a page that is opened after the crash shows it, too
    await page.until(f'{EDGES} === \'["b0>b1","b0>b2","b0>b3","b0>b4"]\'')
    assert (await told(page, STATES))["b1"] == "gone"
    assert await page.evaluate("document.querySelector('#chart .death-name').textContent") == "b1"
    assert await page.evaluate(f"{EVENTS}.some(one => one.includes('began to repair the tree around b1.'))")
    assert await page.evaluate("document.querySelectorAll('#chart .grid').length") >= 9, (
        "five rows, four times at least"
    )
    await asyncio.sleep(1.5 if PICTURES is not None else 0)
    await picture(page, "2-light-after")
    await page.prefer("dark")
    await picture(page, "3-dark-after")
    await page.resize(390, 844, phone=True)
    await page.until("document.querySelector('#tree').getAttribute('class') === 'across'")
    await asyncio.sleep(1.5 if PICTURES is not None else 0)
    assert not await page.evaluate(OVERFLOWS)
    await picture(page, "4-dark-phone")
    await page.prefer("light")
    await picture(page, "5-light-phone")
    assert await page.evaluate("document.querySelectorAll('img').length") == 0 and page.complaints == []
    await pages.close()
    await page.until("!document.querySelector('#banner').hidden")
    assert "does not answer" in await page.evaluate("document.querySelector('#banner').textContent")
    await picture(page, "6-no-answer")


async def _traffic(teller: Any, reader: Any) -> None:
    inbox = await reader.subscribe("bank/#")
    while True:
        await teller.publish("bank/1", b"x" * 100)
        await inbox.next()
        await asyncio.sleep(0.02)
