"""The law of the gears: how often each of many terms is asked when the constant of one grows.

python benchmarks/gear_law.py [--out DIR] [--quick]
"""

from geartrain_lab.laws.gears import main

if __name__ == "__main__":
    main()
