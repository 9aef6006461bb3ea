"""Become a command that dies with its parent: `guard.py PARENT_PID COMMAND…`.

`devstack.process.spawn` runs this file as a script in the child, so that nothing but an `exec`
happens after the fork of a threaded parent.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h; survives `exec`."""


def main() -> None:
    """Ask for SIGKILL at the parent's death, then replace this process by the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the call above: then nobody would ever send the signal.
    if os.getppid() != parent:
        sys.exit("The parent is gone.")
    # Python ignores these two for itself, and `exec` would pass that on.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execv(command[0], command)  # noqa: S606 (no shell is wanted here)


if __name__ == "__main__":
    main()
