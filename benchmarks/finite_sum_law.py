"""The separation law for finite sums: how often each term is asked when one constant grows.

python benchmarks/finite_sum_law.py [--quick]
"""

from geartrain_lab.laws.finite_sum import main

if __name__ == "__main__":
    main()
