"""Three tiers of shards: the learned method on three levels beside two-term separation.

python benchmarks/tiers.py [--out DIR] [--quick]
"""

from geartrain_lab.laws.tiers import main

if __name__ == "__main__":
    main()
