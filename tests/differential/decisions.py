"""Differences on purpose: what is answered otherwise than the oracle, or refused, by a stated decision.

Each line is precise and counted. `where` names the page that says so.
"""
import re

import numpy as np

import dtypes
import oracle


def on_several_ranks(document):
    """Some tensor lies on more than one rank, so it may be cut."""
    meshes = [document["mesh"]] + [entry["mesh"] for entry in document["inputs"].values() if "mesh" in entry]
    return any(np.prod(mesh["shape"]) > 1 for mesh in meshes)


class Decision:
    """late: also where the refusal comes from a rank, as only the run can show it. applies: of which
    programs it may be said at all."""

    def __init__(self, name, pattern, why, where, late=False, applies=None):
        self.name, self.why, self.where, self.late = name, why, where, late
        self.pattern, self.applies = re.compile(pattern), applies or (lambda document: True)


COPIES = r"of a dim that is cut, or of a tensor that had to move, for which ranks made a copy"
REORDERED = r"was given other sizes while its elements were not in row-major order, so some ranks may hold a copy"
# Products, convolutions, norms, attention and losses: their kernels take factors of one floating dtype.
FACTORS = (r"(addbmm|addmm|addmv|addr|baddbmm|bmm|conv\w*|dot|einsum|inner|kron|lerp\w*|linear\w*|matmul|mm|mv|outer|tensordot|"
           r"vdot|grouped_mm\w*|\w*_norm|\w*_grad|batch_norm_inference|attention\w*|"
           r"scaled_dot_product_attention|rope|cross_entropy\w*|nll_loss|swiglu\w*|prelu|cdist)")

# Refusals of calls that the oracle takes. Each names the op and comes before anything runs, unless
# the line says otherwise.
REFUSALS = [
    Decision("in place keeps its placement", r": \w[\w.]*: .* would have to move, because .* in-place op must "
             r"keep its placement|passes only with .*; redistribute self first", "what is written stays where it is",
             "docs/concepts.md", applies=on_several_ranks),
    Decision("into keeps its placement", r": \w+: out(\[\d+\])? stands as .*, which the op cannot give,.*"
             r"out= never moves", "a tensor for a result never moves", "docs/concepts.md", applies=on_several_ranks),
    Decision("a view of a copy is not written", r": \w+: \S+ cannot be written in place: it (is a view " + COPIES +
             "|" + REORDERED + ")", "on one rank the write would reach the operand, on several it would not",
             "docs/adr/0024, docs/concepts.md", late=True, applies=on_several_ranks),
    Decision("a view of a copy is not read after a write", r": (\w+|the end of the program): \S+ (is a view " + COPIES + "|" + REORDERED +
             "), and what it is a view of was written since", "the copy holds what was there before",
             "docs/adr/0024, docs/concepts.md", applies=on_several_ranks),
    Decision("elements that share a place are not written", r": \w+: \S+ cannot be written in place: it repeats "
             r"elements", "several of them stand at one address", "docs/concepts.md", late=True),
    Decision("floating only", r": \w[\w.]*: .*(where a floating type is needed|[Mm]ust be floating|need a floating "
             r"dtype|the input must be floating|of one floating dtype)", "integers are cast with `to` first",
             "docs/ops"),
    Decision("factors of one floating dtype", r": " + FACTORS + r": .*(it takes a floating dtype: cast with `to` first"
             r"|they must be of one dtype)", "products are of one floating dtype", "docs/ops"),
    Decision("shifts of integers", r": bitwise_(left|right)_shift\w*: \w+ is BOOL; it takes integers: cast with `to` first",
             "a truth value is no number of bits", "docs/ops"),
    Decision("a number that the elements can be", r": \w+: \w+ is \S+, but must be (whole|0 or 1|from \S+ to .*) where "
             r"(\w+|the result) is (BOOL|U8|I32|I64)\.", "nothing is rounded, cut off or wrapped on the way",
             "docs/concepts.md, docs/adding_an_op.md"),
    Decision("windows of unfold_backward", r": unfold_backward: (dimension is \[-\d+\], but must be at least 0|grad .* has no "
             r"windows in a last dim)", "grad has a dim more than the result; unfold gives windows of one element or more",
             "docs/ops/view_orders.md"),
    Decision("a source for each index", r": put_?: source .* must have the index's shape", "as scatter has it", "docs/ops"),
    Decision("a divisor 0 of integers", r": \w+_scalar_?: value is -?0, by which (U8|I32|I64) has no", "also where no element is there to divide",
             "docs/ops"),
    Decision("groups of one head and more", r": scaled_dot_product_attention: query \[\d+, 0, .* a multiple of it that is not 0",
             "no heads are no multiple of the keys'", "docs/ops/scaled_dot_product_attention.md"),
    Decision("values of a sequence have a dim", r": (searchsorted|bucketize): self has 0 dims; its rule takes at least 1",
             "the rule names their last dim", "docs/ops"),
    Decision("strides that allow no view", r": (view|view_as): strides .* of local .* allow no view", "the strides of a rank's "
             "share decide; reshape copies", "docs/ops", late=True),
    Decision("an extreme or a selection of nothing", r": \w+: all dims of \[.*\] hold no element, and (an extreme|a "
             r"selection) of none has no value", "amax and amin have identities, selections have none", "docs/ops"),
]


