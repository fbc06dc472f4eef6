"""Arguments of commands as users write them: paths, addresses, attributes and the options of Spark.

A path is one of this machine; commands on runs also take addresses in object stores. An empty path is refused: a script
passes it when one of its variables is not set, and it would mean the current folder. An address such as
`hdfs://host/runs` is refused where only folders are taken, because it would make a folder of that name. Attributes are
written `amount=120`, `urgent=true`, `city=Porto`, `code='007'`.
"""

import math
import re
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import click

from resprout.core.errors import UsageError
from resprout.core.limits import AttributeValue, check_attributes
from resprout.net.address import Address, parse_address

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,1024}")
_FRACTION: Final = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.?[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS: Final[dict[str, bool]] = {"true": True, "false": False}


class LocalPath(click.ParamType):  # type: ignore[type-arg]
    """A `Path` as it was written, relative or not; `file:///folder` is `/folder`."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if isinstance(value, Path):
            return value
        try:
            return local_path(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Seconds(click.FloatRange):
    """A duration: a finite number of seconds, at least 0."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a finite number of seconds", param, ctx)
        return seconds


class RunsPath(LocalPath):
    """Where runs lie: a `Path`, or a `StorePath` for an address such as `s3://bucket/runs`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and (found := _ADDRESS.match(value)) is not None:
            from resprout.pipeline.stores import SCHEMES, location  # here: it needs what only runs need

            if found[0][:-3].lower() in SCHEMES:
                if not value[found.end() :].strip("/"):
                    self.fail(f"{value!r} names no bucket: one is {found[0]}BUCKET/FOLDER", param, ctx)
                return location(value)
        return super().convert(value, param, ctx)


def local_path(text: str) -> Path:
    """UsageError when it is none."""
    if not text.strip():
        raise UsageError(f"{text!r} names no file or folder; write . for the folder you are in")
    if _ADDRESS.match(text) is None:
        return Path(text)
    address = urlsplit(text)
    if address.scheme.lower() != "file" or address.netloc not in ("", "localhost") or not address.path.strip("/"):
        raise UsageError(f"{text!r} is no path of this machine; mount it, or copy what it holds, and give a folder")
    return Path(unquote(address.path))


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command a parameter `spark`: a `SparkChoice` of what the user said with --master and --conf."""

    @click.option("--master", metavar="URL", help="Where Spark runs, e.g. spark://host:7077. Default: on this machine.")
    @click.option(
        "--conf", "options", multiple=True, metavar="spark.NAME=VALUE", help="An option of Spark; repeatable."
    )
    @wraps(function)
    def command(*args: Any, master: str | None, options: tuple[str, ...], **others: Any) -> Any:
        from resprout.pipeline.session import SparkChoice, read_options  # here: only these commands need it

        return function(*args, spark=SparkChoice(master, read_options(options)), **others)

    return command


def address_of_peer(text: str) -> Address:
    """An address to connect to."""
    address = parse_address(text)
    if not address.port:
        raise UsageError(f"address {text!r}: port 0 means any; whom to connect to needs a number")
    return address


def parse_attributes(texts: Iterable[str]) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"attribute {text!r}: write it as name=value")
        if name in attributes:
            raise UsageError(f"attribute {name!r} is given twice")
        attributes[name] = parse_value(value)
    return check_attributes(attributes)


def parse_value(text: str) -> AttributeValue:
    """A number, true or false where it looks like one; text otherwise, and always when quoted."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return float(text)
    return text
