"""Which tenants a coordinator owns when several work side by side (1-dispatch §1.4)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shard:
    """The owner of the tenants with `tenant_id % of == index`. One that is not below `of` owns nobody."""

    index: int = 0
    of: int = 1

    @property
    def alone(self) -> bool:
        """Whether it owns everybody."""
        return self.of == 1
