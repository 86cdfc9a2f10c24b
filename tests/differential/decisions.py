"""Differences on purpose: what is answered otherwise than the oracle, or refused, by a stated decision.

Each line is precise and counted. `where` names the page that says so.
"""
import re


class Decision:
    """late: also where the refusal comes from a rank, as only the run can show it."""

    def __init__(self, name, pattern, why, where, late=False):
        self.name, self.why, self.where, self.late = name, why, where, late
        self.pattern = re.compile(pattern)


# Refusals of calls that the oracle takes. Each names the op and comes before anything runs, unless
# the line says otherwise.
REFUSALS = [
    Decision("in place keeps its placement", r": \w[\w.]*: .* would have to move, because .* in-place op must "
             r"keep its placement|passes only with .*; redistribute self first", "what is written stays where it is", "docs/concepts.md"),
    Decision("into keeps its placement", r": \w+: out(\[\d+\])? stands as .*, which the op cannot give,.*"
             r"out= never moves", "a tensor for a result never moves", "docs/concepts.md"),
    Decision("a view of a copy is not written", r": \w+: \S+ cannot be written in place: it is a view of a copy that "
             r"its operand was redistributed to", "on one rank the write would reach the operand, on several it "
             "would not", "docs/concepts.md", late=True),
    Decision("elements that share a place are not written", r": \w+: \S+ cannot be written in place: it repeats "
             r"elements", "several of them stand at one address", "docs/concepts.md", late=True),
    Decision("floating only", r": \w[\w.]*: .*(where a floating type is needed|[Mm]ust be floating|need a floating "
             r"dtype|the input must be floating|of one floating dtype)", "integers are cast with `to` first",
             "docs/ops"),
    Decision("an extreme or a selection of nothing", r": \w+: all dims of \[.*\] hold no element, and (an extreme|a "
             r"selection) of none has no value", "amax and amin have identities, selections have none", "docs/ops"),
    Decision("integer division by zero", r"integer division by zero", "only the values show it, so a rank finds it",
             "docs/ops/binary.md", late=True),
]


# Gradients that the differences of values do not show.
CONSTANTS = Decision("class weights are constants", "", "no gradient reaches nll_loss's weight", "docs/ops/nll_loss.md")
EQUAL_INDICES = Decision("equal indices of a write", "", "the cotangent of what is written is read at its index, "
                         "also where a later write hid it, as in PyTorch", "docs/ops/index.md")
CORNER = Decision("a corner", "", "where a slope jumps any of both sides' may be the gradient, and of equal elements any "
                  "may stand for the others; PyTorch shares it out, or takes one", "docs/verification.md")
# Values that PyTorch gives otherwise, while the oracle, written from the definition, agrees with ours.
ALONE = Decision("PyTorch alone differs", "", "dtypes that it does not promote, elements that it leaves open", "")
ALL = REFUSALS + [CONSTANTS, EQUAL_INDICES, CORNER, ALONE]
WRITES = {"scatter": (1, 2), "index_copy": (1, 2), "put": (1, 2), "index_put": (2, 1)}


def no_gradient(document, name):
    """The decision by which the gradient of an input is not what the values say, or None."""
    for step in document["program"]:
        if step.get("op") == "nll_loss" and len(step["args"]) > 2:
            if step["args"][2] == name or any(step["args"][2] in s.get("out", []) for s in document["program"]):
                return CONSTANTS
        places = WRITES.get(step.get("op"))
        if places and not step["attrs"].get("accumulate") and repeated(document, step["args"][places[0]]):
            return EQUAL_INDICES
    return None


def repeated(document, index):
    """Whether an index operand may hold a position twice."""
    names = index if isinstance(index, list) else [index]
    if len(names) != 1 or names[0] not in document["inputs"]:
        return True
    values = document["inputs"][names[0]].get("values")
    return values is None or len(set(values)) < len(values)


def of_refusal(text):
    """The decision that a refusal follows, or None."""
    for decision in REFUSALS:
        if decision.pattern.search(text) and (decision.late or not re.search(r"rank \d+: ", text)):
            return decision
    return None
