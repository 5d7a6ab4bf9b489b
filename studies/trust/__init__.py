"""A permanent adversary of the verdict: random plants, faulty logs, and the truth behind every answer."""

from studies.trust.study import TRUST

__all__ = ["TRUST"]
