"""What people and machines are shown: facts as plain dictionaries, tables of them, and plots.

Nothing is computed here that a certificate does not already say.
"""

from weightwright.export.figures import check_plottable
from weightwright.report.drawing.draw import draw_network
from weightwright.report.facts.compiled import compilation_facts
from weightwright.report.facts.fact_tables import printable, table, to_json, value_lines
from weightwright.report.facts.network_facts import approximation_facts, certificate_facts, network_facts, value_facts
from weightwright.report.plot import plot_network

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
