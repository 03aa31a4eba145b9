"""``python -m whichwhen``."""

import sys

from whichwhen.cli import main

sys.exit(main())
