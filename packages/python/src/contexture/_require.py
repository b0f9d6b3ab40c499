"""Checks that a framework is installed, and new enough."""

from __future__ import annotations

from importlib import metadata

from .errors import FrameworkVersionError


def require(distribution: str, minimum: tuple[int, ...], extra: str) -> None:
    """Raises an error that names the needed version, unless it is installed."""
    wanted = ".".join(str(part) for part in minimum)
    install = f"run `pip install 'contexture-ai[{extra}]'`"
    try:
        installed = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise FrameworkVersionError(
            f"this adapter needs {distribution} {wanted} or newer, which is not installed: "
            f"{install}"
        ) from None
    if _numbers(installed) < minimum:
        raise FrameworkVersionError(
            f"this adapter needs {distribution} {wanted} or newer, and {installed} is installed: "
            f"{install}"
        )


def _numbers(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.split("."):
        digits = "".join(character for character in part if character.isdigit())
        if not digits or not part[0].isdigit():
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
