"""Entry point of ``python -m dbselect``: the command ``dbselect``."""

import sys

from dbselect.doors.cli import main

if __name__ == "__main__":
    sys.exit(main())
