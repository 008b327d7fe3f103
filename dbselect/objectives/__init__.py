"""Objectives that a search maximises: the contract, and objectives that meet it."""

from dbselect._lazy import public as _public

__all__, __getattr__, __dir__ = _public(__name__)
