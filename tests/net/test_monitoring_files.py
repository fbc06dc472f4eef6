"""The alert rules and the dashboard in `deploy/monitoring` name metrics and codes that a broker really has."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from resprout.net.http.metrics import REFUSAL_CODES, refusal_code
from tests.net.pages import get, served
from tests.net.stage import bare, broker, run

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
SOMETIMES = {"resprout_disk_state", "resprout_events_not_kept_total"}
"""Only of a broker with a data folder."""


def named() -> set[str]:
    expressions = re.findall(r"expr: (.*)", (FOLDER / "alerts.yaml").read_text())
    panels = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    expressions += [target["expr"] for panel in panels for target in panel["targets"]]
    return {name for expression in expressions for name in re.findall(r"resprout_\w+", expression)}


def test_every_metric_of_the_files_is_one_of_a_broker() -> None:
    async def scene() -> None:
        async with broker() as running, served(running) as at, bare(running.address) as stranger:
            stranger.writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)  # there is a refusal to count
            await stranger.ended()
            told = set(re.findall(r"^(resprout_\w+)", (await get(at, "/metrics")).text, re.MULTILINE))
            assert named() - SOMETIMES <= told

    run(scene())


def test_reasons_of_refusals_become_codes() -> None:
    assert refusal_code("3 connections from one address is the limit") == "address_connections"
    assert refusal_code("it said what is no frame") == "malformed"
    assert refusal_code("its certificate has expired") == "certificate"
    assert refusal_code("something new") == "other"
    documented = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    assert all(f"`{code}`" in documented for _, code in REFUSAL_CODES)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool here: install prometheus")
@pytest.mark.parametrize("words", [("rules", "alerts.yaml"), ("config", "prometheus.yaml")])
def test_prometheus_accepts_the_files(words: tuple[str, str]) -> None:
    done = subprocess.run(["promtool", "check", *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
