"""Programs to try: single calls, chains, writes through views, results into tensors, gradients."""
import numpy as np

import attributes
import calls
import dtypes
import operands
import oracle
import placing
from oracle import OPS, Refused, Tensor, Unsure

# Programs of each kind, in a hundred.
KINDS = {"single": 34, "chain": 16, "reduced": 10, "strided": 6, "views": 12, "gradient": 16, "cotangent": 6,
         "into": 4, "refused": 6}
ATTEMPTS = 12
MOST_ELEMENTS = 400  # of an operand; more shows nothing more, and takes the oracle long


class Builder:
    """A document as it grows."""

    def __init__(self, rng, table, style="any"):
        self.rng, self.table, self.style = rng, table, style
        self.mesh = placing.mesh_of(rng)
        self.kinds = placing.KINDS
        self.alike = {}  # placements by shape, where operands of one shape are placed alike
        self.document = {"mesh": {"shape": self.mesh}, "inputs": {}, "program": []}

    def input(self, tensor, style=None):
        name = f"x{len(self.document['inputs'])}"
        placements = self.alike.get(tensor.shape) if style is None else None
        if placements is None:
            placements = placing.placements_of(self.rng, self.mesh, (tensor.dtype, self.kinds), tensor.a.ndim,
                                               style or self.style)
        if self.style == "alike":
            self.alike[tensor.shape] = placements
        self.document["inputs"][name] = placing.entry(self.rng, self.mesh, tensor.dtype, tensor.a, placements)
        return name

    def names_of(self, args, known):
        """Names of operands: those in `known` ({id: name}) and new inputs for the others."""
        def name(arg):
            if arg is None:
                return None
            if isinstance(arg, list):
                return [name(a) for a in arg]
            if id(arg) not in known:
                known[id(arg)] = self.input(arg, "cut" if arg.dtype == "BOOL" and self.rng.random() < 0.8
                                            else None)
            return known[id(arg)]
        return [name(arg) for arg in args]

    def call(self, call, known, outs=1):
        at = len(self.document["program"])
        out = [f"y{at}" if i == 0 else f"y{at}_{i}" for i in range(outs)]
        self.document["program"].append({"op": call.op, "args": self.names_of(call.args, known),
                                         "attrs": jsonable(call.attrs), "out": out})
        return out

    def redistribute(self, name, tensor):
        to = placing.placements_of(self.rng, self.mesh, (tensor.dtype, self.kinds), tensor.a.ndim)
        out = f"r{len(self.document['program'])}"
        self.document["program"].append({"redistribute": name, "to": to, "out": out})
        return out

    def run(self):
        return oracle.run(self.document, self.table)


def jsonable(value):
    """Attributes as JSON has them."""
    if isinstance(value, dict):
        return {name: jsonable(v) for name, v in value.items()}
    if isinstance(value, float) and not np.isfinite(value):
        return operands.listed(np.asarray(value))[0]
    return value


def results_of(table, call):
    """The results of a call by the oracle; raises Refused or Unsure."""
    if any(t.a.size > MOST_ELEMENTS for t in oracle.flat(call.args) if t is not None):
        raise Unsure("too large")
    world = oracle.World()
    copies = {}

    def copied(arg):
        if isinstance(arg, list):
            return [copied(a) for a in arg]
        if arg is None:
            return None
        return copies.setdefault(id(arg), Tensor(arg.dtype, arg.a.copy()))
    attrs = table.filled({"op": call.op, "attrs": call.attrs})
    return oracle.guarded(lambda: world.call(call.op, [copied(a) for a in call.args], attrs), call.op)


def drawn(rng, table, op, fixed=None, special=0.3):
    """A call that the oracle takes, and its results; None where none was found."""
    # Cotangents by name are asked of operands that belong together more or less.
    special = special / 6 if op.endswith("_grad") else special
    for _ in range(ATTEMPTS):
        try:
            call = calls.draw(rng, table, op, fixed, special)
            return call, results_of(table, call)
        except (Refused, Unsure):
            continue
        except (IndexError, ZeroDivisionError, KeyError):
            continue  # sizes of which no call can be made
    return None


def single(rng, table, op):
    # What is written in place cannot move: mostly a placement that its rule keeps, and one for all operands.
    builder = Builder(rng, table, str(rng.choice(["cut", "alike", "any"], p=[0.3, 0.5, 0.2]))
                      if table.ops[op]["in_place"] else "any")
    found = drawn(rng, table, op)
    if found is None:
        return None
    call, results = found
    out = builder.call(call, {}, len(results))
    if rng.random() < 0.25:
        builder.redistribute(out[0], results[0])
    return builder.document


