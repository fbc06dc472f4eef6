"""A page with MQTT.js in headless Chromium: `examples/mqtt_page.html`. `make mqtt-browser` installs MQTT.js and runs
this test."""

import asyncio
import contextlib
import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from resprout.mqtt.packets import Properties
from resprout.net.address import Address
from tests.mqtt.peer import mqtt_peer
from tests.mqtt.stage import mqtt_broker
from tests.net.stage import run

PAGE = Path(__file__).parents[2] / "examples" / "mqtt_page.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
MQTTJS = Path(os.environ.get("MQTTJS", "node_modules")) / "mqtt" / "dist" / "mqtt.min.js"


@contextlib.contextmanager
def served(folder: Path) -> Iterator[int]:
    """Serve a folder on the loopback; yields the port."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Write nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.skipif(BROWSER is None, reason=f"no browser is installed: none of {', '.join(BROWSERS)} is in PATH")
@pytest.mark.skipif(not MQTTJS.exists(), reason=f"MQTT.js is not there: {MQTTJS} (MQTTJS=folder of node modules)")
def test_a_page_with_mqtt_js_is_a_client(tmp_path: Path) -> None:
    """It subscribes, shows messages, and answers a request with its correlation data, with QoS 2."""
    assert BROWSER is not None
    folder = tmp_path / "page"
    folder.mkdir()
    shutil.copy(PAGE, folder)
    shutil.copy(MQTTJS, folder)

    async def work(page_port: int) -> None:
        async with (
            mqtt_broker(settings={"ws": Address("127.0.0.1", 0)}) as broker,
            mqtt_peer(broker.address) as peer,
        ):
            await peer.connect("peer")
            await peer.subscribe("page/#", "answers")
            web = broker.server.addresses["ws"]
            url = f"http://127.0.0.1:{page_port}/{PAGE.name}?broker=ws://127.0.0.1:{web.port}"
            browser = await asyncio.create_subprocess_exec(
                str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}",
                "--remote-debugging-port=0", url,
                stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                ready = await peer.receive()
                assert ready.topic == "page/ready"
                await peer.publish("room/a", b"one", 1)
                values = Properties(response_topic="answers", correlation_data=b"\x00\x07")
                await peer.publish("room/a", b"two", 2, properties=values)
                answer = await peer.receive()
                assert (answer.payload, answer.qos) == (b"2: two", 2)
                assert answer.properties.correlation_data == b"\x00\x07"
            finally:
                browser.terminate()
                await browser.wait()

    with served(folder) as page_port:
        run(work(page_port))
