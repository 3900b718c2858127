"""Which kinds of claim there are: the library's, and those that extensions register."""

from __future__ import annotations

from weightwright.claims.certificate import MeasuredClaim
from weightwright.claims.files import certificate_types
from weightwright.claims.kinds import Claim

CLAIMS = [kind for kind in certificate_types().values() if issubclass(kind, Claim)]
#: Those that claim something.
PROVABLE = [kind for kind in CLAIMS if kind is not MeasuredClaim]
