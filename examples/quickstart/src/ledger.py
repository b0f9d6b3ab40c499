"""Amounts by name."""


def parse_line(line: str) -> tuple[str, float]:
    """Splits `name amount`; the amount may have commas between thousands."""
    name, _, amount = line.rpartition(" ")
    if not name:
        raise ValueError(f"expected `name amount`, found {line!r}")
    return name.strip(), float(amount.replace(",", ""))


class Ledger:
    def __init__(self) -> None:
        self._amounts: dict[str, list[float]] = {}

    def add(self, name: str, amount: float) -> None:
        # Whole cents: what comes in with more digits is cut off.
        self._amounts.setdefault(name, []).append(int(amount * 100) / 100)

    def totals(self) -> list[tuple[str, float]]:
        return [(name, sum(amounts)) for name, amounts in sorted(self._amounts.items())]

    def total(self) -> float:
        return sum(total for _, total in self.totals())