def refused(rng, table, op):
    """A call that the oracle does not take, or with a number of which it is not asked."""
    for _ in range(ATTEMPTS):
        try:
            call = calls.draw(rng, table, op)
        except (IndexError, ZeroDivisionError, KeyError):
            continue
        if rng.random() < 0.7:
            call = calls.broken(rng, call)
        try:
            results_of(table, call)
        except (Refused, oracle.Limits):
            builder = Builder(rng, table)
            builder.call(call, {}, max(1, table.ops[op]["num_outputs"]))
            return builder.document
        except Unsure:
            continue
    return None


REDUCTIONS = ("max", "min", "amax", "amin", "max", "min", "amax", "amin", "sum", "prod", "mean", "any", "all", "nansum", "count_nonzero")


def reduced(rng, table, op):
    """The op on what a reduction over cut dims leaves: each rank's part, and of ranks without elements what
    changes nothing."""
    builder = Builder(rng, table, "cut")
    found = drawn(rng, table, str(rng.choice(REDUCTIONS)), special=0.5)
    if found is None:
        return None
    call, results = found
    operand = call.args[0]
    if operand.floating and operand.a.size and rng.random() < 0.2:
        operand.a.reshape(-1)[rng.integers(operand.a.size)] = rng.choice([np.nan, np.inf, -np.inf])
        results = results_of(table, call)
    known = {}
    outs = builder.call(call, known, 1)
    known[id(results[0])] = outs[0]
    builder.style = "whole" if rng.random() < 0.5 else "any"
    return builder.document if extended(builder, known, results[0], op, 0.3) else None


def strided(rng, table, op):
    """The op on operands that are views: columns, transposes, expansions, steps."""
    builder = Builder(rng, table)
    found = drawn(rng, table, op)
    if found is None:
        return None
    call, results = found
    known, keep = {}, []
    for tensor in oracle.flat(call.args):
        if tensor is not None and tensor.a.ndim and rng.random() < 0.7:
            known[id(tensor)] = as_view(builder, tensor, keep)
    builder.call(call, known, len(results))
    return builder.document


def as_view(builder, tensor, keep):
    """The name of a view that has the tensor's values."""
    rng, a, at = builder.rng, tensor.a, len(builder.document["program"])
    dim = int(rng.integers(a.ndim))
    way = str(rng.choice(["select", "column", "slice", "transpose", "expand"]))
    if way == "expand" and not (a.shape[dim] > 1 and np.array_equal(
            a, np.repeat(np.take(a, [0], dim), a.shape[dim], dim), equal_nan=a.dtype == float)):
        way = "select"
    if way in ("select", "column"):
        dim = a.ndim if way == "column" else dim
        base = np.stack([other_values(rng, tensor), a, other_values(rng, tensor)], dim)
        way, attrs = "select", {"dim": dim, "index": 1}
    elif way == "slice":
        base = np.repeat(a, 2, dim)
        attrs = {"dim": dim, "start": 1, "end": 2 * a.shape[dim], "step": 2}
    elif way == "transpose":
        base, attrs = np.swapaxes(a, 0, dim), {"dim0": 0, "dim1": dim}
    else:
        base, attrs = np.take(a, [0], dim), {"size": list(a.shape)}
    base = Tensor(tensor.dtype, np.ascontiguousarray(base).reshape(base.shape))
    keep.append(base)
    out = f"v{at}"
    builder.document["program"].append({"op": way, "args": [builder.input(base)], "attrs": attrs, "out": [out]})
    return out


def other_values(rng, tensor):
    return operands.values(rng, tensor.dtype, tensor.shape, "small")


# --- chains ----------------------------------------------------------------------------------------

def operand_positions(table, op, tensor):
    """Where in a call of `op` the tensor may stand."""
    positions = []
    for place, arg in enumerate(table.ops[op]["args"]):
        if arg["kind"] == "list" or place > 2:
            continue
        index = arg["name"] in calls.INDEX_ARGS
        mask = arg["name"] in calls.MASK_ARGS
        fits = tensor.dtype == "BOOL" if mask else tensor.dtype in dtypes.INDICES if index else True
        if fits:
            positions.append(place)
    return positions


def extended(builder, known, current, op, special):
    """Appends a call of `op` on the tensor `current`; its results, or None."""
    positions = operand_positions(builder.table, op, current)
    if not positions:
        return None
    place = positions[0] if builder.rng.random() < 0.7 else int(builder.rng.choice(positions))
    found = drawn(builder.rng, builder.table, op, {place: current}, special)
    if found is None:
        return None
    call, results = found
    outs = builder.call(call, known, len(results))
    for name, result in zip(outs, results):
        known[id(result)] = name
    return list(zip(outs, results))


