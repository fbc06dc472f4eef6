"""The options of every command that works on Spark, as one decorator."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from resprout.pipeline.session import SparkChoice, read_options


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the command a parameter `spark`: a `SparkChoice` of what the user said with --master and --conf."""

    @click.option("--master", metavar="URL", help="Where Spark runs, e.g. spark://host:7077. Default: on this machine.")
    @click.option(
        "--conf", "options", multiple=True, metavar="spark.NAME=VALUE", help="An option of Spark; repeatable."
    )
    @wraps(function)
    def command(*args: Any, master: str | None, options: tuple[str, ...], **others: Any) -> Any:
        return function(*args, spark=SparkChoice(master, read_options(options)), **others)

    return command
