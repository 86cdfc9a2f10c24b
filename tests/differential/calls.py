"""One call of an op: a sample's shapes and attributes, changed, with operands of some dtype."""
import numpy as np

import attributes
import dtypes
import operands
from oracle import Tensor

INDEX_ARGS = ("index", "indices", "ids", "target", "offsets", "counts", "repeats", "keys")
MASK_ARGS = ("mask", "condition")
# Ops whose one operand is class ids, and the attribute that bounds them.
BOUNDED_SELF = {"bincount": "minlength", "one_hot": "num_classes", "sort_by_key": "num_keys"}
SORTED_ARGS = ("boundaries", "sorted_sequence")
DTYPES = ("F64", "F32", "BF16", "F16", "I64", "I32", "U8", "BOOL")
DTYPE_WEIGHTS = np.array([0.36, 0.16, 0.07, 0.06, 0.18, 0.06, 0.06, 0.05])


class Call:
    """args: Tensors, None, and lists of them."""

    def __init__(self, op, args, attrs):
        self.op, self.args, self.attrs = op, args, attrs


def sample_of(rng, table, op):
    samples = table.samples[op]
    return samples[rng.integers(len(samples))]


def shapes_and_dtypes(document):
    """As the call's args: (shape, dtype), None, and lists of them."""
    def take(arg):
        if arg is None:
            return None
        if isinstance(arg, list):
            return [take(a) for a in arg]
        entry = document["inputs"][arg]
        return tuple(entry["shape"]), entry["dtype"]
    return [take(arg) for arg in document["program"][0]["args"]]


def sizes_anew(rng, shapes):
    """{old size: new size} for all sizes of a sample, so that equal sizes stay equal."""
    old = sorted({n for shape in shapes for n in shape})
    if rng.random() < 0.2:
        return {}
    return {n: int(rng.choice([0, 1, 2, 3, 4, 5, n], p=[.04, .14, .2, .2, .15, .07, .2])) for n in old
            if n > 1 or rng.random() < 0.1}


SIZE_ATTRIBUTES = ("input_size", "size", "num_embeddings", "grad_size", "num_classes", "minlength",
                   "num_keys", "output_size")


def resized(attrs, op, sizes):
    """Attributes that hold sizes of operands, changed with them."""
    change = lambda n: sizes.get(n, n)
    result = {}
    for name, value in attrs.items():
        holds_sizes = name in SIZE_ATTRIBUTES and (op.endswith("_grad") or name in (
            "num_classes", "minlength", "num_keys"))
        if holds_sizes:
            value = [change(n) for n in value] if isinstance(value, list) else change(value)
        result[name] = value
    return result


def is_pointwise(spec):
    """All operands broadcast by the rule."""
    left = spec["rule"].split("->")[0].replace(" ", "")
    return bool(left) and set(left.split(",")) == {"*"}


def broadcast_shapes(rng, count, in_place):
    """A shape and others that broadcast with it."""
    sizes = [0, 1, 2, 3, 4, 5, 7]
    ndim = int(rng.choice([0, 1, 2, 3, 4], p=[.08, .3, .35, .2, .07]))
    full = tuple(int(n) for n in rng.choice(sizes, ndim, p=[.04, .16, .22, .24, .16, .1, .08]))
    shapes = []
    for place in range(count):
        if rng.random() < 0.6 or (in_place and place == 0):
            shapes.append(full)
            continue
        part = full[int(rng.integers(0, ndim + 1)):]
        shapes.append(tuple(1 if rng.random() < 0.3 else n for n in part))
    return shapes


def dtype_of(rng, allowed=DTYPES):
    weights = np.array([w for d, w in zip(DTYPES, DTYPE_WEIGHTS) if d in allowed])
    return str(rng.choice([d for d in DTYPES if d in allowed], p=weights / weights.sum()))


# --- index operands ------------------------------------------------------------------------------

