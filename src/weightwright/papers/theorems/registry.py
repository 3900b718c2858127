"""Every theorem by its id, in the order in which they are listed. A new row is one entry in the table and one section
in texts/.

`show` builds the small instance of one; listing the theorems imports no numpy and builds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from weightwright.errors import WeightwrightError
from weightwright.papers.kit.paper_texts import join_lines, read_sections

if TYPE_CHECKING:
    from weightwright.papers.kit.instance import Instance
    from weightwright.papers.kit.rates import Study

Expected = Literal["PROVEN", "MEASURED"]


@dataclass(frozen=True)
class Theorem:
    """What a theorem says, where it stands, what was repaired, and where its code is: words and import paths alone.

    statement, repaired and rate are in words; repaired has a line for each deviation from the text. expects: what the
    small instance should come out as; `show` says what it did. home: the module that has the construction. small:
    "module:function" of a function that takes nothing and returns an `Instance`.
    """

    id: str
    title: str
    statement: str
    source: str
    repaired: str
    rate: str
    expects: Expected
    home: str
    small: str

    @property
    def deviations(self) -> tuple[str, ...]:
        """Where we deviate from the text, one by one."""
        return tuple(self.repaired.split("\n"))

    @property
    def file(self) -> str:
        """Where the construction stands, from the repository's root."""
        return f"src/{self.home.replace('.', '/')}.py"

    def instance(self) -> Instance:
        """Build the small instance, once in a process: UA-14 counts the others'."""
        return _instance(self.small)

    def measured_studies(self) -> tuple[Study, ...]:
        """Run the studies that are asked for; those of the instance where it has no others."""
        instance = self.instance()
        return instance.studies if instance.rates is None else instance.rates()


@cache
def _instance(path: str) -> Instance:
    instance: Instance = resolve(path)()
    return instance


def resolve(path: str) -> Callable[[], Any]:
    """The function that "module:function" names."""
    module, _, name = path.partition(":")
    function: Callable[[], Any] = getattr(import_module(module), name)
    return function


