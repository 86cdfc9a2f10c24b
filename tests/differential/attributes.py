"""Attributes of calls: those of a sample, changed within what the operands allow (and now and then beyond)."""
import numpy as np

LAST = 2**63 - 1


def dim(rng, ndim):
    """Counted from either end; 0 for a tensor of no dims."""
    return int(rng.integers(-ndim, ndim)) if ndim else int(rng.choice([0, -1]))


def distinct_dims(rng, ndim, count):
    return [int(d) - (ndim if rng.random() < 0.3 else 0) for d in rng.permutation(ndim)[:count]]


def some_dims(rng, ndim):
    return distinct_dims(rng, ndim, int(rng.integers(0, ndim + 1)))


def factored(rng, total, longest=4):
    """Sizes whose product is `total`, perhaps one of them as -1."""
    sizes, left = [], total
    while len(sizes) < rng.integers(0, longest) and left != 1:
        divisors = [d for d in range(1, min(left, 64) + 1) if left % d == 0] if left else [0, 1, 2, 3]
        sizes.append(int(rng.choice(divisors)))
        left = left // sizes[-1] if sizes[-1] else left
        if total == 0 and 0 in sizes:
            break
    if total == 0:
        sizes += [] if 0 in sizes else [0]
    else:
        sizes.append(left)
    if rng.random() < 0.15:
        sizes.insert(int(rng.integers(len(sizes) + 1)), 1)
    if rng.random() < 0.3 and sizes and (total or sizes.count(0) == 0):
        sizes[int(rng.integers(len(sizes)))] = -1
    return [int(s) for s in sizes]


def expanding(rng, shape):
    """Sizes that dims of size 1 grow to, and dims before them."""
    sizes = [int(rng.choice([1, 2, 3, 5])) if n == 1 else (-1 if rng.random() < 0.3 else n) for n in shape]
    return [int(rng.choice([1, 2, 3])) for _ in range(rng.integers(0, 3))] + sizes


def number(rng, special=0.12):
    if rng.random() < special:
        return str(rng.choice(["inf", "-inf", "nan"]))
    return float(rng.choice([0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.75, 3.0, 0.1, -0.0]))


def whole_number(rng):
    return float(rng.choice([0, 1, -1, 2, -2, 3, 5, 7]))


def pads(rng, ndim, least):
    count = int(rng.integers(1, min(ndim, 3) + 1)) if ndim else 0
    return [int(rng.integers(least, 4)) for _ in range(2 * count)]


def order(rng, special=True):
    """Of a norm."""
    return [2.0, 1.0, 3.0, 0.0, 0.5, "inf", "-inf"][rng.choice(7, p=[.3, .15, .1, .1, .1, .15, .1])]


def pieces(rng, total):
    sizes, left = [], total
    while left > 0 and len(sizes) < 4:
        sizes.append(int(rng.integers(0, left + 1)))
        left -= sizes[-1]
    return sizes + [left]


def of_name(op, name, shape):
    """function(rng) for attributes that mean the same in most ops, by name; None for others."""
    ndim, total = len(shape), int(np.prod(shape, dtype=np.int64))
    table = {
        "dim0": lambda r: dim(r, ndim), "dim1": lambda r: dim(r, ndim), "dim2": lambda r: dim(r, ndim),
        "axis0": lambda r: dim(r, ndim), "axis1": lambda r: dim(r, ndim),
        "start_dim": lambda r: dim(r, ndim), "end_dim": lambda r: dim(r, ndim),
        "dimension": lambda r: dim(r, ndim),
        "keepdim": lambda r: bool(r.random() < 0.5), "descending": lambda r: bool(r.random() < 0.5),
        "largest": lambda r: bool(r.random() < 0.5), "right": lambda r: bool(r.random() < 0.5),
        "out_int32": lambda r: bool(r.random() < 0.3), "accumulate": lambda r: bool(r.random() < 0.5),
        "include_self": lambda r: bool(r.random() < 0.6), "equal_nan": lambda r: bool(r.random() < 0.5),
        "log_target": lambda r: bool(r.random() < 0.5), "inverse": lambda r: bool(r.random() < 0.5),
        "reduction": lambda r: str(r.choice(["mean", "sum"])), "mode": lambda r: int(r.integers(3)),
        "diagonal": lambda r: int(r.integers(-3, 4)), "offset": lambda r: int(r.integers(-2, 3)),
        "correction": lambda r: float(r.choice([1.0, 0.0, 2.0, 0.5])),
        "ord": order, "p": order, "k": lambda r: int(r.integers(0, 5)),
        "alpha": lambda r: float(r.choice([1, -1, 2, 0, 0.5])),
        "beta": lambda r: float(r.choice([1, 0, 2, 0.5])),
        "min": number, "max": number,
        "exponent": lambda r: float(r.choice([0, 1, 2, 3, -1, 0.5, -0.5, 2.5])),
        "self": lambda r: float(r.choice([0.0, 1.0, 2.0, 0.5, -1.0])),
        "nan": number, "posinf": number, "neginf": number,
        "fill_value": number, "other": number, "value": number, "weight": lambda r: number(r, 0.05),
        "threshold": lambda r: float(r.choice([0.0, 0.5, -1.0])), "lambd": lambda r: float(r.choice([0.5, 0.25, 1.0])),
        "negative_slope": lambda r: float(r.choice([0.01, 0.0, -0.5])),
        "chunks": lambda r: int(r.integers(1, 5)), "sections": lambda r: int(r.integers(1, 5)),
        "split_size": lambda r: int(r.integers(1, 5)), "index": lambda r: int(r.integers(-3, 3)),
        "length": lambda r: int(r.integers(0, 4)), "step": lambda r: int(r.choice([1, 1, 2, 3])),
        "dtype": lambda r: str(r.choice(["F64", "F32", "BF16", "F16", "I64", "I32", "U8", "BOOL"])),
    }
    return table.get(name)