def index_bound(op, attrs, shapes, place):
    """Index values lie in [0, bound); of a list operand `place` says which."""
    base, first = op.rstrip("_"), shapes[0]
    dim = attrs.get("dim")
    if base in BOUNDED_SELF:
        return attrs[BOUNDED_SELF[base]]
    if base in ("take", "put"):
        return int(np.prod(first))
    if base in ("index", "index_put"):
        return first[(attrs["dims"] or list(range(8)))[place]]
    if base in ("embedding", "embedding_bag"):
        return first[0]
    if base == "embedding_grad":
        return attrs["num_embeddings"]
    if base == "gather_grad":
        return attrs["size"][dim]
    if base == "index_select_grad":
        return attrs["size"]
    if base == "cross_entropy_grad":
        return shapes[1][-1]
    if base in ("cross_entropy", "nll_loss", "route_topk"):
        return first[-1] if first else 1
    if base == "offset2bag":
        return 10
    return first[dim % len(first)] if first else 1


def index_values(rng, name, op, attrs, shapes, shape, place=0):
    """Values of an operand that addresses, counts or divides."""
    base, n = op.rstrip("_"), int(np.prod(shape))
    if name == "counts":
        rows = shapes[0][0]
        groups = max(n, 1)
        most = rows // groups if "slots" in base else rows
        if "slots" in base:
            return rng.integers(0, most + 1, n).reshape(shape)
        cuts = np.sort(rng.integers(0, rows + 1, n))
        return np.diff(np.concatenate([[0], cuts])).reshape(shape)
    if name == "repeats":
        return rng.integers(0, 4, n).reshape(shape)
    if name == "offsets":
        total = int(np.prod(shapes[1] if len(shapes) > 1 else (0,)))
        begins = np.sort(rng.integers(0, total + 1, n))
        begins[:1] = 0
        return begins.reshape(shape)
    bound = index_bound(op, attrs, shapes, place)
    low = -bound if base in ("take", "put", "index", "index_put") and rng.random() < 0.3 else 0
    if base == "nll_loss" and rng.random() < 0.3:
        values = rng.integers(0, max(bound, 1), n)
        return np.where(rng.random(n) < 0.3, attrs["ignore_index"], values).reshape(shape)
    values = rng.integers(min(low, 0), max(bound, 1), n)
    if rng.random() < 0.3 and n <= bound and low == 0:
        values = rng.permutation(max(bound, 1))[:n]
    return values.reshape(shape)


# --- operands ------------------------------------------------------------------------------------

def operand(rng, context, name, shape, place=0):
    """A Tensor for the argument `name`. context: op, attrs, shapes, dtype, style."""
    op, attrs, shapes, dtype, style = context
    base = op.rstrip("_")
    if name in MASK_ARGS:
        return Tensor("BOOL", operands.values(rng, "BOOL", shape, "distinct"))
    bounded = name == "self" and base in BOUNDED_SELF
    if name in INDEX_ARGS and not (name == "target" and base not in (
            "cross_entropy", "cross_entropy_grad", "nll_loss")) or bounded:
        values = index_values(rng, name, op, attrs, shapes, shape, place)
        index = "I32" if rng.random() < 0.15 else "I64"
        return Tensor(index, values.astype(dtypes.CARRIER[index]))
    a = operands.values(rng, dtype, shape, style)
    if name in SORTED_ARGS:
        a = np.sort(a, axis=-1) if a.ndim else a
    return Tensor(dtype, a)


def draw(rng, table, op, fixed=None, special=0.3):
    """A Call. fixed: {argument position: Tensor} that are there already."""
    fixed = fixed or {}
    spec = table.ops[op]
    document = sample_of(rng, table, op)
    attrs = table.filled(document["program"][0])
    forms = shapes_and_dtypes(document)
    names = [a["name"] for a in spec["args"]]
    shapes = [f if f is None else [s for s, _ in f] if isinstance(f, list) else f[0] for f in forms]
    if is_pointwise(spec) and rng.random() < 0.6:
        shapes = pointwise_shapes(rng, shapes, fixed, spec["in_place"])
        sizes = {}
    else:
        flat = [s for shape in shapes if shape is not None for s in (shape if isinstance(shape, list) else [shape])]
        sizes = sizes_anew(rng, flat)
        for place, tensor in fixed.items():
            if isinstance(shapes[place], tuple) and len(shapes[place]) == tensor.a.ndim:
                sizes.update(dict(zip(shapes[place], tensor.shape)))
        change = lambda shape: tuple(sizes.get(n, n) for n in shape)
        shapes = [s if s is None else [change(t) for t in s] if isinstance(s, list) else change(s)
                  for s in shapes]
    for place, tensor in fixed.items():
        if isinstance(shapes[place], tuple):
            shapes[place] = tensor.shape
    attrs = attributes.mutated(rng, table, op, resized(attrs, op, sizes), shapes)
    args = operands_of(rng, (op, attrs, shapes, names), forms, fixed, special)
    settle(op, attrs, args)
    return Call(op, args, attrs)