#: By id: what the small instance comes out as, the module of the construction, and the function that builds the
#: instance, as "module:function". Modules stand below `weightwright`.
_ROWS: dict[str, tuple[Expected, str, str]] = {
    "UA-1": ("PROVEN", "papers.linear.hardmax", "papers.instances.universal_instances:hardmax"),
    "UA-2": ("PROVEN", "papers.linear.one_head", "papers.instances.universal_instances:one_head"),
    "UA-3": ("PROVEN", "papers.linear.shared_anchors", "papers.instances.universal_instances:shared_anchors"),
    "UA-4": ("PROVEN", "papers.grids.bumps", "papers.instances.universal_instances:bumps"),
    "UA-5": ("PROVEN", "papers.grids.grid_lookup", "papers.instances.universal_instances:to_scalar"),
    "UA-6": ("PROVEN", "papers.grids.grid_lookup", "papers.instances.universal_instances:to_scalar_by_softmax"),
    "UA-7": ("PROVEN", "papers.grids.grid_lookup", "papers.instances.universal_instances:to_sequence"),
    "UA-8": ("PROVEN", "papers.relu.emulated", "papers.instances.universal_instances:infinity_norm"),
    "UA-9": ("PROVEN", "papers.relu.token_mixing", "papers.instances.universal_instances:mixing"),
    "UA-10": ("PROVEN", "papers.relu.native", "papers.instances.universal_instances:native"),
    "UA-11": ("PROVEN", "papers.descent.truncated", "papers.instances.universal_instances:truncated"),
    "UA-12": ("PROVEN", "papers.descent.pairs", "papers.instances.universal_instances:pairs"),
    "UA-13": ("PROVEN", "papers.linear.activations", "papers.instances.universal_instances:activations"),
    "UA-14": ("MEASURED", "papers.instances.universal_instances", "papers.instances.universal_instances:every_count"),
    "UA-15": ("PROVEN", "papers.relu.emulated", "papers.instances.universal_instances:shared_keys"),
    "SU-1": ("PROVEN", "papers.instances.summary_instances", "papers.instances.summary_instances:errors_by_beta"),
    "SU-2": ("PROVEN", "papers.instances.summary_instances", "papers.instances.summary_instances:places"),
    "SU-3": ("PROVEN", "papers.instances.summary_instances", "papers.instances.summary_instances:long_sequences"),
    "SU-4": ("MEASURED", "papers.instances.summary_instances", "papers.instances.summary_instances:signatures"),
    "AE-1": ("PROVEN", "papers.descent.gradients", "papers.instances.emulation_instances:gradients"),
    "AE-2": ("PROVEN", "papers.descent.gradients", "papers.instances.emulation_instances:of_a_loss"),
    "AE-3": ("PROVEN", "papers.descent.steps", "papers.instances.emulation_instances:one_step"),
    "AE-4": ("PROVEN", "papers.descent.steps", "papers.instances.descent_instances:many_steps"),
    "AE-5": ("PROVEN", "papers.descent.steps", "papers.instances.descent_instances:regression"),
    "AE-6": ("PROVEN", "papers.descent.steps", "papers.instances.descent_instances:ridge"),
    "AE-7": ("PROVEN", "papers.descent.steps", "papers.instances.descent_instances:lasso"),
    "AE-8": ("PROVEN", "papers.descent.truncated", "papers.instances.emulation_instances:shared"),
    "AE-9": ("PROVEN", "interpreter.virtual_machine", "papers.instances.program_instances:embedding"),
    "AE-10": ("PROVEN", "interpreter.virtual_machine", "papers.instances.program_instances:stacked"),
    "AE-11": ("MEASURED", "interpreter.library.algorithms", "papers.instances.program_instances:library_of_programs"),
    "AE-12": ("PROVEN", "interpreter.library.layer_programs", "papers.instances.program_instances:linear_layer"),
    "AE-13": ("PROVEN", "papers.hopfield.hopfield_layer", "papers.instances.emulation_instances:hopfield_layer"),
    "AE-14": ("PROVEN", "papers.hopfield.hopfield_prompt", "papers.instances.emulation_instances:hopfield_prompt"),
    "AE-15": ("MEASURED", "interpreter.library.layer_programs", "papers.instances.program_instances:folded"),
    "AE-16": ("PROVEN", "papers.instances.descent_instances", "papers.instances.descent_instances:one_pass"),
    "LR-1": ("MEASURED", "memory.boltzmann", "papers.instances.memory_instances:boltzmann_operator"),
    "LR-2": ("PROVEN", "memory.hardmax_pair", "papers.instances.memory_instances:hardmax_pair"),
    "LR-3": ("PROVEN", "memory.context_mapping", "papers.instances.memory_instances:mapping"),
    "LR-4": ("PROVEN", "memory.memorizing", "papers.instances.memory_instances:labelled_sets"),
    "LR-5": ("PROVEN", "memory.memorizing", "papers.instances.memory_instances:labelled_sequences"),
    "LR-6": ("MEASURED", "memory.looked_up", "papers.instances.memory_instances:functions"),
    "LR-7": ("PROVEN", "memory.memorizing", "papers.instances.memory_instances:masks"),
}


def _read_theorems() -> dict[str, Theorem]:
    """The rows with their words: title, statement, source, deviations and rate, as the Markdown files of texts/ say."""
    sections = read_sections(__package__)
    return {
        id: Theorem(
            id,
            title=sections[id]["title"],
            statement=join_lines(sections[id]["statement"]),
            source=join_lines(sections[id]["Source"]),
            repaired=join_lines(sections[id]["Deviations"]),
            rate=join_lines(sections[id]["Rate"]),
            expects=expects,
            home=f"weightwright.{home}",
            small=f"weightwright.{small}",
        )
        for id, (expects, home, small) in _ROWS.items()
    }


#: By id. Later papers add their rows here.
THEOREMS = _read_theorems()


def find(id: str) -> Theorem:
    """The theorem of this id, in any case, with or without its hyphen; an error that names the known ones."""
    plain = {known.replace("-", ""): theorem for known, theorem in THEOREMS.items()}
    theorem = plain.get(re.sub(r"[-_ ]", "", id.upper()))
    if theorem is None:
        raise WeightwrightError(f"there is no theorem {id!r}; known are {', '.join(THEOREMS)}")
    return theorem
