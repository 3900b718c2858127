"""Formulas as people write them: what is none is refused with what to write instead.

Beside the parser and not in it: the checker reads formulas too, and has to be believed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from weightwright.errors import FormulaError
from weightwright.expressions.nodes import Expression
from weightwright.expressions.parser import NAMES, parse

#: What the variables of a formula are called, in the order of the features of the domain.
_LETTERS = ("x", "y", "z")
#: Longer texts come from programs, not from people: no advice.
_LONGEST = 400

#: What others call a name of the language.
CALLED = {
    "ln": "log", "arctan": "atan", "tg": "tan", "arctg": "atan", "logistic": "sigmoid", "expit": "sigmoid",
    "swish": "silu", "clamp": "clip", "hardtanh": "clip", "fabs": "abs", "absolute": "abs", "modulus": "abs",
    "maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min", "amax": "max", "amin": "min", "sgn": "sign",
    "signum": "sign", "heaviside": "step", "theta": "step", "sqr": "square", "rectify": "relu", "euler": "e",
    "ramp": "relu", "softrelu": "softplus", "root": "sqrt", "exponential": "exp", "power": "pow",
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "sinh", "cosh", "tanh")},
}  # fmt: skip

#: Functions of a (and b) that are no names of the language, written with those that are.
WRITTEN_OUT = {
    "pow": "a**b", "square": "a**2", "reciprocal": "1/a", "rsqrt": "1/sqrt(a)", "hypot": "sqrt(a**2 + b**2)",
    "log2": "log(a)/log(2)", "log10": "log(a)/log(10)", "lg": "log(a)/log(10)", "log1p": "log(1 + a)",
    "expm1": "exp(a) - 1", "exp2": "2**a", "sec": "1/cos(a)", "csc": "1/sin(a)", "cot": "1/tan(a)",
    "asin": "atan(a/sqrt(1 - a**2))", "acos": "pi/2 - atan(a/sqrt(1 - a**2))", "coth": "1/tanh(a)",
    "sech": "2/(exp(a) + exp(-a))", "asinh": "log(a + sqrt(a**2 + 1))", "acosh": "log(a + sqrt(a**2 - 1))",
    "atanh": "log((1 + a)/(1 - a))/2", "erfc": "1 - erf(a)", "relu6": "clip(a, 0, 6)",
    "leaky_relu": "max(a, 0.01*a)", "mish": "a*tanh(softplus(a))", "softsign": "a/(1 + abs(a))",
    "logsigmoid": "-softplus(-a)", "hardsigmoid": "clip(a/6 + 0.5, 0, 1)", "negative": "-a", "add": "a + b",
    "subtract": "a - b", "cbrt": "a**(1/3)", "sinc": "sin(pi*a)/(pi*a)",
    "multiply": "a*b", "mul": "a*b", "divide": "a/b", "div": "a/b", "deg2rad": "a*pi/180",
}  # fmt: skip

#: Names so alike (difflib's ratio) are taken for a slip of the hand; at 0.7 sum would be taken for sqrt.
_ALIKE = 0.75

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TOKEN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|\*\*|\S", re.ASCII)
_LIBRARIES = "np|jnp|numpy|math|cmath|torch|nn|functional|F|special|scipy|sympy|tf|jax"
#: Texts that mean something, what they are in the language, and why.
_SPELLINGS: tuple[tuple[str, str, str], ...] = (
    (r"^\s*lambda\s+[\w\s,]+:", "", "a formula is what stands after the colon"),
    (r"^\s*\w+\s*(?:\([\w\s,]*\))?\s*=(?!=)", "", "a formula is what stands after the ="),
    (r"\\(?=[a-z])", "", "names stand without a backslash"),
    (r"[−–—]", "-", "a minus is -"),
    (r"[·×⋅∙]", "*", "products are written with *"),
    (r"÷", "/", "quotients are written with /"),
    (r"π", "pi", "π is pi"),
    (r"√\s*(\w+)", r"sqrt(\1)", "a root is sqrt(...)"),
    (r"√\s*(?=\()", "sqrt", "a root is sqrt(...)"),
    (r"\|([^|]+)\|", r"abs(\1)", "|...| is abs(...)"),
    (r"²", "**2", "powers are written with **"),
    (r"³", "**3", "powers are written with **"),
    (r"\b([a-z]+)\s*(?:\^|\*\*)\s*\(?-1\)?\s*(?=\()", r"a\1", "an inverse has a name of its own"),
    (r"\b([a-z]+)\s*(?:\^|\*\*)\s*(\d+)\s*(\([^()]*\))", r"\1\3**\2", "the power of a function stands behind it"),
    (r"\^", "**", "powers are written with **"),
    (rf"\b(?:(?:{_LIBRARIES})\.)+(?=[A-Za-z])", "", "names stand without a prefix"),
    (r"\b([xyz])\.([a-z]+)\(\)", r"\2(\1)", "functions stand before their argument"),
    (r"\b(max|min)\(([^(),]+),([^(),]+),([^(),]+)\)", r"\1(\2,\1(\3,\4))", "max and min take two arguments"),
)
#: What no formula has, and what comes nearest.
_MISSING: tuple[tuple[str, str], ...] = (
    (r"[<>]|==|\b(?:if|else|where)\b", "formulas compare nothing: relu, max, min, clip, abs, sign and step choose"),
    (r"%|//|\b(?:floor|ceil|round|trunc|int|f?mod|frac|rint)\b", "formulas do not round: sign and step jump once each"),
    (r"\b(?:sum|mean|softmax|prod|norm)\b", "formulas are of single numbers: compile takes functions of many"),
    (r"\b(?:inf|nan)\b", "numbers are finite"),
    (r"\b(?:\d+(?:\.\d*)?j|[ij])\b", "numbers are real"),
)


def read_formula(text: str, variables: Sequence[str] = ("x",)) -> Expression:
    """
    >>> read_formula("2x")
    Traceback (most recent call last):
    weightwright.errors.FormulaError: formula '2x', character 2: 'x' was not expected; products are written with *: \