def pointwise_shapes(rng, shapes, fixed, in_place):
    if fixed:
        full = next(iter(fixed.values())).shape
        others = [full if rng.random() < 0.6 else tuple(
            1 if rng.random() < 0.3 else n for n in full[int(rng.integers(0, len(full) + 1)):])
            for _ in shapes]
        return others
    return broadcast_shapes(rng, len(shapes), in_place)


def operands_of(rng, call, forms, fixed, special):
    op, attrs, shapes, names = call
    dtype = next((t.dtype for t in fixed.values() if t.dtype != "BOOL"), None) or dtype_of(rng)
    # A sample of integers or BOOL says that the op takes them.
    form_dtypes = {f[1] for f in forms if isinstance(f, tuple)}
    if not fixed and "F64" not in form_dtypes and rng.random() < 0.7 and form_dtypes:
        dtype = sorted(form_dtypes)[0]
    style = operands.style_of(rng, special)
    args = []
    for place, name in enumerate(names):
        if place in fixed:
            args.append(fixed[place])
            continue
        if place >= len(shapes) or shapes[place] is None:
            args.append(None)
            continue
        own = dtype_of(rng) if rng.random() < 0.08 and not op.endswith("_grad") else dtype
        if rng.random() < 0.2:
            style = operands.style_of(rng, special)
        context = (op, attrs, shapes, own, style)
        if isinstance(shapes[place], list):
            args.append([operand(rng, context, name, s, i) for i, s in enumerate(shapes[place])])
        else:
            args.append(operand(rng, context, name, shapes[place]))
    while args and args[-1] is None:
        args.pop()
    return args


def broken(rng, call):
    """The call with an operand of another number of dims or dtype, or an attribute that is no good."""
    args, attrs = list(call.args), dict(call.attrs)
    places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    draw = rng.random()
    if draw < 0.6 and places:
        place = int(rng.choice(places))
        shape = list(args[place].shape)
        shape = [[], shape[1:], shape + [2], [1] + shape, shape[::-1]][rng.integers(5)]
        args[place] = Tensor(args[place].dtype, np.resize(args[place].a, shape).astype(args[place].a.dtype))
    elif draw < 0.8 and places:
        place = int(rng.choice(places))
        dtype = dtype_of(rng)
        with np.errstate(all="ignore"):
            args[place] = Tensor(dtype, dtypes.cast(dtype, np.nan_to_num(args[place].a)))
    elif attrs:
        name = str(rng.choice(list(attrs)))
        attrs[name] = worse(rng, attrs[name])
    return Call(call.op, args, attrs)


def worse(rng, value):
    """Numbers at the limits, and lists of another length."""
    limits = [0, -1, 1, 7, -2**63, 2**63 - 1, 2**62, 2**31]
    if isinstance(value, bool) or isinstance(value, str) or value is None:
        return value
    if isinstance(value, list):
        longer = value + [1] if rng.random() < 0.5 else value[:-1]
        return [int(rng.choice(limits))] * max(1, len(value)) if rng.random() < 0.5 else longer
    pick = limits[rng.integers(len(limits))]
    return float(pick) if isinstance(value, float) else int(pick)


def settle(op, attrs, args):
    """Attributes that follow from values."""
    if op == "repeat_interleave_tensor" and args[1] is not None:
        attrs["output_size"] = int(args[1].a.sum())
    if op == "masked_scatter_backward":
        attrs["sizes"] = [int(args[0].a.size)]
