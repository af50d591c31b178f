"""`python -m overlane_collect`."""

from __future__ import annotations

import sys

from overlane_collect.cli import main

if __name__ == "__main__":
    sys.exit(main())