write 2*x
    """
    try:
        return parse(text, variables)
    except FormulaError as error:
        advice = _advise(text, tuple(variables)) if isinstance(text, str) else ""
        if not advice:
            raise
        said = re.sub(r"; (?:known are|attributes are) .*$", "", str(error))
        raise FormulaError(f"{said}; {advice}") from None


def _parses(text: str, variables: tuple[str, ...]) -> bool:
    try:
        parse(text, variables)
    except FormulaError:
        return False
    return True


def _advise(text: str, variables: tuple[str, ...]) -> str:
    """What to write instead of a text that is no formula in the variables; "" where nothing comes to mind."""
    if len(text) > _LONGEST:
        return ""
    if not text.strip():
        return "write one, as in sin(5*x)"
    for pattern, reason in _MISSING:
        found = re.search(pattern, text)
        if found is not None and found[0] not in NAMES:
            return reason
    better, reasons = _spell(text)
    if variables == _LETTERS[: len(variables)]:
        better = _name_features(better, reasons)
    better = _call_names(better, variables, reasons)
    better = _multiply(better, variables, reasons)
    point = re.sub(r"(\d),(\d)", r"\1.\2", better)
    if point != better and not re.search(r"\([^()]*,", better):
        better = point
        reasons.append("decimals have a point")
    return _worded(better, variables, reasons)


def _spell(text: str) -> tuple[str, list[str]]:
    """The text in the language's signs, and why."""
    reasons: list[str] = []
    better = text.strip()
    for pattern, replacement, reason in _SPELLINGS:
        spelled = re.sub(pattern, replacement, better)
        if spelled != better and reason not in reasons:
            reasons.append(reason)
        better = spelled.strip()
    return better, reasons


def _worded(better: str, variables: tuple[str, ...], reasons: list[str]) -> str:
    """The reasons; the formula, where what came of them is one; the box, where it has more variables."""
    write = f"{'; '.join(reasons)}: write {better}"
    if _parses(better, variables):
        return write
    if variables != _LETTERS[: len(variables)]:
        return "; ".join(reasons)
    more = next((_LETTERS[:n] for n in (2, 3) if n > len(variables) and _parses(better, _LETTERS[:n])), None)
    if more is None:
        return "; ".join(reasons)
    return f"{write}, and {_ask_for_a_box(more)}" if reasons else _ask_for_a_box(more)


def _ask_for_a_box(names: tuple[str, ...]) -> str:
    """What a formula in several variables is given."""
    lo, hi = (", ".join([end] * len(names)) for end in ("lo", "hi"))
    return f"an interval for each of {', '.join(names[:-1])} and {names[-1]} is domain=Box([{lo}], [{hi}])"


