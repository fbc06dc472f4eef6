import sys
from pathlib import Path

from tests.docs import decisions, listed, messages, names, privates, prose, rooms, threats

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    found = [
        line
        for check in (rooms, messages, decisions, listed, names, prose, privates, threats)
        for line in check.complaints(root)
    ]
    for line in sorted(found):
        sys.stdout.write(f"{line}\n")
    sys.exit(1 if found else 0)