def of_op(op, name, shapes):
    """function(rng) for attributes that depend on the op; None for others."""
    shape = shapes[0] if shapes and isinstance(shapes[0], tuple) else ()
    ndim, total = len(shape), int(np.prod(shape, dtype=np.int64))
    base = op.rstrip("_")
    if base in ("view", "reshape") and name in ("size", "shape"):
        return lambda r: factored(r, total)
    if base in ("expand", "broadcast_to"):
        return lambda r: expanding(r, shape)
    if base == "unflatten" and name == "sizes":
        return lambda r: factored(r, shape[0] if ndim else 1, 3)
    if name == "dims" and base == "permute":
        return lambda r: distinct_dims(r, ndim, ndim)
    if name == "dims" and base == "flip":
        return lambda r: some_dims(r, ndim)
    if name == "dims" and base == "rot90":
        return lambda r: distinct_dims(r, ndim, 2)
    if name in ("repeats", "dims") and base in ("repeat", "tile"):
        return lambda r: [int(r.integers(0, 4)) for _ in range(ndim + int(r.integers(0, 2)))]
    if base == "repeat_interleave" and name == "repeats":
        return lambda r: int(r.integers(0, 4))
    if base == "split_with_sizes" and name == "split_sizes":
        return lambda r: pieces(r, shape[0] if ndim else 0)
    if base in ("slice", "slice_scatter", "narrow", "slice_grad") and name in ("start", "end"):
        return lambda r: int(r.choice([0, 1, 2, -1, -2, 3, LAST] if base != "narrow" else [0, 1, 2, -1]))
    if base in ("constant_pad_nd", "_pad_circular") and name == "pad":
        return lambda r: pads(r, ndim, -1 if base[0] == "c" else 0)
    if name == "padding" and "_pad" in base:
        count = 4 if base.endswith("2d") else 2
        return lambda r: [int(r.integers(0, 3)) for _ in range(count)]
    if name == "output_size" and ("upsample" in base or "adaptive" in base):
        count = 2 if "2d" in base else 1
        tail = shape[-count:] if ndim >= count else (1,) * count
        return lambda r: [n if r.random() < 0.35 and n else int(r.integers(1, 7)) for n in tail]
    if base.startswith("new_") and name == "size":
        return lambda r: [int(n) for n in r.choice([0, 1, 2, 3, 5], r.integers(0, 3))]
    if base == "unfold" and name == "size":
        return lambda r: int(r.integers(0, 4))
    if name == "shifts":
        return None
    return None


def dim_attribute(op, kind, ndim):
    """`dim`: one dim, or a list of them, as its type says."""
    if op == "msort":
        return lambda r: 0  # it is the first one, always
    if kind == "ints":
        return lambda r: some_dims(r, ndim)
    return lambda r: dim(r, ndim)


def mutated(rng, table, op, attrs, shapes, share=0.5):
    """The attributes with some of them drawn anew. Shapes are the operands' own."""
    result = dict(attrs)
    first = next((s for s in shapes if isinstance(s, tuple)), ())
    for spec in table.ops[op]["attrs"]:
        name = spec["name"]
        if name not in result or rng.random() > share:
            continue
        if spec.get("default", 0) is None and rng.random() < 0.3:
            result[name] = None
            continue
        draw = of_op(op, name, shapes)
        if draw is None and name == "dim":
            draw = dim_attribute(op, spec["type"], len(first))
        draw = draw or of_name(op, name, first)
        if draw is not None:
            result[name] = fitting(draw(rng), spec["type"])
    return result


def fitting(value, kind):
    if kind == "int" and (isinstance(value, str) or isinstance(value, float)):
        return int(float(value)) if np.isfinite(float(value)) else 3
    if kind == "double" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
