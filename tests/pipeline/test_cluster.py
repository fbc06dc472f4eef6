"""Every command of docs/pipeline.md against a standalone master and worker, from a folder that is none of theirs.

The files that the document names are small ones here. One session serves all commands, as it would take minutes to
start one for each; it is started as every command starts its own.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest

from resprout.pipeline.places import find_runs
from resprout.scenario.load import parse_scenario
from resprout.scenario.write import run_info
from resprout.sim.run import run_scenario
from resprout.trace.store import LiveFolder, write_trace
from tests.pipeline.cluster import cluster, environment
from tests.pipeline.java import SHORT_LIVED
from tests.pipeline.small import SCENARIO, SWEEP

pytestmark = pytest.mark.timeout(900)

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "pipeline.md"
WITHOUT_SPARK: Final = ("run",)
USAGE_ONLY: Final = ("resprout conclude out/bank --archive out/kept --out bank.html",)
"""Commands of which the document shows the usage, and no example."""

SESSION: Final = f"""
import json, sys
from resprout.cli.main import run
from resprout.pipeline.session import SparkChoice, read_options, start
master, commands = sys.argv[1], json.loads(sys.argv[2])
java = "{SHORT_LIVED}"
options = ["spark.executor.memory=512m", "spark.driver.memory=512m"]
options += ["spark.executor.extraJavaOptions=" + java, "spark.driver.extraJavaOptions=" + java]
start(SparkChoice(master, read_options(options)))
for words in commands:
    print(json.dumps([words, run([*words, "--master", master])]), file=sys.stderr, flush=True)
"""


class Done(msgspec.Struct, frozen=True):
    folder: Path
    out: str
    err: str
    statuses: dict[str, int]


def commands() -> list[list[str]]:
    """As the document has them, and as a reader would type them."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.partition("#")[0].strip() for kind, block in blocks if not kind for line in block.splitlines()]
    examples = [line for line in lines if line.startswith("resprout ") and not re.search(r"\b[A-Z]{3,}\b|\[", line)]
    found = [shlex.split(line)[1:] for line in dict.fromkeys((*examples, *USAGE_ONLY))]
    return [words for words in found if words[0] not in WITHOUT_SPARK]


def prepare(folder: Path) -> None:
    """Files in the folder count before those of the same name that come with the packages."""
    folder.mkdir(parents=True)
    (folder / "tree.toml").write_text(SCENARIO)
    for name in ("seed000-5.4", "stacks"):
        (folder / name).write_text(SWEEP)
    scenario = parse_scenario(SCENARIO)
    result = run_scenario(scenario)
    write_trace(folder / "out" / "bank", result.rows, run_info(scenario, result.ended))
    LiveFolder(folder / "out" / "bank-live").write(result.rows)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("cluster") / "here"
    prepare(folder)
    with cluster(folder.parent / "there") as master:
        said = subprocess.run(
            [sys.executable, "-c", SESSION, master, json.dumps(commands())],
            cwd=folder, env=environment(), capture_output=True, text=True, timeout=800, check=False,
        )  # fmt: skip
    results = [json.loads(line) for line in said.stderr.splitlines() if line.startswith("[[")]
    return Done(folder, said.stdout, said.stderr, {words[0]: status for words, status in results})


def test_every_command_of_the_document_that_uses_spark_is_tried() -> None:
    options = DOCUMENT.read_text()
    documented = set(re.findall(r"resprout (\w+) [^`\n]*\n?[^`\n]*\[--master URL\]", options))
    assert documented == {words[0] for words in commands()}


def test_relative_paths_mean_the_same_to_the_tasks_of_a_cluster(done: Done) -> None:
    assert done.statuses == {words[0]: 0 for words in commands()}, done.err + done.out
    assert [line for line in done.err.splitlines() if not line.startswith("[[")] == []


def test_what_the_commands_made_on_a_cluster_lies_where_they_were_given(done: Done) -> None:
    names = [place.name for place in find_runs([done.folder / "out" / "figures"])]
    assert names == ["a small tree/bank", *(f"small/ops={ops},seed={seed}" for ops in (3, 6) for seed in (1, 2))]
    assert "5 runs, " in done.out and "no violation" in done.out
    assert "clean, as far as it was watched" in done.out
    pages = ["bank.html", "figures.html", "stacks.html"]
    assert all((done.folder / page).read_text().startswith("<!doctype html>") for page in pages)
    assert sorted(path.name for path in done.folder.iterdir()) == [
        "bank.html",
        "figures.html",
        "out",
        "seed000-5.4",
        "stacks",
        "stacks.html",
        "tree.toml",
    ]
