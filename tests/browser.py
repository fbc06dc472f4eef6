"""A real browser for tests, spoken to over its debugging pipe: no driver, and nothing to install but the browser.

`RESPROUT_BROWSER` names one; otherwise Chromium or Chrome is taken from the machine.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ANSWER_SECONDS = 60.0


_BEGIN = """
import fcntl, os, sys
aside = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]  # whatever they were: not 3 or 4
for number, one in zip((3, 4), aside):
    os.dup2(one, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser expects its pipe at these numbers."""


def find_browser() -> str | None:
    given = os.environ.get("RESPROUT_BROWSER")
    return given if given is not None else next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page of a browser. `complaints`: what it wrote to its console as errors, and exceptions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.WriteTransport) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._session: str | None = None
        self.complaints: list[str] = []

    async def listen(self) -> None:
        """Until the browser ends."""
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                told = json.loads((await self._reader.readuntil(b"\0"))[:-1])
                if (answer := self._answers.pop(told.get("id", 0), None)) is not None:
                    answer.set_result(told)
                elif told.get("method") == "Runtime.exceptionThrown":
                    self.complaints.append(str(told["params"]["exceptionDetails"]))
                elif told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                    entry = told["params"]["entry"]
                    self.complaints.append(f"{entry['text']} {entry.get('url', '')}")

    async def call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        words = {"id": number, "method": method, "params": params}
        if self._session is not None:
            words["sessionId"] = self._session
        self._writer.write(json.dumps(words).encode() + b"\0")
        told = await asyncio.wait_for(answer, ANSWER_SECONDS)
        assert "error" not in told, told
        return told["result"]

    async def open(self) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def visit(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def resize(self, width: int, height: int, phone: bool = False) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip

    async def prefer(self, scheme: str) -> None:
        """`light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def evaluate(self, expression: str) -> Any:
        told = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    async def until(self, expression: str) -> None:
        """Until it is true."""
        while not await self.evaluate(expression):
            await asyncio.sleep(0.1)

    async def picture(self, path: Path, whole: bool = True) -> None:
        told = await self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))


@contextlib.asynccontextmanager
async def browse(program: str, folder: Path) -> AsyncIterator[Page]:
    """A browser with one page, and `folder` for what it keeps. It is gone afterwards."""
    there_read, here_write = os.pipe()
    here_read, there_write = os.pipe()
    words = (
        "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
        "--hide-scrollbars", f"--user-data-dir={folder}",
    )  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", _BEGIN, str(there_read), str(there_write), program, *words,
        pass_fds=(there_read, there_write), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    os.close(there_read)
    os.close(there_write)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    incoming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(here_read, "rb"))
    outgoing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(here_write, "wb"))
    page = Page(reader, outgoing)
    listening = loop.create_task(page.listen())
    try:
        await page.open()
        yield page
    finally:
        listening.cancel()
        if not outgoing.is_closing():
            outgoing.abort()
        incoming.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
