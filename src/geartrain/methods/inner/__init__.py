"""Inner methods: they minimise phi(v) = <beta, v> + alpha/2 |v|^2 + g(v) for an outer method."""

from geartrain.methods.inner.acd import ACD
from geartrain.methods.inner.agm import AGM
from geartrain.methods.inner.apcg import APCG
from geartrain.methods.inner.approx import APPROX
from geartrain.methods.inner.exact import Exact
from geartrain.methods.inner.katyusha import Katyusha
from geartrain.methods.inner.l_katyusha import LKatyusha
from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.methods.inner.nesterov_stich import NesterovStich
from geartrain.methods.inner.proxqn import ProxQN
from geartrain.methods.inner.rpdg import RPDG
from geartrain.methods.inner.spdc import SPDC
from geartrain.methods.inner.varag import Varag
from geartrain.methods.inner.zeroth_order import CoordinateSearch, DirectionalSearch

__all__ = [
    "ACD",
    "AGM",
    "APCG",
    "APPROX",
    "LBFGS",
    "RPDG",
    "SPDC",
    "CoordinateSearch",
    "DirectionalSearch",
    "Exact",
    "Katyusha",
    "LKatyusha",
    "NesterovStich",
    "ProxQN",
    "Varag",
]