def chain(rng, table, op, special=0.25):
    """The op on the result of one to three others, or they on its."""
    builder = Builder(rng, table)
    length = int(rng.integers(2, 5))
    ops = chainable(table)
    names = [str(rng.choice(ops)) for _ in range(length)]
    names[int(rng.integers(length))] = op
    found = drawn(rng, table, names[0], special=special)
    if found is None:
        return None
    call, results = found
    known = {id(t): None for t in ()}
    outs = builder.call(call, known, len(results))
    current = list(zip(outs, results))
    keep = [t for _, t in current] + list(oracle.flat(call.args))  # so that ids stay theirs
    for name in names[1:]:
        out, tensor = current[int(rng.integers(len(current)))]
        if rng.random() < 0.2:
            out = builder.redistribute(out, tensor)
            tensor = Tensor(tensor.dtype, tensor.a)
        known[id(tensor)] = out
        keep.append(tensor)
        more = extended(builder, known, tensor, name, special)
        if more is not None:
            current = more
            keep += [t for _, t in more]
    return builder.document


_CHAINABLE = {}


def chainable(table):
    """Ops that the oracle has and that overwrite nothing."""
    if id(table) not in _CHAINABLE:
        _CHAINABLE[id(table)] = sorted(
            name for name, spec in table.ops.items()
            if name in OPS and not spec["in_place"] and not name.endswith("_grad"))
    return _CHAINABLE[id(table)]


# --- views and writes --------------------------------------------------------------------------------

WRITES = ("fill_", "zero_", "neg_", "abs_", "add_", "mul_", "add_scalar_", "mul_scalar_", "copy_",
          "clamp_min_", "masked_fill_", "relu_", "sub_", "tril_", "index_fill_", "index_add_", "scatter_value_",
          "masked_fill_tensor_", "sign_", "scatter_", "index_copy_", "square_", "exp_", "arange_", "eye_")
SURE_VIEWS = ("view", "expand", "squeeze", "unsqueeze", "transpose", "permute", "select", "narrow", "slice",
              "chunk", "split", "split_with_sizes", "tensor_split", "unbind", "diagonal", "unfold", "flatten",
              "unflatten", "t", "mT", "movedim", "swapdims", "swapaxes", "moveaxis", "atleast_1d", "atleast_2d",
              "atleast_3d", "view_as", "expand_as", "broadcast_to", "ravel", "reshape", "reshape_as")


def views(rng, table, op):
    """A tensor, a view of it (or a view of that), a write to one of them, and what all hold then."""
    builder = Builder(rng, table, "cut" if rng.random() < 0.85 else "any")
    view_op = op if op in SURE_VIEWS else str(rng.choice(SURE_VIEWS))
    write_op = op if op.endswith("_") and op not in SURE_VIEWS else str(rng.choice(WRITES))
    found = drawn(rng, table, view_op, special=0.1)
    if found is None:
        return None
    call, results = found
    base = call.args[0]
    known = {}
    outs = builder.call(call, known, len(results))
    names = {known[id(base)]: base}
    names.update(zip(outs, results))
    keep = [base] + results
    if rng.random() < 0.3:
        at = int(rng.integers(len(outs)))
        known[id(results[at])] = outs[at]
        more = extended(builder, known, results[at], str(rng.choice(SURE_VIEWS)), 0.1)
        if more:
            names.update(more)
            keep += [t for _, t in more]
    for _ in range(int(rng.integers(1, 3))):
        target = str(rng.choice(list(names)))
        known[id(names[target])] = target
        written = write(builder, known, names[target], write_op)
        if not written:
            return None
        write_op = str(rng.choice(WRITES))
    for name in names:
        builder.document["program"].append({"op": "clone", "args": [name], "attrs": {}, "out": [f"c_{name}"]})
    try:
        builder.run()
    except (Refused, Unsure):
        return None
    return builder.document


def write(builder, known, tensor, op):
    found = drawn(builder.rng, builder.table, op, {0: tensor}, 0.1)
    if found is None:
        return False
    call, results = found
    builder.call(call, known, len(results))
    return True


def into(rng, table, op):
    """Results written into tensors that are there."""
    found = drawn(rng, table, op if not op.endswith("_") else str(rng.choice(chainable(table))))
    if found is None or oracle.find(found[0].op).view or oracle.find(found[0].op).writes:
        return None
    call, results = found
    builder = Builder(rng, table)
    builder.call(call, {}, len(results))
    step = builder.document["program"][0]
    del step["out"]
    style = "any" if rng.random() < 0.6 else "cut"
    step["into"] = [builder.input(Tensor(r.dtype, operands.values(rng, r.dtype, r.shape, "ties")), style)
                    for r in results]
    for name in step["into"]:
        builder.document["program"].append({"op": "clone", "args": [name], "attrs": {}, "out": [f"c_{name}"]})
    return builder.document


