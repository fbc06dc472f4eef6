"""`resprout audit`: judges a trace."""

import json
from pathlib import Path

import click

from resprout.audit.judge import judge
from resprout.audit.report import as_dict, lines
from resprout.core.errors import UsageError
from resprout.trace.store import read_trace


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--engine", default="python", metavar="NAME", help="What does the judging: python.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object.")
def audit(folder: Path, engine: str, as_json: bool) -> int:
    """Judge the trace in FOLDER: every promise checked, every violation explained. Exit status 1 when there is one."""
    if engine != "python":
        raise UsageError(f"engine {engine!r} is not there; this version judges with 'python'")
    verdict = judge(read_trace(folder))
    if as_json:
        click.echo(json.dumps(as_dict(verdict)))
    else:
        for line in lines(verdict):
            click.echo(line)
    return 1 if verdict.violated else 0
