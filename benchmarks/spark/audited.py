"""`python -m benchmarks.spark.audited ENGINE RUN_FOLDER`: what `resprout audit` finds, and what it took, as JSON."""

import contextlib
import io
import json
import os
import sys

import click

from benchmarks.spark.processes import processor_seconds
from resprout.cli.audit import audit


def main(engine: str, folder: str) -> int:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(click.exceptions.Exit):
        audit.main([folder, "--engine", engine, "--json"], standalone_mode=False)
    checks = json.loads(said.getvalue())["checks"]
    anomalies = sum(check["anomalies"] for check in checks)
    print(json.dumps({"anomalies": anomalies, "processor": processor_seconds(os.getpid())}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