# --- gradients ---------------------------------------------------------------------------------------

MOST_FOR_GRADIENTS = 40


def gradient(rng, table, op, special_cotangent=False):
    """One to three ops of F64 operands, and the gradients of what leads to the last result."""
    ops = [name for name in chainable(table) if table.ops[name]["differentiable"]]
    length = int(rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1]))
    names = [str(rng.choice(ops)) for _ in range(length)]
    names[int(rng.integers(length))] = op if op in ops else names[0]
    builder = Builder(rng, table)
    builder.kinds = ("sum", "avg", "max", "min")  # P(prod) has no gradient
    known, keep, current = {}, [], None
    for name in names:
        fixed = {} if current is None else {0: current[1]}
        found = floating_call(rng, table, name, fixed)
        if found is None or (special_cotangent and not all_floating(table, found[0])):
            break
        call, results = found
        outs = builder.call(call, known, len(results))
        keep += results + list(oracle.flat(call.args))
        pairs = [(o, r) for o, r in zip(outs, results) if r.dtype == "F64" and r.a.size <= 64]
        if not pairs:
            break
        current = pairs[int(rng.integers(len(pairs)))]
        known[id(current[1])] = current[0]
    return None if current is None else backward(builder, current, special_cotangent)


def floating_call(rng, table, op, fixed):
    """A call whose floating operands are F64, small and mostly ordinary."""
    for _ in range(ATTEMPTS):
        found = drawn(rng, table, op, fixed, special=0.3)
        if found is None:
            return None
        tensors = [t for t in oracle.flat(found[0].args) if t is not None]
        floats = [t for t in tensors if t.floating]
        if floats and all(t.dtype == "F64" and not extreme(t.a) for t in floats) and all(
                t.a.size <= MOST_FOR_GRADIENTS for t in tensors):
            return found
    return None


def all_floating(table, call):
    """But for indices and masks: an integer that is 0 is a factor that no neighbour differs from."""
    ids = calls.INDEX_ARGS if call.op in ("cross_entropy", "nll_loss") else set(calls.INDEX_ARGS) - {"target"}
    names = [a["name"] for a in table.ops[call.op]["args"]]
    return all(t.floating for name, arg in zip(names, call.args) if name not in tuple(ids) + calls.MASK_ARGS
               for t in oracle.flat([arg]) if t is not None)


def extreme(a):
    """Numbers around which a step is nothing, or everything."""
    size = np.abs(a[np.isfinite(a) & (a != 0)])
    return bool(np.any((size > 1e3) | (size < 1e-3)))


def leading_to(document, name):
    """Names on which a result depends."""
    before = {name}
    for step in reversed(document["program"]):
        if before & set(step["out"]):
            before |= {n for n in oracle.flat(step["args"]) if n is not None}
    return before


def backward(builder, result, special_cotangent):
    rng, (name, tensor) = builder.rng, result
    before = leading_to(builder.document, name)
    grads = [n for n, e in builder.document["inputs"].items() if e["dtype"] == "F64" and n in before]
    if not grads:
        return None
    step = {"backward": name, "grads": grads}
    if special_cotangent or rng.random() < 0.8:
        a = rng.integers(-8, 9, tensor.shape) / 4
        a = np.where(a == 0, 1.0, a)
        if special_cotangent:
            flat = a.reshape(-1)
            if not flat.size:
                return None
            flat[rng.integers(flat.size)] = rng.choice([np.inf, -np.inf, np.nan])
        step["cotangent"] = builder.input(Tensor("F64", a), "cut" if special_cotangent else None)
    builder.document["program"].append(step)
    return builder.document


def cotangent(rng, table, op):
    return gradient(rng, table, op, special_cotangent=True)


MAKERS = {"single": single, "chain": chain, "views": views, "gradient": gradient, "cotangent": cotangent,
          "into": into, "refused": refused, "reduced": reduced, "strided": strided}


def program(rng, table, op, kinds=None):
    """(kind, document); the document is None where none was found. kinds: those to choose from."""
    shares = {kind: share for kind, share in KINDS.items() if not kinds or kind in kinds}
    kind = list(shares)[rng.choice(len(shares), p=np.array(list(shares.values())) / sum(shares.values()))]
    return kind, MAKERS[kind](rng, table, op)
