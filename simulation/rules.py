"""Settings and fuses of a run, from `key=value` words: checked by the very rules that check the real ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from domain.dispatch_settings import DispatchSettings, check_fuse, check_setting, from_rows, fuses_from_rows
from domain.errors import InvalidInput


def read_rules(settings: Sequence[str], fuses: Sequence[str]) -> DispatchSettings:
    """The settings over their defaults; InvalidInput names the word that is not acceptable, a setting over its fuse."""
    ceilings = {key: check_fuse(key, value) for key, value in _pairs(fuses).items()}
    raised = fuses_from_rows(ceilings)
    values = {key: check_setting(key, value, raised) for key, value in _pairs(settings).items()}
    return from_rows(values, raised)


def _pairs(words: Sequence[str]) -> Mapping[str, Any]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise InvalidInput(f"{word!r} is no key=value")
        pairs[key] = _value(value)
    return pairs


def _value(text: str) -> Any:
    """Numbers, lists and booleans as JSON has them; anything else is the word itself."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
