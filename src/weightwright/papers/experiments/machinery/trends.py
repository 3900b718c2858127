"""How an error moves with a parameter: sign and slope, with an interval that says how sure that is.

In log-log coordinates an error of order 1/p has the slope -1, and its square, the MSE, the slope -2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from weightwright.numbers import Floats
from weightwright.papers.experiments.machinery.study_units import Json

#: Probability that the interval of a slope contains the true one, if seeds scatter as normal numbers do.
CONFIDENCE = 0.95


def fit_trend(name: str, x: Sequence[float], y: Floats, predicted: str, scale: str = "log-log") -> Json:
    """The trend of y with x: one line through all points for each seed, and a t interval of their slopes.

    name: what is fitted, in words.
    x: values of the parameter, at least two.
    y: (seeds, values); one row only: the interval is that of the regression, and needs three values.
    predicted: what the paper says of the slope, in words.
    scale: "log-log", or "linear" for an error that is to grow with x itself.

    >>> fit_trend("MSE", [1, 2, 4], np.array([[1, 1 / 2, 1 / 4], [2, 1, 1 / 2]]), "-1")["sign"]
    'falls'
    """
    rows = np.atleast_2d(np.asarray(y, float))
    u, v = np.asarray(x, float), rows
    if scale == "log-log":
        u, v = np.log(u), np.log(np.maximum(rows, np.finfo(float).tiny))
    slopes = np.array([np.polyfit(u, row, 1)[0] for row in v])
    low, high, how = _interval(u, v, slopes)
    sign = "falls" if high is not None and high < 0 else "grows" if low is not None and low > 0 else "undecided"
    return {
        "name": name,
        "scale": scale,
        "sign": sign,
        "slope": float(slopes.mean()),
        "lo": low,
        "hi": high,
        "interval": how,
        "predicted": predicted,
        "x": [float(value) for value in x],
        "seeds": len(rows),
    }


def slope_between(values: Sequence[float], ends: Sequence[Json]) -> float:
    """The log-log slope of the MSE between the smallest and the largest value of a parameter.

    >>> slope_between([1, 2, 4], [{"mse": [1.0]}, {"mse": [0.25]}])
    -1.0
    """
    first, last = (np.log(one["mse"]).mean() for one in ends)
    return float((last - first) / np.log(max(values) / min(values)))


def fit_curve(name: str, curve: Sequence[Sequence[float]]) -> Json:
    """The trend of a training loss (seeds, epochs) with the epochs."""
    epochs = range(1, len(curve[0]) + 1)
    return fit_trend(f"{name}: training MSE against epochs", epochs, np.array(curve), "falls")


def _interval(u: Floats, v: Floats, slopes: Floats) -> tuple[float | None, float | None, str]:
    if len(slopes) > 1:
        spread = slopes.std(ddof=1) / np.sqrt(len(slopes)) * stats.t.ppf((1 + CONFIDENCE) / 2, len(slopes) - 1)
        return float(slopes.mean() - spread), float(slopes.mean() + spread), "t interval over seeds, 95 %"
    if len(u) < 3:
        return None, None, "none: two points and one seed"
    left = v[0] - np.polyval(np.polyfit(u, v[0], 1), u)
    error = np.sqrt((left**2).sum() / (len(u) - 2) / ((u - u.mean()) ** 2).sum())
    spread = error * stats.t.ppf((1 + CONFIDENCE) / 2, len(u) - 2)
    return float(slopes[0] - spread), float(slopes[0] + spread), "t interval of the regression, 95 %"


def trend_in_words(trend: Json) -> str:
    """A line for people."""
    between = "no interval" if trend["lo"] is None else f"{trend['lo']:.3g}, {trend['hi']:.3g}"
    return (
        f"{trend['name']}: {trend['sign']}, {trend['scale']} slope {trend['slope']:.3g} "
        f"[{between}] ({trend['seeds']} seed{'s' * (trend['seeds'] != 1)}); the paper: {trend['predicted']}"
    )
