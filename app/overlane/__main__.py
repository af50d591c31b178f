"""`python -m overlane` is the command `overlane`."""

from __future__ import annotations

import sys

from overlane.cli import main

if __name__ == "__main__":
    sys.exit(main())
