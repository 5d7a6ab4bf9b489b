"""Random generators derived from one seed, without global state."""

import hashlib

import torch


def generator(seed: int, purpose: str = "") -> torch.Generator:
    """Return a generator for one purpose; the same seed and purpose give the same stream.

    Example:
        >>> first, again = generator(7, "policy"), generator(7, "policy")
        >>> bool(torch.equal(torch.rand(3, generator=first), torch.rand(3, generator=again)))
        True
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
