"""`resprout request`: publishes a request and prints the reply. `resprout reply`: answers requests.

A reply is a fixed text, or the output of a command that gets the request on its standard input.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Coroutine
from typing import Any, Final

import click

from resprout.cli.arguments import Seconds
from resprout.cli.console import json_line, tell
from resprout.cli.loop import run_loop, stopped_by_signals, unless_stopped
from resprout.cli.server import Access, access_arguments, connected, count_option, verbose_option
from resprout.cli.standard_io import Output, as_json, as_payload
from resprout.client.requesting import REQUEST_SECONDS, ServedRequest
from resprout.core.errors import PayloadRefusedError, UsageError
from resprout.core.limits import check_payload, check_topic
from resprout.filters.predicate import check_filter

ERROR_LETTERS: Final = 500
"""As much of what a failed command wrote to standard error is sent to the client that asked."""


@click.command()
@click.argument("topic")
@click.argument("payload", default="")
@click.option("--timeout", type=Seconds(), metavar="SECONDS", default=REQUEST_SECONDS, show_default=True)
@click.option("--json", "json", is_flag=True, help="Print the whole reply as a JSON object.")
@access_arguments
def request(topic: str, payload: str, timeout: float, json: bool, access: Access) -> int:
    """Publish a request with PAYLOAD on TOPIC, and print the first reply.

    \b
        resprout request price/bread '2 loaves'
        resprout request price/bread --timeout 1 --json

    Exit status 1 when no client serves the topic, when no reply comes in time, or when the service reports a failure.
    """
    check_topic(topic)
    run_loop(_request(topic, check_payload(os.fsencode(payload)), timeout, json, access))
    return 0


async def _request(topic: str, payload: bytes, timeout_s: float, json: bool, access: Access) -> None:
    async with connected(access) as client:
        answer = await client.request(topic, payload, timeout=timeout_s)
    await Output(sys.stdout.fileno()).write([(as_json if json else as_payload)(answer)])


@click.command()
@click.argument("filter")
@click.argument("payload", required=False)
@click.option("--command", metavar="COMMAND", help="Reply with what this shell command prints; it reads the request.")
@count_option("End after N requests.")
@access_arguments
@verbose_option
def reply(
    filter: str, payload: str | None, command: str | None, count: int | None, access: Access, verbose: bool
) -> int:
    """Answer requests on topics that match FILTER with PAYLOAD, or with the output of a command, until Ctrl-C.

    \b
        resprout reply 'price/+' '4.20'
        resprout reply 'shout/#' --command 'tr a-z A-Z'

    Requests are answered one after the other. The command gets the payload on its standard input and the topic as
    RESPROUT_TOPIC. If it fails, the client that
    asked is told its exit status and the end of its standard error.
    """
    check_filter(filter)
    if (payload is None) == (command is None):
        raise UsageError("give PAYLOAD or --command COMMAND: one of them makes the reply")
    if command is not None and not command.strip():
        raise UsageError("--command is empty: give a shell command")
    fixed = check_payload(os.fsencode(payload)) if payload is not None else None
    work = _reply(filter, fixed, command, count, access, verbose)
    run_loop(_until_stopped(work))
    return 0


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    await unless_stopped(work, stopped_by_signals())


async def _reply(
    filter: str, fixed: bytes | None, command: str | None, count: int | None, access: Access, verbose: bool
) -> None:
    async with connected(access) as client:
        service = await client.serve(filter).ready()
        if verbose or sys.stderr.isatty():
            tell(f"serving {filter}", err=True)
        served = 0
        async for asked in service:
            if asked.wants_reply:
                await (_run(asked, command) if command is not None else asked.reply(fixed or b""))
                served += 1
            if verbose:
                tell(json_line({"topic": asked.topic, "client": asked.message.publisher}), err=True)
            if served == count:
                return


async def _run(asked: "ServedRequest[object]", command: str) -> None:
    """In a thread: a command may end without reading the request, which `subprocess.run` allows."""
    environment = {**os.environ, "RESPROUT_TOPIC": asked.topic}

    def run() -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            command, shell=True, input=asked.payload, capture_output=True, env=environment, check=False
        )

    done = await asyncio.to_thread(run)
    if done.returncode == 0:
        try:
            await asked.reply(done.stdout)
        except PayloadRefusedError as error:
            await asked.fail(f"the output of the command is no reply: {error}")
        return
    said = done.stderr.decode(errors="replace").strip()[-ERROR_LETTERS:]
    await asked.fail(f"the command ended with status {done.returncode}" + (f": {said}" if said else ""))
