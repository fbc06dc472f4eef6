"""`resprout kv`: reads, writes and watches the keys of a bucket."""

import os
import sys
from collections.abc import Awaitable, Callable

import click
import msgspec

from resprout.cli.arguments import Seconds
from resprout.cli.console import json_line, tell, tell_lines
from resprout.cli.loop import Output, run_loop, stopped_by_signals, unless_stopped
from resprout.cli.server import Access, access_arguments, connected, count_option
from resprout.client.errors import KvError
from resprout.client.kv import Bucket, KvEntry
from resprout.core.limits import check_name

ttl_option = click.option("--ttl", type=Seconds(), metavar="SECONDS", help="The value expires after so long.")
json_option = click.option("--json", "json", is_flag=True, help="Print entries as JSON, one object a line.")


@click.group()
def kv() -> None:
    """Read, write and watch the keys of a BUCKET.

    \b
        resprout kv put config limits/upload 10
        resprout kv get config limits/upload
        resprout kv update config limits/upload 20 --revision 7
        resprout kv watch config

    Writes of a key have one order at all brokers. A write prints the new revision, and fails with status 1 if the key
    has another revision than it expects. Reads are answered by the broker that this command connects to.
    """


def _run(bucket: str, access: Access, work: Callable[[Bucket], Awaitable[None]]) -> int:
    check_name(bucket, "name of a bucket")

    async def talk() -> None:
        async with connected(access) as client:
            await work(client.kv(bucket))

    async def run() -> None:
        await unless_stopped(talk(), stopped_by_signals())

    run_loop(run())
    return 0


def _written(write: Callable[[Bucket], Awaitable[int]]) -> Callable[[Bucket], Awaitable[None]]:
    async def work(bucket: Bucket) -> None:
        tell(str(await write(bucket)))

    return work


@kv.command()
@click.argument("bucket")
@click.argument("key")
@click.argument("value")
@ttl_option
@access_arguments
def put(bucket: str, key: str, value: str, ttl: float | None, access: Access) -> int:
    """Write KEY, whatever its revision is."""
    return _run(bucket, access, _written(lambda keys: keys.put(key, os.fsencode(value), ttl=ttl)))


@kv.command()
@click.argument("bucket")
@click.argument("key")
@click.argument("value")
@ttl_option
@access_arguments
def create(bucket: str, key: str, value: str, ttl: float | None, access: Access) -> int:
    """Write KEY if it does not exist."""
    return _run(bucket, access, _written(lambda keys: keys.create(key, os.fsencode(value), ttl=ttl)))


@kv.command()
@click.argument("bucket")
@click.argument("key")
@click.argument("value")
@click.option("--revision", type=int, required=True, metavar="N", help="The revision that KEY must have.")
@ttl_option
@access_arguments
def update(bucket: str, key: str, value: str, revision: int, ttl: float | None, access: Access) -> int:
    """Write KEY if it has this revision."""
    return _run(bucket, access, _written(lambda keys: keys.update(key, os.fsencode(value), revision, ttl=ttl)))


@kv.command()
@click.argument("bucket")
@click.argument("key")
@click.option("--revision", type=int, metavar="N", help="Only if KEY has this revision.")
@access_arguments
def delete(bucket: str, key: str, revision: int | None, access: Access) -> int:
    """Delete KEY."""
    return _run(bucket, access, lambda keys: keys.delete(key, revision))


@kv.command()
@click.argument("bucket")
@click.argument("key")
@json_option
@access_arguments
def get(bucket: str, key: str, json: bool, access: Access) -> int:
    """Print the value of KEY. Exit status 1 if it does not exist."""

    async def work(keys: Bucket) -> None:
        entry = await keys.get(key)
        if entry is None:
            raise KvError(f"key {key!r} of bucket {bucket} does not exist")
        await Output(sys.stdout.fileno()).write([_entry_json(entry) if json else (entry.value or b"")])

    return _run(bucket, access, work)


@kv.command(name="keys")
@click.argument("bucket")
@click.argument("prefix", default="")
@access_arguments
def list_keys(bucket: str, prefix: str, access: Access) -> int:
    """Print the keys of BUCKET: all, or PREFIX and the keys in the levels below it."""

    async def work(keys: Bucket) -> None:
        tell_lines(await keys.keys(prefix))

    return _run(bucket, access, work)


@kv.command()
@click.argument("bucket")
@click.argument("prefix", default="")
@count_option("End after N entries.")
@json_option
@access_arguments
def watch(bucket: str, prefix: str, count: int | None, json: bool, access: Access) -> int:
    """Print the entries of BUCKET, and then every change, until Ctrl-C."""

    async def work(keys: Bucket) -> None:
        output = Output(sys.stdout.fileno())
        left = count
        async for entry in await keys.watch(prefix):
            await output.write([_entry_json(entry) if json else _line(entry)])
            left = None if left is None else left - 1
            if left == 0:
                return

    return _run(bucket, access, work)


def _line(entry: KvEntry) -> str:
    value = "(deleted)" if entry.value is None else entry.value.decode(errors="replace")
    return f"{entry.revision} {entry.key} {value}"


def _entry_json(entry: KvEntry) -> str:
    fields = msgspec.structs.asdict(entry)
    value = entry.value
    fields["value"] = value.decode(errors="replace") if value is not None else None
    return json_line(fields)