def _call_names(text: str, variables: tuple[str, ...], reasons: list[str]) -> str:
    """The text with the language's own names for what others call otherwise."""
    found = list(dict.fromkeys(_NAME.findall(text)))
    strange = [name for name in found if name not in (*variables, *NAMES, *_LETTERS)]
    spelled = {}
    for name in strange:
        takes, common = _takes(text, name), CALLED.get(name.lower(), name.lower())
        own = _own_name(name, takes, (*variables, *NAMES))
        if takes and common in WRITTEN_OUT and common not in NAMES:
            arguments = "a, b" if "b" in _NAME.findall(WRITTEN_OUT[common]) else "a"
            reasons.append(f"{name}({arguments}) is {WRITTEN_OUT[common]}")
        elif own is not None:
            spelled[name] = own
            reasons.append(f"{name} is called {own}" if common == own else f"{name} is perhaps {own}")
    letters = [name for name in strange if len(name) == 1 and name not in spelled and not _takes(text, name)]
    if len(letters) <= len(_LETTERS) and not any(letter in (*found, *spelled.values()) for letter in _LETTERS):
        spelled |= dict(zip(letters, _LETTERS, strict=False))  # a formula in t, or in u and v
        reasons += [f"{name} is called {own}" for name, own in zip(letters, _LETTERS, strict=False)]
    better = _NAME.sub(lambda name: spelled.get(name[0], name[0]), text)
    round_brackets = better.translate(str.maketrans("[{}]", "(())"))
    if round_brackets != better:
        reasons.append("brackets are round")
    return round_brackets


def _takes(text: str, name: str) -> bool:
    """Whether the name stands as that of a function: before a bracket, or before what should be in one."""
    return re.search(rf"(?<![A-Za-z_]){name}(?:\s*\(|\s+\w)", text) is not None


def _own_name(name: str, takes: bool, known: Sequence[str]) -> str | None:
    """What the language calls it: another word, other capitals, or a slip of the hand."""
    lower = name.lower()
    own = CALLED.get(lower, lower)
    if own in known and (takes or lower in known):
        return own
    if not takes:
        return None
    close = difflib.get_close_matches(lower, [*known, *CALLED], n=1, cutoff=_ALIKE)
    own = CALLED.get(close[0], close[0]) if close else ""
    return own if own in known else None


def _name_features(text: str, reasons: list[str]) -> str:
    """x0, x_1, x[2] by letters: counted from 0 where there is a 0, else from 1."""
    feature = re.compile(r"\b[a-z](?:_?(\d)\b|\[(\d)\])")
    places = [int(match[1] or match[2]) for match in feature.finditer(text)]
    first = 0 if 0 in places else 1
    if not places or max(places) - first >= len(_LETTERS):
        return text
    reasons.append(f"the variables are called {', '.join(_LETTERS[:-1])} and {_LETTERS[-1]}")
    return feature.sub(lambda match: _LETTERS[int(match[1] or match[2]) - first], text)


def _multiply(text: str, variables: tuple[str, ...], reasons: list[str]) -> str:
    """The text with * where two factors stand side by side, and brackets where a function's argument has none."""
    letters = {*variables, *_LETTERS, "pi", "e"}
    stars = text.count("*")
    text = _NAME.sub(lambda name: "*".join(name[0]) if _is_product(name[0]) else name[0], text)
    pieces: list[str] = []
    before = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        ends = before == ")" or before in letters or before[:1].isdigit()
        begins = token == "(" or _NAME.match(token) is not None or (token[0].isdigit() and not before[:1].isdigit())
        if ends and begins:
            pieces.append("*")
        elif before in NAMES and before not in letters and token != "(" and begins:
            reasons.append(f"{before} takes its argument in brackets")
            alone = text[match.end() :].lstrip()[:1] in ("", "+", "-", ")", ",")
            pieces, token = [*pieces, "(" if alone else " "], f"{token})" if alone else token
        elif pieces:
            pieces.append(text[: match.start()][len(text[: match.start()].rstrip()) :])
        pieces.append(token)
        before = match[0]
    product = "".join(pieces)
    if product.count("*") > stars:
        reasons.append("products are written with *")
    return product


def _is_product(name: str) -> bool:
    return len(name) > 1 and name not in NAMES and set(name) <= set(_LETTERS)
