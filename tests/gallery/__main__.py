"""`python -m tests.gallery --out build/gallery`: render every widget to pictures."""

from __future__ import annotations

import sys

from tests.gallery.render import main

if __name__ == "__main__":
    sys.exit(main())
