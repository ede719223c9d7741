"""The separation law: how often each term is asked when one constant grows.

python benchmarks/separation_law.py [--out DIR] [--quick]
"""

from geartrain_lab.laws.separation import main

if __name__ == "__main__":
    main()
