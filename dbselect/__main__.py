"""``python -m dbselect`` is ``dbselect``."""

import sys

from dbselect.doors.cli import main

if __name__ == "__main__":
    sys.exit(main())
