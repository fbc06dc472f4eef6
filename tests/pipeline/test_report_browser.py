"""The page in a real browser, as a phone shows it."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resprout.pipeline.report.page import page_of
from tests.browser import Page, browse, find_browser
from tests.net.stage import run
from tests.pipeline.made_up import ASKED, anomaly, reports_of, sweep_run, verdict

BROWSER = find_browser()
PICTURES = os.environ.get("RESPROUT_PICTURES")
"""A folder, to look at what the browser shows."""

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="there is no browser here: install chromium, or name one in RESPROUT_BROWSER"
)

BEYOND = """JSON.stringify([...document.querySelectorAll(".tag")].filter(one => {
    const box = one.getBoundingClientRect();
    return one.checkVisibility() && (box.left < 0 || box.right > innerWidth);
}).map(one => one.closest("tr")?.textContent ?? one.textContent))"""
OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
MARK = """(() => { const mark = document.querySelectorAll("svg.chart .role-mark [aria-label]")[1];
    mark.scrollIntoView({block: "center"}); const box = mark.getBoundingClientRect();
    return JSON.stringify([(box.left + box.right) / 2, box.top - 8, mark.getAttribute("aria-label")]) })()"""
TIP = """(() => { const tip = document.querySelector(".tip"); const box = tip.getBoundingClientRect();
    return tip.hidden || box.left < 0 || box.right > innerWidth || box.top < 0 ? "" : tip.textContent })()"""
AT_RUN = """(() => { const row = document.querySelector("tr:target"); const box = row?.getBoundingClientRect();
    return row !== null && row.checkVisibility() && box.top >= 0 && box.bottom <= innerHeight })()"""


def made_up_page() -> str:
    """Of a comparison of stacks, one of whose runs lost something."""
    facts = []
    for stack in ("resprout", "gossip"):
        for seed in (1, 2):
            one = sweep_run("stacks", stack, seed, 100_000, fault="crash", system=f"{stack}-total")
            lost = (anomaly("stacks", one.name, "lost", "c0 never got c1:1"),) if stack == "gossip" else ()
            facts.append(
                msgspec.structs.replace(
                    one, verdict=verdict("stacks", one.name, *(["lost"] if lost else [])), anomalies=lost
                )
            )
    drawn = [sweep_run("mine", "resprout", seed, 100_000 * seed) for seed in (1, 2)]
    bare = [msgspec.structs.replace(one, traffic=None, load=()) for one in drawn]
    return page_of([*facts, *bare], {}, ASKED, reports_of("stacks"))


async def told(page: Page, expression: str) -> Any:
    return json.loads(await page.evaluate(expression))


async def picture(page: Page, name: str) -> None:
    if PICTURES is not None:
        await page.picture(Path(PICTURES) / f"{name}.png", whole=False)


def test_a_phone_shows_every_verdict_and_what_a_finger_points_at_and_explanations_lead_to_their_runs(
    tmp_path: Path,
) -> None:
    file = tmp_path / "page.html"
    file.write_text(made_up_page())

    async def scene() -> None:
        assert BROWSER is not None
        async with browse(BROWSER, tmp_path / "browser") as page:
            await page.resize(390, 844, phone=True)
            await page.call("Emulation.setTouchEmulationEnabled", enabled=True)
            for scheme in ("light", "dark"):
                await page.prefer(scheme)
                await page.visit(file.as_uri())
                await page.until("document.readyState === 'complete' && document.querySelector('.tip') !== null")
                await picture(page, f"report-{scheme}")
                await page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
                assert await told(page, BEYOND) == []
                assert not await page.evaluate(OVERFLOWS)
            x, y, label = await told(page, MARK)
            await page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
            await page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
            await page.until(f"{TIP} === {json.dumps(label)}")
            await picture(page, "report-tip")
            await page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = false })")
            await page.evaluate("document.querySelector('#verdicts li a').click()")
            await page.until(AT_RUN)
            await picture(page, "report-run")
            assert page.complaints == []

    run(scene())
