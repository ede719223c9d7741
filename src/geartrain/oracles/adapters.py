"""Terms from other libraries.

PyTorch and JAX give values and gradients by automatic differentiation, pyproximal gives proximal
operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geartrain.oracles.callables import Term
from geartrain.oracles.protocols import Vector

# A projection may be out of its set by this much, relatively: some are found by an iteration.
_OUTSIDE = 1e-6


def from_torch(
    fn: Callable[[Any], Any], *, device: Any = None, dtype: Any = None, **constants: Any
) -> Term:
    """A term from a function of a PyTorch tensor.

    A call moves x to the device once, and moves value and gradient back once, together.

    Parameters
    ----------
    fn : callable
        Differentiable function from a tensor of shape (n,) to a tensor with one number.
    device : optional
        Device on which `fn` is evaluated, e.g. ``"cuda"``; PyTorch's default if not given.
    dtype : optional
        Type of the argument of `fn`, e.g. ``torch.float32``. If not given, ``torch.float64`` is
        tried first, and ``torch.float32`` where `fn` refuses that because its own tensors are in
        single precision; a note of ``res.history.notes`` says so.
    **constants
        As for `geartrain.Term`: n, L, mu, ...

    Returns
    -------
    Term
        It answers ``value_and_grad``. With answers in single precision `minimize` takes a ``tol``
        below 1e-3 as 1e-3, and ``res.message`` says so.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("from_torch needs PyTorch: pip install geartrain[torch]") from error
    kind, notes = dtype, []

    def value_and_grad(x: Vector) -> tuple[float, Vector]:
        nonlocal kind
        try:
            answer = asked(x, kind or torch.float64)
            kind = kind or torch.float64
        except (RuntimeError, TypeError) as error:  # tensors of different types do not mix
            if kind is not None or not _is_about_types(error):
                raise
            answer = asked(x, torch.float32)
            kind = torch.float32
            notes.append(f"a function of PyTorch is evaluated in single precision ({error})")
        return answer

    def asked(x: Vector, kind: Any) -> tuple[float, Vector]:
        where = torch.get_default_device() if device is None else device
        # A copy, so that fn cannot change the vector of the method.
        point = torch.tensor(x, dtype=kind, device=where, requires_grad=True)
        with torch.enable_grad():  # the caller may have disabled it
            value = fn(point)
            _check_number("torch", value)
            if not value.requires_grad:
                raise TypeError(
                    "from_torch: the number does not depend on x, or not differentiably"
                )
            (grad,) = torch.autograd.grad(value.reshape(()), point, materialize_grads=True)
        both = torch.cat([value.detach().reshape(1).to(kind), grad.reshape(-1)])
        return _split(both.cpu().numpy())

    term = Term(value_and_grad, **constants)
    term.pop_notes = lambda: [notes.pop() for _ in notes[:]]  # type: ignore[attr-defined]
    return term


def from_jax(
    fn: Callable[[Any], Any], *, device: Any = None, dtype: Any = None, **constants: Any
) -> Term:
    """A term from a function of a JAX array, compiled by ``jax.jit``.

    A call moves x to the device once, and moves value and gradient back once, together.

    Parameters
    ----------
    fn : callable
        Differentiable and traceable function from an array of shape (n,) to one number.
    device : optional
        Device on which `fn` is evaluated, e.g. ``jax.devices()[0]``; JAX's default if not given.
    dtype : optional
        Type of the argument of `fn`. If not given, it is the largest float of JAX: float64 if
        ``jax.config.update("jax_enable_x64", True)`` was called, and float32 otherwise.
    **constants
        As for `geartrain.Term`: n, L, mu, ...

    Returns
    -------
    Term
        As of `from_torch`.
    """
    try:
        import jax
    except ImportError as error:
        raise ImportError("from_jax needs JAX: pip install geartrain[jax]") from error
    jnp = jax.numpy

    def number(x: Any) -> Any:
        value = fn(x)
        _check_number("jax", value)
        return jnp.reshape(value, ())

    @jax.jit
    def together(x: Any) -> Any:
        value, grad = jax.value_and_grad(number)(x)
        return jnp.concatenate([jnp.reshape(value, (1,)), grad])

    def value_and_grad(x: Vector) -> tuple[float, Vector]:
        kind = dtype
        if kind is None:
            kind = np.float64 if jax.config.jax_enable_x64 else np.float32
        point = jax.device_put(np.asarray(x, dtype=kind), device)
        return _split(np.asarray(together(point)))

    return Term(value_and_grad, **constants)


def from_pyproximal(operator: Any, n: int | None = None) -> Term:
    """A non-smooth term from an operator of pyproximal, or from any object of its form.

    pyproximal's ``prox(x, tau)`` has a step length; here it is tau = 1/alpha. Its indicators say
    whether x is in a set and allow for no rounding error, so that a projection may be outside; here
    a point is inside if it is its own projection up to rounding.

    Parameters
    ----------
    operator : object
        With ``prox(x, tau)``; its value is ``operator(x)``.
    n : int, optional
        Dimension.

    Returns
    -------
    Term
        It answers ``prox`` and ``value``.
    """
    if not callable(getattr(operator, "prox", None)) or not callable(operator):
        raise TypeError(
            "from_pyproximal needs an operator with prox(x, tau) that can be called for its value, "
            f"got {operator!r:.60}"
        )

    def value(x: Vector) -> float:
        number = operator(np.array(x))
        if isinstance(number, (bool, np.bool_)):  # an indicator says whether x is in the set
            return 0.0 if number or _is_projection(x) else np.inf
        return float(number)

    def _is_projection(x: Vector) -> bool:
        moved = np.asarray(operator.prox(np.array(x), 1.0)) - x
        return bool(np.linalg.norm(moved) <= _OUTSIDE * (1.0 + np.linalg.norm(x)))

    def prox(u: Vector, alpha: float) -> Vector:
        return np.asarray(operator.prox(np.array(u), 1.0 / alpha), dtype=np.float64)

    return Term(value=value, prox=prox, n=n)


def _check_number(library: str, value: Any) -> None:
    shape = tuple(getattr(value, "shape", ()))
    if not hasattr(value, "shape") or int(np.prod(shape)) != 1:
        what = f"shape {shape}" if shape else type(value).__name__
        raise TypeError(f"from_{library}: the function must answer with one number, got {what}")


def _is_about_types(error: Exception) -> bool:
    """Whether PyTorch complains about tensors of different types."""
    told = str(error).lower()
    return "dtype" in told or ("double" in told and "float" in told)


def _split(numbers: Any) -> tuple[float, Vector]:
    return float(numbers[0]), numbers[1:]
