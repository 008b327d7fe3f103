"""Estimators for scikit-learn: selection for a cost inside pipelines and grids.

``pip install 'dbselect[sklearn]'``; nothing else of dbselect imports scikit-learn.
"""

from dbselect.sklearn.classifier import AnytimeClassifier
from dbselect.sklearn.regressor import AnytimeRegressor
from dbselect.sklearn.selectors import AnytimeSelector, FoBaSelector, SGHTSelector

__all__ = [
    "AnytimeClassifier",
    "AnytimeRegressor",
    "AnytimeSelector",
    "FoBaSelector",
    "SGHTSelector",
]
