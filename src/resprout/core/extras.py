"""Packages that only some commands need, and the extra that installs each.

    with needed_for("a trace on disk"):
        from resprout.trace import columns

The base package is what a client and a broker need. An import that fails for a package that an extra installs becomes a
`UsageError` that names the extra.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from resprout.core.errors import UsageError

EXTRAS: Final = {
    "altair": "report",
    "cryptography": "secure",
    "jinja2": "report",
    "numpy": "report",
    "opentelemetry": "otel",
    "pandas": "report",
    "prometheus_client": "metrics",
    "py4j": "spark",
    "pyarrow": "trace",
    "pyspark": "spark",
    "vl_convert": "report",
}
"""By top-level package."""


@contextmanager
def needed_for(purpose: str) -> Iterator[None]:
    """Turn a failed import of an optional package into a UsageError that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise UsageError(f"{purpose} needs {package}: pip install 'resprout[{EXTRAS[package]}]'") from None
