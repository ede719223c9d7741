"""Checks of the constants that the functions of `geartrain.theory` are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from geartrain.oracles.validation import as_nonnegative, as_number, as_positive

Calls = dict[str, float]

# Setting -> the size that it needs.
SETTINGS = {"full": None, "coordinate": "n", "finite-sum": "m", "values": "n"}


def check(
    setting: str,
    *,
    L_h: float,
    L_g: float,
    mu: float,
    eps: float,
    R: float,
    delta: float,
    n: int | None = None,
    m: int | None = None,
) -> None:
    """Raise for a constant that no problem has, or a size that the setting lacks."""
    if setting not in SETTINGS:
        raise ValueError(f"unknown setting {setting!r}; choose one of {', '.join(SETTINGS)}")
    for name, value in (("L_h", L_h), ("L_g", L_g), ("eps", eps), ("R", R)):
        as_positive(value, name)
    as_nonnegative(mu, "mu")
    if mu > L_h + L_g:
        raise ValueError(f"mu = {mu:g} exceeds L_h + L_g = {L_h + L_g:g}: no function has that")
    if not 0.0 < as_number(delta, "delta") < 1.0:
        raise ValueError(f"delta must be between 0 and 1, got {delta:g}")
    for name, size in (("n", n), ("m", m)):
        if size is None:
            if SETTINGS[setting] == name:
                raise ValueError(f"setting {setting!r} needs {name}=")
        elif size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def by_name(L_h: Mapping[str, float] | Sequence[float]) -> dict[str, float]:
    """Constants of several terms by name: h1, h2, ... for a list, h for a list of one."""
    if not L_h:
        raise ValueError("L_h is empty: give one constant per term")
    if not isinstance(L_h, Mapping):
        L_h = {f"h{i + 1}" if len(L_h) > 1 else "h": L for i, L in enumerate(L_h)}
    if "g" in L_h:
        raise ValueError("L_h must not have the key 'g': the constant of g is L_g")
    return {name: as_positive(L, f"L_{name}") for name, L in L_h.items()}


def size_of(setting: str, n: int | None, m: int | None) -> int:
    """The dimension or the number of summands, whichever the setting needs; 1 if neither."""
    size = {"n": n, "m": m, None: 1}[SETTINGS[setting]]
    assert size is not None
    return size
