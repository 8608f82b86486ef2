"""What a check of the machine, or of a running installation, found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `fix`: what to do, empty when there is nothing."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
