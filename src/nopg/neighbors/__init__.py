"""Nearest neighbours: exact by a tree or by brute force, or approximate and judged by the ψ-mass found."""

from nopg.neighbors._brute_force import BruteForce
from nopg.neighbors._choice import growth_dimension, neighbor_search
from nopg.neighbors._faiss import FaissIndex
from nopg.neighbors._psi_mass import Judgement, lost_mass
from nopg.neighbors._samples import SampleIndex
from nopg.neighbors._search import NeighborSearch
from nopg.neighbors._tree import NeighborTree

__all__ = [
    "BruteForce",
    "FaissIndex",
    "Judgement",
    "NeighborSearch",
    "NeighborTree",
    "SampleIndex",
    "growth_dimension",
    "lost_mass",
    "neighbor_search",
]
