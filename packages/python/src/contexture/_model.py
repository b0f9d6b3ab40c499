"""The base class of the generated models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """An object of the API.

    Fields that a newer server adds are kept, so that a client of an older version can read its
    answers.
    """

    model_config = ConfigDict(extra="allow", populate_by_name=True, protected_namespaces=())


def to_json(value: Any) -> Any:
    """Returns a value as plain JSON data: models become dictionaries without unset fields."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return {str(key): to_json(value[key]) for key in value.keys()}  # noqa: SIM118
    return value
