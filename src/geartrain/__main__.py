"""``python -m geartrain``: the console script."""

import sys

from geartrain.cli import main

if __name__ == "__main__":
    sys.exit(main())
