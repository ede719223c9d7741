"""The law of equilibria: calls of P and of Q when L_P, L_Q or 1/mu grows.

python benchmarks/equilibria_law.py [--out DIR] [--quick]
"""

from geartrain_lab.laws.equilibria import main

if __name__ == "__main__":
    main()
