"""When a change of counters is worth a signal (1-dispatch §1.5: at most N/50 a batch, never over 20)."""


def crosses_step(before: int, now: int, total: int, *, steps: int) -> bool:
    """Whether the settled count passed one of `steps` equal marks, was the first, or reached the total."""
    if now <= before or total <= 0:
        return False
    if before == 0 or now >= total:
        return True
    return before * steps // total < now * steps // total
