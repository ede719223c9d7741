"""The separation law with an l1 norm and with a box.

python benchmarks/composite_law.py [--out DIR] [--quick]
"""

from geartrain_lab.laws.composite import main

if __name__ == "__main__":
    main()
