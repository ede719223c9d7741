"""Methods, and the contracts that an object has to keep to be one (see `geartrain.methods.base`).

The inner methods, which minimise the model phi, are in `geartrain.inner`.
"""

from geartrain.methods.aeg import AEG
from geartrain.methods.afb import AFB
from geartrain.methods.base import InnerMethod, InnerState, Method, State, WholeMethod, solve_model
from geartrain.methods.baselines.acd_whole import ACDWhole
from geartrain.methods.baselines.ags import AGS
from geartrain.methods.baselines.catalyst import Catalyst
from geartrain.methods.baselines.fgm import FGM
from geartrain.methods.baselines.frank_wolfe import FrankWolfe
from geartrain.methods.baselines.gradient_sliding import GradientSliding
from geartrain.methods.baselines.katyusha_whole import KatyushaWhole
from geartrain.methods.baselines.lbfgs_whole import LBFGSWhole
from geartrain.methods.baselines.ms_whole import MonteiroSvaiterWhole
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.cgs import CGS
from geartrain.methods.gmco import GMCO
from geartrain.methods.inner_rule import PaperRule
from geartrain.methods.learned_train import LearnedTrain
from geartrain.methods.nested_sum import Train
from geartrain.methods.operators.anderson import Anderson
from geartrain.methods.operators.extragradient import Extragradient
from geartrain.methods.operators.hpe import HPE
from geartrain.methods.operators.mixing import AndersonResolvent
from geartrain.methods.operators.optimistic import OptimisticGradient
from geartrain.methods.planning.planned import Planned
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.projected_lbfgs import ProjectedLBFGS
from geartrain.methods.r_sae import RSAE
from geartrain.methods.restart import FixedPeriod, GradientTest, Restarted
from geartrain.methods.sae import SAE
from geartrain.methods.sc_sae import SCSAE
from geartrain.methods.similar_newton import SimilarNewton
from geartrain.methods.sparsa import SpaRSA
from geartrain.methods.working_set import WorkingSet

__all__ = [
    "AEG",
    "AFB",
    "AGS",
    "CGS",
    "FGM",
    "GMCO",
    "HPE",
    "RSAE",
    "SAE",
    "SCSAE",
    "ACDWhole",
    "Anderson",
    "AndersonResolvent",
    "Catalyst",
    "Extragradient",
    "FixedPeriod",
    "FrankWolfe",
    "GradientSliding",
    "GradientTest",
    "InnerMethod",
    "InnerState",
    "KatyushaWhole",
    "LBFGSWhole",
    "LearnedTrain",
    "Method",
    "MonteiroSvaiterWhole",
    "OptimisticGradient",
    "PaperRule",
    "Planned",
    "ProjectedLBFGS",
    "ProximalQuasiNewton",
    "Restarted",
    "ScipyLBFGS",
    "SimilarNewton",
    "SpaRSA",
    "State",
    "Train",
    "WholeMethod",
    "WorkingSet",
    "solve_model",
]
