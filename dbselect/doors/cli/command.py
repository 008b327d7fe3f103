"""A command, and the parser that all of them share."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """What a module of a command has; libraries are loaded by `run`, not by its module.

    Parameters
    ----------
    add : adds the arguments to the parser of the command
    run : does what the arguments ask for
    """

    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
