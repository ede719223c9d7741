"""Speed of the compiled kernels, as ``geartrain bench kernels`` prints it.

python benchmarks/kernels.py [--json FILE] [--quick]
"""

import sys

from geartrain.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "kernels", *sys.argv[1:]]))
