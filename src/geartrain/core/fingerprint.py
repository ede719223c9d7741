"""What tells one problem from another without asking an oracle."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.protocols import answers

# A larger array of a term is known by a part of its entries.
_HASHED_ENTRIES = 2**25


def fingerprint(h: Any, g: Any, n: int) -> dict[str, str]:
    """Of f = h + g in n variables."""
    return {"n": str(n), "h": of_term(h), "g": of_term(g)}


def differences(old: dict[str, str], new: dict[str, str]) -> str:
    """In which parts two fingerprints differ, in words; empty if they do not."""
    return "; ".join(
        f"{key} was {old.get(key)}, is {new[key]}" for key in new if old.get(key) != new[key]
    )


def of_term(term: Any) -> str:
    """Class, dimension, questions, and a hash of the data that geartrain's own terms hold.

    Of a user's functions and objects nothing more can be said.
    """
    digest = hashlib.sha256()
    _add(digest, term)
    kind, n = type(term).__name__, getattr(term, "n", None)
    return f"{kind}(n={n}; {', '.join(sorted(answers(term)))}; data {digest.hexdigest()[:16]})"


def _add(digest: Any, value: Any) -> None:
    digest.update(type(value).__name__.encode())
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        if value.dtype.kind in "biuf":
            stride = 1 + value.size // _HASHED_ENTRIES
            digest.update(np.ascontiguousarray(value.reshape(-1)[::stride]).tobytes())
    elif value is None or isinstance(value, (bool, int, float, str, np.generic)):
        digest.update(repr(value).encode())
    elif isinstance(value, (tuple, list)):
        for v in value:
            _add(digest, v)
    elif sparse.issparse(value):
        for v in (value.shape, value.data, value.indices, value.indptr):
            _add(digest, v)
    elif type(value).__module__.startswith("geartrain."):
        for name in sorted(vars(value)):
            # What is computed on demand may be there or not.
            if name.startswith("_") or isinstance(
                getattr(type(value), name, None), cached_property
            ):
                continue
            digest.update(name.encode())
            _add(digest, vars(value)[name])