# Gradients that the differences of values do not show.
CONSTANTS = Decision("class weights are constants", "", "no gradient reaches nll_loss's weight", "docs/ops/nll_loss.md")
EQUAL_INDICES = Decision("equal indices of a write", "", "the cotangent of what is written is read at its index, "
                         "also where a later write hid it, as in PyTorch", "docs/ops/index.md")
CORNER = Decision("a corner", "", "where a slope jumps any of both sides' may be the gradient, and of equal elements any "
                  "may stand for the others; PyTorch shares it out, or takes one", "docs/verification.md")
# Values of sums of summands.
SUMMANDS = Decision("summands beside what is not finite", "", "a summand times an infinity may be NaN where the sum times it "
                    "is none", "docs/concepts.md, `finite` of placement-audit ops", applies=on_several_ranks)
WRAPPED = Decision("sums of integers out of range", "", "they wrap where they are added up, which may be after they have become "
                   "numbers of a wider dtype", "docs/concepts.md", applies=on_several_ranks)
WIDER = Decision("a scalar of a wider integer type", "", "it takes part as the number that it is, and only the result is of the "
                 "narrower dtype", "docs/concepts.md")
# Values that PyTorch gives otherwise, while the oracle, written from the definition, agrees with ours.
ALONE = Decision("PyTorch alone differs", "", "dtypes that it does not promote, elements that it leaves open",
                 "docs/testing.md")
STRICTER = Decision("PyTorch takes more", "", "a call that the op's definition refuses: shapes that do not fit, lists of another "
                    "length", "docs/ops")
ALL = REFUSALS + [CONSTANTS, EQUAL_INDICES, CORNER, SUMMANDS, WRAPPED, WIDER, ALONE, STRICTER]
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
    # Those counted from the end may be some of those counted from the front.
    return values is None or len(set(values)) < len(values) or any(v < 0 for v in values)


def of_refusal(text, document):
    """The decision that a refusal follows, or None."""
    for decision in REFUSALS:
        if decision.pattern.search(text) and decision.applies(document) and (
                decision.late or not re.search(r"rank \d+: ", text)):
            return decision
    return None


WRAPPING = {"I32": 2.0**31, "I64": 2.0**63}


def sums_out_of_range(document, placements, world):
    """WRAPPED where what is added up of a Partial sum of integers exceeds them before a wider dtype; else None."""
    def may_wrap(step):
        wide = {world.tensors[name].dtype for name in step.get("out", []) if name in world.tensors}
        for name in oracle.operand_names(step):
            dtype = world.tensors[name].dtype
            if dtype in WRAPPING and "P(sum)" in placements.get(name, []) and wide - {dtype}:
                return True
        return False
    sums = [a for a in document["inputs"].values() if a["dtype"] in WRAPPING]
    huge = any(sum(abs(float(v)) for v in flat_numbers(entry)) >= WRAPPING[entry["dtype"]] for entry in sums)
    return WRAPPED if huge and any(may_wrap(step) for step in document["program"] if "op" in step) else None


def wider_scalars(document, world):
    """WIDER where an op of integers takes a tensor without dims that a narrower one beside it cannot hold; else None."""
    for step in document["program"]:
        given = [world.tensors[name] for name in oracle.operand_names(step)]
        if any(t.floating for t in given):
            continue
        ranges = [dtypes.INTEGER_RANGE[t.dtype] for t in given if t.a.ndim and t.dtype != "BOOL"]
        for tensor in given:
            if not tensor.a.ndim and any(not low <= int(tensor.a) <= high for low, high in ranges):
                return WIDER
    return None


def flat_numbers(entry):
    return entry["values"] if "values" in entry else [v for part in entry["local"] for v in part]


DIVISIONS = ("div", "div_", "addcdiv", "addcdiv_")


def summands_beside(document, table, placements, world):
    """SUMMANDS where a step's P(sum) or P(avg) operand meets one of those that the op lists as `finite` and
    that is not, or is a divisor 0; None where there is no such step. placements: of every name."""
    def is_summed(name):
        return any(p in ("P(sum)", "P(avg)") for p in placements.get(name, []))

    def is_odd(name, divides):
        a = world.tensors[name].a
        return a.size and not (np.isfinite(a).all() and not (divides and np.any(a == 0)))
    for step in document["program"]:
        finite = table.ops[step["op"]].get("finite", []) if "op" in step else []
        names = [(arg["name"], name) for arg, given in zip(table.ops[step["op"]]["args"], step["args"])
                 for name in (given if isinstance(given, list) else [given]) if isinstance(name, str)] if finite else []
        summed = [name for _, name in names + [("", name) for name in step.get("into", [])] if is_summed(name)]
        if any(label in finite and is_odd(name, step["op"] in DIVISIONS) and any(s != name for s in summed)
               for label, name in names):
            return SUMMANDS
    return None
