"""Sums the figures of a text file, one `name amount` pair a line."""

import sys
from pathlib import Path

from ledger import Ledger, parse_line


def read(path: Path) -> Ledger:
    ledger = Ledger()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            name, amount = parse_line(line)
        except ValueError as error:
            raise SystemExit(f"{path}:{number}: {error}")
        ledger.add(name, amount)
    return ledger


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: tally FILE")
    ledger = read(Path(sys.argv[1]))
    for name, total in ledger.totals():
        print(f"{name:<20} {total:>12.2f}")
    print(f"{'total':<20} {ledger.total():>12.2f}")


if __name__ == "__main__":
    main()
