"""The numbers that steer block SMO. They change its speed, never what it certifies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockTuning:
    """Numbers of `block_smo`, with their units and reasons.

    The sources are measurements on the gas sensors, pairs of digits, a9a and phishing
    (``geartrain bench estimators``), unless a field says otherwise.
    """

    # Blocks
    block_start: int = 256  # points in the first block: its K[W, W] (256 kB) stays in the L2 cache
    block_max: int = 2048  # points in a block: K[W, W] takes 16 MB, the size of an L3 cache
    medium: int = 4096  # points; below, most rows are needed anyway, so blocks start twice as large
    block_factor: float = 0.1  # share of the violation that may be left inside a block
    crowded: int = 16  # rounds with a largest block half full of free points before all free points
    # are taken into one block: then blocks are too small for the coupling between them
    active: float = 1.25  # points in that block, in multiples of the free points
    active_most: float = 0.5  # share of all points beyond which all are taken: little time per step
    # would be saved
    safety: float = 0.5  # share of tol that float32 rounds aim at, so that the float64 gradient
    # rarely sends them back
    patience: int = 3  # float64 gradients, or blocks that use up their steps, in a row without a
    # smaller violation: rounding is reached

    # Starting point from a sample
    sampled: int = 2000  # points from which a sample is solved first; smaller fits gain nothing
    sample_tol: float = 0.2  # violation to which the sample is solved: only signs are used
    sample_least: int = 8  # points of each class that the sample must have
    support_least: float = 0.1  # share of support vectors: with fewer, few rows can be saved
    support_most: float = 0.5  # share of support vectors: with more, no rows can be saved
    bound_least: float = 0.4  # share of them at their bounds: free variables cannot be guessed

    # Float64 gradient and Newton steps
    error_share: float = 0.05  # share of tol that an error of F may have if many points are free
    polish_free: int = 16  # free points up to which Newton steps cost next to nothing
    needed_free: int = 256  # free points up to which Newton steps are tried if float32 rounds do
    # not reach tol: one factorisation takes about as long as one round
    polish_steps: int = 20  # Newton steps; every one that is cut short removes a free point
    ridge: float = 1e-10  # share of the mean of diag(K) added to it: points may coincide
    rounding: float = 1e-11  # violation that is rounding of float64 sums with terms of size one


DEFAULT = BlockTuning()
