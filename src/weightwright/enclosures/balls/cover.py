"""Whether boxes cover a box: exact, for any boxes, quick for those that come from halving."""

from __future__ import annotations

import numpy as np

from weightwright.limits import tick
from weightwright.numbers import Floats

_STEPS = 100  # for each box, at most


def is_covered(lo: Floats, hi: Floats, boxes: Floats) -> bool:
    """Whether every point from lo to hi, (d,) each, lies in one of the boxes, (number, 2, d).

    A region that no box holds whole is cut in two along a face of a box inside it, and both parts are looked at with
    the boxes that reach into them. Where no face lies inside, no box holds the region, and so it has a gap. Gives up
    (False) after some steps for each box. Only comparisons are made, so nothing rounds.
    """
    parts = [(np.array(lo), np.array(hi), boxes)]
    for _ in range(_STEPS * (len(boxes) + 1)):
        if not parts:
            return True
        tick()
        a, b, near = parts.pop()
        near = near[((near[:, 0] < b) & (near[:, 1] > a)).all(axis=1)]
        if bool(((near[:, 0] <= a) & (near[:, 1] >= b)).all(axis=1).any()):
            continue
        face = _face(a, b, near)
        if face is None:
            return False
        axis, at = face
        below, above = b.copy(), a.copy()
        below[axis] = above[axis] = at
        parts += [(a, below, near), (above, b, near)]
    return False


def _face(a: Floats, b: Floats, near: Floats) -> tuple[int, float] | None:
    """(axis, place) of a face inside the region: one that cuts as few boxes and as evenly as possible."""
    best: tuple[int, int, int, float] | None = None
    for axis in range(len(a)):
        faces = np.unique(near[:, :, axis])
        faces = faces[(faces > a[axis]) & (faces < b[axis])]
        if not len(faces):
            continue
        starts, ends = np.sort(near[:, 0, axis]), np.sort(near[:, 1, axis])
        left = np.searchsorted(starts, faces, "left")  # boxes that begin before the face
        right = len(near) - np.searchsorted(ends, faces, "right")  # boxes that end after it
        cut = left + right - len(near)
        pick = int(np.lexsort((np.maximum(left, right), cut))[0])
        found = (int(cut[pick]), int(max(left[pick], right[pick])), axis, float(faces[pick]))
        best = found if best is None or found < best else best
    return None if best is None else (best[2], best[3])
