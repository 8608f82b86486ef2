"""The one way out of a process that used temporalio.

The SDK's native threads now and then abort the interpreter while it finalises (sdk-python #300), which would turn a
success into a failure: so flush everything and leave without finalising, keeping the exit code.
"""

import logging
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End the process with this exit code, everything written."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    os._exit(code)
