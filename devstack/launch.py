"""Runs a server so that it ends with its supervisor: `launch.py PARENT SIGNAL UID GID -- program argument...`.

A program of its own, because doing this between fork and exec of a threaded process can deadlock, and
because the service account may not be able to reach our interpreter: root reads this file, then lets go.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Drop privileges, ask for the signal on the parent's death, become the program."""
    parent, signal, uid, gid = (int(value) for value in sys.argv[1:5])
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After setuid: a change of credentials clears the setting.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the supervisor ended before the program began")
    os.execvp(sys.argv[6], sys.argv[6:])


if __name__ == "__main__":
    main()
