"""Plait: trains GPT-style Transformers inside a Python program.

    import plait

    with plait.Context() as context, plait.Config(context, settings) as config, \\
            plait.Group(context, config) as group, plait.Engine(group, config) as engine:
        batch = engine.batch()
        spec = engine.batch_spec()
        tokens = batch.map("tokens", spec.global_rows, spec.sequence_length + 1)
        for step in range(100):
            fill(tokens)
            metrics = engine.step(batch)

A failing call raises `PlaitError` or a subclass of it. Timeouts are seconds; None leaves the
limits to the configuration's deadlines, so no wait is unbounded. Reports come as dictionaries,
memory as memoryviews, which NumPy takes as they are; NumPy is not needed. Signed 64-bit integers
are the library's only ones.
"""

from .batch import *  # noqa: F401,F403
from .checkpoint import *  # noqa: F401,F403
from .config import *  # noqa: F401,F403
from .context import *  # noqa: F401,F403
from .data import *  # noqa: F401,F403
from .engine import *  # noqa: F401,F403
from .errors import *  # noqa: F401,F403
from .group import *  # noqa: F401,F403
from .logs import *  # noqa: F401,F403
from .operation import *  # noqa: F401,F403
from .plan import *  # noqa: F401,F403
from .signals import *  # noqa: F401,F403
from .values import *  # noqa: F401,F403

__version__ = version()  # noqa: F405
