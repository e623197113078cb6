"""The base of the value objects that callers construct."""

from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sandboxio.errors import ConfigurationError
from sandboxio.redaction import raise_from, shown_name


class Value(BaseModel):
    """A frozen value, compared by value; a wrong or unknown field raises `ConfigurationError`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise_from(configuration_error(type(self).__name__, error, type(self).model_fields), None)

    def replace(self, **changes: Any) -> "Any":
        """Return a copy with some fields changed, validated again."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**given, **changes})


def configuration_error(name: str, error: ValidationError, fields: Iterable[str]) -> ConfigurationError:
    """Say which field is wrong and why, never with the value: it may be a secret."""
    details = error.errors(include_input=False, include_url=False, include_context=False)
    first = details[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return ConfigurationError(
            f"{name} has no field {shown_name(field)}", hint=f"it has: {', '.join(fields) or 'none'}"
        )
    where = f"{name}({field}=…)" if field else name
    return ConfigurationError(f"{where}: {message}", hint=f"correct {field or name}")
