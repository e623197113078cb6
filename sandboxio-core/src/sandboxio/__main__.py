"""``python -m sandboxio``."""

import sys

from sandboxio.cli import main

sys.exit(main())
