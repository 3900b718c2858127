"""Many saved networks checked at once, by the engine that runs studies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from weightwright.checker.check import check
from weightwright.errors import CertificateError, WeightwrightError
from weightwright.experiments.machinery.engines import Engine, run_everywhere
from weightwright.experiments.machinery.units import Json
from weightwright.limits import LimitOptions


def check_files(paths: Sequence[Path], limits: LimitOptions, engine: Engine, jobs: int | None = None) -> Iterator[Json]:
    """What the independent checker says of each file, as they become ready: `file`, `status`, `bound`, its
    `subject`, `seconds`.

    paths: saved networks.
    limits: what each may cost.
    engine, jobs: as for `run_everywhere`.

    A file that is refused has "refused" as its status, one that cannot be read or is beyond a limit "error"; both have
    `why`.
    """
    return run_everywhere(_Check(limits), [str(path) for path in paths], engine, jobs)


class _Check:
    """Checks a file; an object and not a closure, so that it can be sent to another process."""

    def __init__(self, limits: LimitOptions) -> None:
        self.limits = limits

    def __call__(self, path: str) -> Json:
        start = time.perf_counter()
        found: Json = {"file": path, "status": "error", "bound": None}
        try:
            certificate = check(path, **self.limits)
            found |= {"status": certificate.status, "claim": certificate.formula}
            found |= {"bound": certificate.bound, "subject": certificate.subject}
        except CertificateError as error:
            found |= {"status": "refused", "why": str(error)}
        except (WeightwrightError, OSError, ValueError) as error:
            found |= {"why": str(error)}
        return found | {"seconds": time.perf_counter() - start}
