"""Processes that read and parse answers for `giveway reparse`, beside the one that talks to the servers."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process

from activities.reparse import Judge, Reading, judge, judge_in_thread
from store.facts import RunFact


@contextmanager
def judging(processes: int) -> Iterator[Judge]:
    """A judge that uses so many processes; one is this process's own thread."""
    if processes == 1:
        yield judge_in_thread
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_start) as executor:

        async def elsewhere(readings: Sequence[Reading]) -> list[RunFact]:
            return await asyncio.get_running_loop().run_in_executor(executor, judge, readings)

        yield elsewhere


def _start() -> None:
    """A terminal's Ctrl-C is the parent's to obey, and nobody is left behind when the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
