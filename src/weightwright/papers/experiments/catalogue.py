"""The studies by their ids, in the papers' order."""

from __future__ import annotations

from weightwright.papers.experiments.machinery.study import Study
from weightwright.papers.experiments.studies.ae_e1 import AE_E1
from weightwright.papers.experiments.studies.ae_e2 import AE_E2
from weightwright.papers.experiments.studies.ae_e3 import AE_E3
from weightwright.papers.experiments.studies.ae_e4 import AE_E4
from weightwright.papers.experiments.studies.ae_e5 import AE_E5
from weightwright.papers.experiments.studies.lr_e1 import LR_E1
from weightwright.papers.experiments.studies.su_3 import SU_3
from weightwright.papers.experiments.studies.ua_e1 import UA_E1
from weightwright.papers.experiments.studies.ua_e2 import UA_E2
from weightwright.papers.experiments.studies.ua_e3 import UA_E3

STUDIES: dict[str, Study] = {
    study.id: study for study in (UA_E1, UA_E2, UA_E3, AE_E1, AE_E2, AE_E3, AE_E4, AE_E5, LR_E1, SU_3)
}


def find_study(name: str) -> Study:
    """The study of an id, in any case of letters."""
    if name.upper() not in STUDIES:
        raise ValueError(f"there is no study {name!r}; write one of {', '.join(STUDIES)}, or all")
    return STUDIES[name.upper()]
