"""Certificates as files of format 7 hold them, rewritten to those of today.

There a certificate had a field for every kind of claim, of which all but one were empty, and classes had other names.
A structure is what `network.storage.encode` makes: dataclasses as {"type": name, field: value ...}.
"""

from __future__ import annotations

from typing import Any

from weightwright.errors import FileFormatError

Structure = dict[str, Any]

#: Classes whose name is another now; their fields are the same, but for those of a `Composite`.
RENAMED = {
    "LayerClaim": "Leaf",
    "Measured": "MeasuredClaim",
    "Models": "TokenModels",
    "Part": "SideNetwork",
    "PartClaim": "TableClaim",
    "Prompted": "PromptClaim",
    "Ridge": "RidgeFunctions",
    "TargetClaim": "FormulasClaim",
    "VectorClaim": "VectorLeaf",
}
#: Fields of a certificate that are no claim.
_KEPT = ("formula", "domain", "dtype", "kernel", "bound", "terms", "network", "assumptions", "status")
#: Fields that made a claim, with what stood in those that made none.
_CLAIMS: Structure = {
    "layers": [],
    "dead_zones": [],
    "samples": None,
    "composite": None,
    "grid": None,
    "norm": {"float": "inf"},
    "prompted": None,
    "parts": [],
    "one_pass": None,
    "measured": None,
}


def upgrade_certificate(structure: Structure) -> Structure:
    """The same certificate in the classes of today; FileFormatError where it makes two claims, or none."""
    try:
        return _upgraded(structure)
    except (TypeError, RecursionError) as error:
        raise FileFormatError(f"the stored structure is not a Certificate: {error}") from error


def _upgraded(structure: Any) -> Structure:
    if not isinstance(structure, dict) or structure.get("type") != "Certificate":
        raise FileFormatError("the stored structure is not a Certificate")
    unknown = structure.keys() - {"type", *_KEPT, *_CLAIMS}
    if unknown:
        raise FileFormatError(f"the stored structure is not a Certificate: it has {', '.join(sorted(unknown))}")
    made = {name: structure[name] for name in _CLAIMS if structure.get(name, _CLAIMS[name]) != _CLAIMS[name]}
    kept = {name: _renamed(structure[name]) for name in _KEPT if name in structure}
    return {"type": "Certificate", "claim": _claim(made), **kept}


def _claim(made: Structure) -> Structure:
    """The one claim of the fields that are not empty."""
    found = {name: _renamed(value) for name, value in made.items()}
    match sorted(found):
        case ["layers"] | ["dead_zones", "layers"]:
            return _one_layer(found["layers"], found.get("dead_zones", []))
        case ["layers", "samples"]:
            return {"type": "SampledClaim", "leaf": _only(found["layers"], "Leaf"), "samples": found["samples"]}
        case ["composite"]:
            return _typed(found["composite"], "Composite")
        case ["composite", "one_pass"]:
            return _loop(found)
        case ["grid", "norm"]:
            return _typed(found["grid"], "GridClaim") | {"norm": found["norm"]}
        case ["prompted"]:
            return _typed(found["prompted"], "PromptClaim")
        case ["parts"]:
            return {"type": "SideBySideClaim", "parts": found["parts"]}
        case [*names] if "measured" in names and not {"layers", "samples", "grid", "prompted", "parts"} & set(names):
            return _measured(found)
        case names:
            raise FileFormatError(f"a certificate makes one claim, and this one has {' and '.join(names) or 'none'}")


def _one_layer(layers: Any, dead_zones: Any) -> Structure:
    if not dead_zones and isinstance(layers, list) and layers and _is(layers[0], "VectorLeaf"):
        return {"type": "VectorLayerClaim", "leaf": _only(layers, "VectorLeaf")}
    return {"type": "OneLayerClaim", "leaf": _only(layers, "Leaf"), "dead_zones": dead_zones}


def _loop(found: Structure) -> Structure:
    composite = _typed(found["composite"], "Composite")
    return {**_typed(found["one_pass"], "OnePass"), "type": "LoopClaim", "composite": composite}


def _measured(found: Structure) -> Structure:
    """What was searched against stood beside it."""
    claim = dict(_typed(found["measured"], "MeasuredClaim"))
    if "composite" in found:
        claim["against"] = _loop(found) if "one_pass" in found else _typed(found["composite"], "Composite")
    elif "one_pass" in found:
        raise FileFormatError("a certificate about one pass has no target")
    return claim | {name: found[name] for name in ("dead_zones", "norm") if name in found}


def _only(layers: Any, kind: str) -> Structure:
    if not isinstance(layers, list) or len(layers) != 1:
        raise FileFormatError("one layer's claim was expected")
    return _typed(layers[0], kind)


def _typed(structure: Any, kind: str) -> Structure:
    if not _is(structure, kind):
        raise FileFormatError(f"a {kind} was expected in the certificate")
    return dict(structure)


def _is(structure: Any, kind: str) -> bool:
    return isinstance(structure, dict) and structure.get("type") == kind


def _renamed(value: Any) -> Any:
    """The same with the names of today, certificates inside included."""
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    if not isinstance(value, dict) or "type" not in value:
        return value
    if value["type"] == "Certificate":
        return _upgraded(value)
    fields = {name: _renamed(item) for name, item in value.items()}
    if value["type"] == "Composite":
        names = {"ridge": "target", "target": "formulas"}
        fields = {names.get(name, name): item for name, item in fields.items()}
    return fields | {"type": RENAMED.get(value["type"], value["type"])}
