"""A network taken apart: nodes that compute, and edges that say how much of one reaches another."""

from weightwright.circuit.circuit import Circuit as Circuit
from weightwright.circuit.circuit import CircuitEdge as CircuitEdge
from weightwright.circuit.circuit import CircuitNode as CircuitNode
from weightwright.circuit.circuit import Slot as Slot
