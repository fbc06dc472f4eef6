import sys
from pathlib import Path

from tests.docs import api, bounds, decisions, listed, messages, privates, prose, threats

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    checks = (api, messages, bounds, decisions, listed, prose, privates, threats)
    found = [line for check in checks for line in check.complaints(root)]
    for line in sorted(found):
        sys.stdout.write(f"{line}\n")
    sys.exit(1 if found else 0)
