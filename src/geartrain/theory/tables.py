"""Tables 1 and 2 of the paper: arithmetic operations in its two experiments."""

from __future__ import annotations

import math


# Paper: Table 1
def table_1(
    *, m: int, n: int, s: float, lambda_max: float, eps: float, R: float = 1.0
) -> dict[str, float]:
    r"""Table 1: arithmetic operations for the kernel SVM of Section 5.1.

    FGM (R/eps) sqrt(s) (m s + n^2); AGS (R/eps) sqrt(s) m s + sqrt(lambda_max R^2/eps) n^2;
    SAE (R/eps) sqrt(s m) s + sqrt(lambda_max R^2/eps) n^2. s is the number of nonzeros in a row
    of A, lambda_max the largest eigenvalue of C = lambda K.
    """
    kernel = math.sqrt(lambda_max * R**2 / eps) * n**2
    return {
        "FGM": R / eps * math.sqrt(s) * (m * s + n**2),
        "AGS": R / eps * math.sqrt(s) * m * s + kernel,
        "SAE": R / eps * math.sqrt(s * m) * s + kernel,
    }


# Paper: Table 2
def table_2(*, n: int, p: int, s: float, eps: float, R: float = 1.0) -> dict[str, float]:
    r"""Table 2: arithmetic operations for the log-density problem of Section 5.2.

    FGM sqrt(n R^2/eps)(p s + n^2); FCD n sqrt(R^2/eps)(p + n); SAE sqrt(n R^2/eps) p s +
    n sqrt(R^2/eps) n. p is the number of rows of A, s the number of nonzeros in one of them.
    """
    root = math.sqrt(R**2 / eps)
    return {
        "FGM": math.sqrt(n) * root * (p * s + n**2),
        "FCD": n * root * (p + n),
        "SAE": math.sqrt(n) * root * p * s + n * root * n,
    }
