"""The threat model names a test for each row, and that test exists."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PAGE: Final = "docs/security.md"
_NAMED: Final = re.compile(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`")


def complaints(root: Path) -> Iterator[str]:
    text = (root / PAGE).read_text()
    model = text[text.index("## Threat model") : text.index("**What is left.**")]
    for line in model.splitlines():
        is_row = line.startswith("| ") and not line.startswith(("| who |", "| party |"))
        if is_row and line.count("|") == 5 and not _NAMED.search(line):
            yield f"{PAGE}: no test is named for {line[:80]}"
        for file, test in _NAMED.findall(line):
            if not (root / file).exists():
                yield f"{PAGE}: there is no {file}"
            elif test and f"def {test}(" not in (root / file).read_text():
                yield f"{PAGE}: {file} has no {test}"
