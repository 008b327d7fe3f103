"""What methods return: sequences, models, selections, scores; each is loaded when it is used."""

from dbselect._lazy import public as _public

__all__, __getattr__, __dir__ = _public(__name__)
