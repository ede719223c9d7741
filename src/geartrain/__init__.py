"""Minimise h + g, two convex terms at different prices, asking each as rarely as possible."""

from importlib import import_module
from typing import Any

from geartrain import callbacks, geometry, methods, theory
from geartrain.core import stopping as stop
from geartrain.geometry import Diagonal, LowRankPlusDiagonal, Preconditioned
from geartrain.geometry.rkhs import RKHS
from geartrain.methods import inner
from geartrain.methods.aeg import AEG
from geartrain.methods.afb import AFB
from geartrain.methods.baselines.acd_whole import ACDWhole
from geartrain.methods.baselines.ags import AGS
from geartrain.methods.baselines.catalyst import Catalyst
from geartrain.methods.baselines.fgm import FGM
from geartrain.methods.baselines.gradient_sliding import GradientSliding
from geartrain.methods.baselines.katyusha_whole import KatyushaWhole
from geartrain.methods.baselines.lbfgs_whole import LBFGSWhole
from geartrain.methods.baselines.ms_whole import MonteiroSvaiterWhole
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.gmco import GMCO
from geartrain.methods.inner.acd import ACD
from geartrain.methods.inner.agm import AGM
from geartrain.methods.inner.apcg import APCG
from geartrain.methods.inner.approx import APPROX
from geartrain.methods.inner.exact import Exact
from geartrain.methods.inner.katyusha import Katyusha
from geartrain.methods.inner.l_katyusha import LKatyusha
from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.methods.inner.nesterov_stich import NesterovStich
from geartrain.methods.inner.rpdg import RPDG
from geartrain.methods.inner.spdc import SPDC
from geartrain.methods.inner.varag import Varag
from geartrain.methods.inner.zeroth_order import CoordinateSearch, DirectionalSearch
from geartrain.methods.inner_rule import PaperRule
from geartrain.methods.quasi_newton.sae_qn import SAEQN
from geartrain.methods.quasi_newton.similar_newton import SimilarNewton
from geartrain.methods.r_sae import RSAE
from geartrain.methods.restart import FixedPeriod, GradientTest, Restarted
from geartrain.methods.sae import SAE
from geartrain.methods.sc_sae import SCSAE
from geartrain.minimize import minimize, resume
from geartrain.oracles import LinearModel, LogSumExp, Quadratic, Term, check_term
from geartrain.oracles.adapters import from_jax, from_torch
from geartrain.watch import watch

__version__ = "0.1.0"

__all__ = [
    "ACD",
    "AEG",
    "AFB",
    "AGM",
    "AGS",
    "APCG",
    "APPROX",
    "FGM",
    "GMCO",
    "LBFGS",
    "RKHS",
    "RPDG",
    "RSAE",
    "SAE",
    "SAEQN",
    "SCSAE",
    "SPDC",
    "ACDWhole",
    "Catalyst",
    "CoordinateSearch",
    "Diagonal",
    "DirectionalSearch",
    "Exact",
    "FixedPeriod",
    "GradientSliding",
    "GradientTest",
    "Katyusha",
    "KatyushaWhole",
    "LBFGSWhole",
    "LKatyusha",
    "LinearModel",
    "LogSumExp",
    "LowRankPlusDiagonal",
    "MonteiroSvaiterWhole",
    "NesterovStich",
    "PaperRule",
    "Preconditioned",
    "Quadratic",
    "Restarted",
    "ScipyLBFGS",
    "SimilarNewton",
    "Term",
    "Varag",
    "callbacks",
    "check_term",
    "from_jax",
    "from_torch",
    "geometry",
    "inner",
    "methods",
    "minimize",
    "resume",
    "stop",
    "theory",
    "watch",
]

_LAZY = (
    "datasets",
    "distributed",
    "estimators",
)  # imported when they are asked for: scikit-learn is slow


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return import_module(f"geartrain.{name}")
    raise AttributeError(f"module 'geartrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
