"""Terms: what h and g are made of, and how they are asked."""

from geartrain.oracles.callables import Term
from geartrain.oracles.checks import TermReport, check_term
from geartrain.oracles.ledger import Ledger, NonFiniteAnswer, Oracle
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.log_sum_exp import LogSumExp
from geartrain.oracles.protocols import MissingOracle, answers, can, require
from geartrain.oracles.quadratic import Quadratic

__all__ = [
    "Ledger",
    "LinearModel",
    "LogSumExp",
    "MissingOracle",
    "NonFiniteAnswer",
    "Oracle",
    "Quadratic",
    "Term",
    "TermReport",
    "answers",
    "can",
    "check_term",
    "require",
]
