"""What `import resprout` gives, and what it does not cost."""

import subprocess
import sys

import pytest

import resprout
from tests.patience import PATIENCE_S


def test_every_public_name_is_there() -> None:
    for name in resprout.__all__:
        assert getattr(resprout, name) is not None
        assert name in dir(resprout)
    assert issubclass(resprout.PublishError, resprout.ClientError)
    assert issubclass(resprout.ClientError, resprout.ResproutError)


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'resprout' has no attribute 'conect'"):
        resprout.conect  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = """
import sys, resprout
heavy = {"msgspec", "asyncio", "pyarrow", "click", "rich", "resprout.client", "resprout.net", "pytest"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
import resprout.sync, resprout.client.local
assert not {"pyarrow", "click", "rich", "pytest"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)
