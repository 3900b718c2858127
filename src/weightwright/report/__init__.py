"""What people and machines are shown: facts as plain dictionaries, tables of them, and plots.

Nothing is computed here that a certificate does not already say.
"""

from weightwright.export.figures import check_plottable
from weightwright.report.compiled_facts import compilation_facts
from weightwright.report.drawing import draw_network
from weightwright.report.plot import plot_network
from weightwright.report.tables import (
    approximation_facts,
    certificate_facts,
    network_facts,
    printable,
    table,
    to_json,
    value_facts,
    value_lines,
)

__all__ = [
    "approximation_facts",
    "certificate_facts",
    "check_plottable",
    "compilation_facts",
    "draw_network",
    "network_facts",
    "plot_network",
    "printable",
    "table",
    "to_json",
    "value_facts",
    "value_lines",
]
