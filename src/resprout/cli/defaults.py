"""The configuration file of commands that talk to a broker: where it is, and who asks.

    server = "b0.example.org:7450,b1.example.org:7450"
    tls = "/home/ann/.config/resprout/certificates"
    login = "/home/ann/.config/resprout/ann.login"
    name = "ann"

The file is `$RESPROUT_CONFIG`, or `resprout/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`. Environment variables
and the command line override it. Relative paths are relative to the file.
"""

import os
import tomllib
from pathlib import Path
from typing import Final

from resprout.core.errors import UsageError

KEYS: Final = ("server", "tls", "login", "name")
_PATHS: Final = ("tls", "login")


def config_path() -> Path | None:
    """Return the file to read, or None when there is none. UsageError when the file that was named is missing."""
    named = os.environ.get("RESPROUT_CONFIG")
    if named:
        if not Path(named).is_file():
            raise UsageError(f"RESPROUT_CONFIG={named}: there is no such file")
        return Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    path = Path(folder) / "resprout" / "config.toml"
    return path if path.is_file() else None


def read_defaults(path: Path) -> dict[str, str]:
    """Return the values of the file. UsageError, which names the file and the key, for a wrong one."""
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    for key, value in values.items():
        if key not in KEYS:
            raise UsageError(f"{path}: unknown key {key!r}; there are {', '.join(KEYS)}")
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{path}: {key} = {value!r} must be a text that is not empty")
    return {key: str(path.parent / value) if key in _PATHS else value for key, value in values.items()}
