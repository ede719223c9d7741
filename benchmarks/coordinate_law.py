"""The coordinate law and the values-only law: measured against stated exponents.

python benchmarks/coordinate_law.py [--out DIR] [--quick]
"""

from geartrain_lab.laws.coordinate import main

if __name__ == "__main__":
    main()
