r"""The theory of the paper as code: one function per theorem, lemma, corollary or table.

`calls` and `compare` give orders: O(.) hides a constant, which is 1 here unless the statement
prints another one, so the numbers scale as the theorems say and compare methods with each other.
`bound` gives numbers with every constant of the proofs, which a run of the library does not exceed:
those of randomised methods with probability 1 - delta, and those of AFB and SC-SAE for g where
inner runs start no further away than is assumed there.
How far both are from what is measured is in the documentation.

==========  ===========  =====================================================
symbol      name         meaning
==========  ===========  =====================================================
L_h, L_g    same         smoothness of h and g; in the coordinate setting L_g is
                         L_g-bar = (mean_i sqrt(beta_i))^2, in the finite-sum
                         setting L_g-hat = max_k L_{g_k}
L           same         parameter of the envelope F_{L,x} of SAE
L_f         same         smoothness of f, at most L_h + L_g
mu          same         strong convexity of f, 0 in the convex case
R           same         upper bound of \|x^0 - x*\|
eps         same         accuracy in f
delta       same         probability of failure
n, m        same         dimension, number of summands of g
kappa_g     same         basic calls that make one gradient of g: 1, n or m
tau_g       same         of Assumption 4: the inner method makes
                         C_0 tau_g/sqrt(alpha) ln(C \|v^0 - v*\|^2/accuracy) calls
C, C_0      same         constants of Assumption 4
C_1         same         constant of equation (6)
==========  ===========  =====================================================
"""

from geartrain.theory.arguments import Constants
from geartrain.theory.bounds import (
    bound,
    conditional_gradient_sliding,
    frank_wolfe,
    gradient_sliding,
)
from geartrain.theory.gears import level_bill, level_calls, order
from geartrain.theory.orders import (
    calls,
    corollary_1,
    corollary_1_many,
    corollary_2,
    corollary_3,
    lower_bounds,
    theorem_1,
)
from geartrain.theory.proof import (
    C_1,
    assumption_4,
    inner_accuracy,
    inner_calls,
    lemma_1,
    lemma_2,
    lemma_3,
    theorem_2,
)
from geartrain.theory.rivals import MEASURED, compare, table_1, table_2

__all__ = [
    "C_1",
    "MEASURED",
    "Constants",
    "assumption_4",
    "bound",
    "calls",
    "compare",
    "conditional_gradient_sliding",
    "corollary_1",
    "corollary_1_many",
    "corollary_2",
    "corollary_3",
    "frank_wolfe",
    "gradient_sliding",
    "inner_accuracy",
    "inner_calls",
    "lemma_1",
    "lemma_2",
    "lemma_3",
    "level_bill",
    "level_calls",
    "lower_bounds",
    "order",
    "table_1",
    "table_2",
    "theorem_1",
    "theorem_2",
]
