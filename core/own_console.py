"""How a process is started apart from the terminal of its parent, on every system.

POSIX has sessions for that (`start_new_session`, which Windows ignores). On Windows Ctrl+C reaches every
process of a console, and closing its window ends them: a process that is to go on gets a console of its own.
"""

from __future__ import annotations

import subprocess
import sys

if sys.platform == "win32":
    # A console without a window, and not none at all (DETACHED_PROCESS): the programs that the process starts
    # share it, and would otherwise each open a window.
    OWN_CONSOLE = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
else:
    OWN_CONSOLE = 0
