"""Importing this module registers the plants with Gymnasium, as `nopg/…-v0`.

Gymnasium imports it from the name before the colon:

    >>> import gymnasium
    >>> gymnasium.make("nopg.envs.registered:nopg/Pendulum-v0").spec.id
    'nopg/Pendulum-v0'
"""

from nopg.envs._gymnasium import register

register()
