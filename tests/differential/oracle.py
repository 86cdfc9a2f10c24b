"""The judge's own account of a program: what numpy says that each name holds at the end.

A program is a document of `placement-audit run`. Placements mean nothing here: a Partial input is
its reduction, a redistribution the same values. Views are numpy's views, so that a write reaches
what shares its storage.

How far a floating value may lie off is found by running the program again in noisy worlds: in a
world every rounded op has its operands and results disturbed by one unit of their dtype. Where the
worlds agree to the last bit, the answer must be exact; where they disagree about a NaN, an infinity
or an integer, nothing can be asked of that element.
"""
import numpy as np

import dtypes

EXACT = "exact"      # copies, choices, comparisons, integers: no rounding but to the result's dtype
STEPPED = "stepped"  # a function with steps, of the operands as they are: rounding of the result
ROUNDED = "rounded"  # one element from few: rounding of the result, and of what leads to it
SUMMED = "summed"    # many terms in any order and any grouping: also the sign of a zero is open


# Ops that choose between elements, or bounds, that are equal where both are zeros: which zero they
# give is open.
EITHER_ZERO = set("""
relu relu6 hardtanh clamp clamp_min clamp_max clamp_tensor maximum minimum fmax fmin amax amin max min aminmax
max_pool1d max_pool2d max_pool1d_with_indices max_pool2d_with_indices adaptive_max_pool1d adaptive_max_pool2d
elu selu celu softshrink hardshrink log_sigmoid hardsigmoid embedding_bag nll_loss binary_cross_entropy_each adam adamw
""".split())


# Ops whose definition subtracts numbers of the size of the operand, or of 1, before the result: that
# much of a rounding stays in results that are small.
SUBTRACTS = set("""
tanhshrink digamma lgamma gelu gelu_grad logit log_softmax logsumexp logcumsumexp cross_entropy mish softplus
log_sigmoid silu_grad swiglu_grad cosine_similarity log_softmax_grad softmax_grad binary_cross_entropy
binary_cross_entropy_each kl_div kl_div_each sigmoid_grad tanh_grad
""".split())


class Refused(Exception):
    """The call is not valid: shapes, dtypes, attributes or index values."""


class Unsure(Exception):
    """The definition leaves open what comes out, or this oracle does not cover the call."""


class Shared(Unsure):
    """It is left open who else sees a write."""


class Limits(Unsure):
    """An attribute of which nothing is asked but that the answer is clear."""


class Storage:
    """What views share. `open` where it is left open whether another tensor shares it."""

    def __init__(self):
        self.open = False


class Tensor:
    def __init__(self, dtype, a, storage=None):
        self.dtype, self.a = dtype, np.asarray(a)
        assert min(self.a.shape, default=0) >= 0, self.a.shape
        self.storage = storage or Storage()

    @property
    def shape(self):
        return self.a.shape

    @property
    def floating(self):
        return self.dtype in dtypes.FLOATING


class Op:
    def __init__(self, function, grade, view=False, writes=()):
        self.function, self.grade = function, grade
        self.view = view      # its results share operand 0's storage
        self.writes = writes  # the operands that its results overwrite


OPS = {}
NOW = [None]  # the world that runs now


def any_of(options):
    """One of the equally good answers: the first in the plain world, another in noisy ones."""
    world = NOW[0]
    if world is None or len(options) < 2:
        return options[0]
    world.free = True
    if world.rng is None:
        return options[0]
    return options[(1, -1)[world.turn]] if world.turn < 2 else options[world.rng.integers(len(options))]


def op(names, grade=EXACT, view=False, writes=()):
    """Registers function(tensors, attrs) under each of `names`."""
    def register(function):
        for name in names.split():
            assert name not in OPS, name
            OPS[name] = Op(function, grade, view, writes)
        return function
    return register


def find(name):
    """The op, or what it is in place of operand 0 where only `name` without its _ is registered."""
    if name in OPS:
        return OPS[name]
    if name.endswith("_") and name[:-1] in OPS:
        base = OPS[name[:-1]]
        return Op(base.function, base.grade, writes=(0,))
    raise Unsure(f"no oracle for {name}")


def refuse_unless(condition, text=""):
    if not condition:
        raise Refused(text)


def number(value):
    return float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value


class World:
    """One run of a program. Without a generator it is the plain one."""

    def __init__(self, rng=None, jitter=None, turn=0):
        self.rng, self.turn = rng, turn  # the first two noisy worlds choose otherwise, and unlike each other
        self.jitter = None if jitter is None else np.random.default_rng(jitter)
        self.tensors = {}
        self.averages = False  # whether any tensor is an average over ranks
        self.summands = 0.0  # the largest one of Partial inputs
        self.free = False  # whether something in it could as well be otherwise

    # --- noise -------------------------------------------------------------------------------

    def shaken(self, a, unit):
        return a * (1 + unit * self.rng.choice([-1.0, 1.0], np.shape(a)))

    def averaged(self, a, dtype):
        """As summands of an average may give it: added up first, they may be too large."""
        a = self.shaken(a, dtypes.EPSILON[dtype])
        return np.where(np.abs(a) > dtypes.LARGEST[dtype] / 16, a * np.inf, a) if self.turn == 0 else a

    def shaken_operand(self, tensor, grade, mixed):
        """mixed: operands of several floating dtypes, of which some numbers are computed in F32."""
        if tensor is None:
            return None
        if isinstance(tensor, list):
            return [self.shaken_operand(t, grade, mixed) for t in tensor]
        if not tensor.floating:
            return tensor
        half = tensor.dtype in ("BF16", "F16")
        unit = dtypes.EPSILON["F32" if (half and grade == ROUNDED) or (mixed and not half) else tensor.dtype]
        a = self.shaken(tensor.a, unit)
        if self.summands:
            a = a + dtypes.EPSILON[tensor.dtype] * self.summands * self.rng.choice([-1.0, 1.0], a.shape)
        return Tensor(tensor.dtype, a, tensor.storage)

    def disturbed(self, call, tensors, results):
        """`results` as they might come out of other roundings. call: (name, function, grade)."""
        name, function, grade = call
        others = results
        if too_large(tensors, grade):
            # Which intermediate overflows depends on the order: nothing is asked.
            for result in results:
                if result.floating:
                    others = [np.nan, 0.0, dtypes.LARGEST[result.dtype], np.inf, -np.inf]
                    other = others[self.turn] if self.turn < len(others) else self.rng.choice(others, result.shape)
                    result.a = np.where(np.isnan(result.a), [1.5, np.nan, np.inf, -np.inf][self.turn % 4], other)
            return
        if grade != STEPPED:
            try:
                mixed = len({t.dtype for t in flat(tensors) if t is not None and t.floating}) > 1
                others = results_of(function([self.shaken_operand(t, grade, mixed) for t in tensors]))
            except (Refused, Unsure):
                pass
        for result, other in zip(results, others):
            if not result.floating or other.shape != result.shape:
                continue
            with np.errstate(all="ignore"):
                moved = other.a - result.a
                a = np.where(np.isfinite(moved) & (moved != 0), result.a + moved, result.a)
                a = self.shaken(a, dtypes.EPSILON[result.dtype])
                beside = self.summands + (size_of(tensors) + 1.0 if name.rstrip("_") in SUBTRACTS else 0.0)
                if beside:
                    error = dtypes.EPSILON[result.dtype] * beside
                    a = np.where(a == 0, a, a + error * self.rng.choice([-1.0, 1.0], a.shape))
                if grade == SUMMED:
                    beside += size_of(tensors)
                if beside and self.turn == 0:
                    # What is left of terms that cancel may vanish.
                    a = np.where(np.abs(result.a) <= 4 * dtypes.EPSILON[result.dtype] * beside, 0.0, a)
            result.a = a
            if grade == SUMMED:
                self.turn_zeros(result)

    def turn_zeros(self, result):
        """In noisy worlds zeros are of either sign."""
        if np.any(result.a == 0):
            self.free = True
            if self.rng is not None:
                zeros = [-0.0, 0.0, self.rng.choice([-0.0, 0.0], result.shape)][min(self.turn, 2)]
                result.a = np.where(result.a == 0, zeros, result.a)

    # --- steps -------------------------------------------------------------------------------

    def call(self, name, tensors, attrs):
        """The results of an op; those written in place are the operands themselves."""
        check_limits(attrs)
        found = find(name)
        function = lambda operands: found.function(operands, attrs)
        with np.errstate(all="ignore"):
            results = results_of(function(tensors))
        self.free |= found.grade != EXACT
        if found.view:
            return results
        if found.grade != EXACT and self.rng is not None:
            self.disturbed((name, function, found.grade), tensors, results)
        for result in results:
            rounded = dtypes.round_to(result.dtype, result.a)
            result.a = np.array(rounded, order="C", copy=True)
            if self.averages and self.rng is not None and result.floating:
                # It may be kept as summands of an average, which is rounded when they are added up.
                result.a = self.averaged(result.a, result.dtype)
            result.storage = Storage()
            if name.rstrip("_") in EITHER_ZERO and result.floating:
                self.turn_zeros(result)
            if self.jitter is not None and result.floating:
                result.a = nearby(self.jitter, result.a)
        if found.writes:
            return [written(tensors[at], r, name) for at, r in zip(found.writes, results)]
        return results

    def run_step(self, step):
        if "redistribute" in step:
            source = self.tensors[step["redistribute"]]
            source.storage.open = True
            a = source.a.copy()
            if self.rng is not None and "P(avg)" in step["to"]:
                a = self.averaged(a, source.dtype)
            copy = Tensor(source.dtype, a)
            copy.storage.open = True
            self.tensors[step["out"]] = copy
            return
        if "backward" in step:
            return
        results = self.call(step["op"], self.operands(step), step["attrs"])
        if "into" in step:
            for name, result in zip(step["into"], results):
                target = self.tensors[name]
                refuse_unless(target.shape == result.shape and target.dtype == result.dtype,
                              "into takes a tensor's shape and dtype exactly")
                written(target, result, step["op"])
            return
        for name, result in zip(step.get("out", []), results):
            if name is not None:
                self.tensors[name] = result

    def operands(self, step):
        names = step["args"]
        first = next((self.tensors[n] for n in operand_names(step)), None)

        def take(arg):
            if arg is None:
                return None
            if isinstance(arg, list):
                return [take(a) for a in arg]
            if isinstance(arg, str):
                return self.tensors[arg]
            return scalar_operand(arg, first)
        return [take(arg) for arg in names]


def nearby(rng, a):
    """Other values close by; zeros move, too. What is small stays so, that what moves it further still shows."""
    near = 10 ** rng.uniform(-6, -1.5)
    by = near * rng.normal(size=a.shape)
    return np.asarray(np.where(a == 0, by, a * (1 + by)))


# Attributes whose numbers may be any: what they cut off or look for is held within the tensor.
ANY_NUMBER = ("start", "end", "diagonal", "offset", "dim", "dim0", "dim1", "dim2", "index", "value", "seed", "stream")
LIMIT = 2**20


def check_limits(attrs):
    for name, value in attrs.items():
        numbers = value if isinstance(value, list) else [value]
        if name not in ANY_NUMBER and any(isinstance(n, int) and abs(n) > LIMIT for n in numbers):
            raise Limits(f"{name} is {value}")


def size_of(tensors):
    """The largest finite magnitude among floating operands."""
    sizes = [np.abs(t.a[np.isfinite(t.a)]).max(initial=0.0) for t in flat(tensors) if t is not None and t.floating]
    return max(sizes, default=0.0)


def too_large(tensors, grade):
    """Whether squares or sums of the operands overflow, or products vanish, in ops of several terms."""
    floats = [t for t in flat(tensors) if t is not None and t.floating]
    if grade == STEPPED or (grade == ROUNDED and len([t for t in flat(tensors) if t is not None]) < 2):
        return False
    for tensor in floats:
        size = np.abs(tensor.a[np.isfinite(tensor.a) & (tensor.a != 0)])
        root = dtypes.LARGEST[tensor.dtype] ** 0.5 / 64
        if size.size and (size.max() > root or size.min() < 1 / root):
            return True
    return False


def flat(args):
    for arg in args:
        if isinstance(arg, list):
            yield from flat(arg)
        else:
            yield arg


def operand_names(step):
    """The tensors that an op step reads, by name."""
    return [arg for arg in flat(step.get("args", [])) if isinstance(arg, str)]


def scalar_operand(value, first):
    """A number among the operands takes the dtype of the first tensor, but keeps its kind."""
    dtype = first.dtype if first else "F32"
    if isinstance(value, float) and dtypes.kind(dtype) < 2:
        dtype = "F32"
    elif isinstance(value, int) and not isinstance(value, bool) and dtype == "BOOL":
        dtype = "I64"
    return Tensor(dtype, dtypes.round_to(dtype, np.asarray(value)))


def results_of(returned):
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def written(target, result, name):
    refuse_unless(target.a.flags.writeable and not shares_places(target.a),
                  f"{name}: elements of the target share a place")
    if target.storage.open:
        raise Shared("a write to storage of which it is open who shares it")
    refuse_unless(target.shape == np.broadcast_shapes(target.shape, result.shape),
                  f"{name}: the result does not fit")
    refuse_unless(dtypes.kind(result.dtype) <= dtypes.kind(target.dtype),
                  f"{name}: the result is of a higher kind")
    target.a[...] = dtypes.cast(target.dtype, result.a)
    return target


def shares_places(a):
    """Whether two elements stand at one address, as in what expand and overlapping windows give."""
    if a.size < 2 or a.flags.c_contiguous or a.flags.f_contiguous:
        return False
    addresses = sum(np.arange(n).reshape((-1,) + (1,) * (a.ndim - d - 1)) * stride
                    for d, (n, stride) in enumerate(zip(a.shape, a.strides)))
    return np.unique(addresses).size < a.size


AXIS_ERROR = np.exceptions.AxisError if hasattr(np, "exceptions") else np.AxisError


def guarded(function, name):
    """function(), numpy's own refusals as ours."""
    try:
        return function()
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, AXIS_ERROR) as error:
        raise Refused(f"{name}: {error}") from error
    except MemoryError as error:
        raise Unsure(f"{name}: too large for the oracle") from error


def has_averages(document):
    return any("P(avg)" in entry["placements"] for entry in document["inputs"].values()) or any(
        "P(avg)" in step.get("to", []) for step in document["program"])


def run(document, table, rng=None, given=None, jitter=None, turn=0):
    """The World after the program; given: other carriers of inputs; jitter: a seed by which results
    of calls are moved a little; turn: which of the noisy worlds. Raises Refused or Unsure."""
    world = NOW[0] = World(rng, jitter, turn)
    given = given or {}
    world.averages = has_averages(document)
    with np.errstate(all="ignore"):
        for name, entry in document["inputs"].items():
            a = given[name].copy() if name in given else np.array(whole(document, entry))
            if rng is not None and "P(avg)" in entry["placements"]:
                a = world.shaken(a, dtypes.EPSILON[entry["dtype"]])
            if "local" in entry and ("P(sum)" in entry["placements"] or "P(avg)" in entry["placements"]):
                world.summands = max(world.summands, largest_summand(entry))
            world.tensors[name] = Tensor(entry["dtype"], a)
    for step in document["program"]:
        if "op" in step:
            step = dict(step, attrs=table.filled(step))
        guarded(lambda step=step: world.run_step(step), step.get("op"))
    return world


# --- inputs ----------------------------------------------------------------------------------

def whole(document, entry):
    """The global carrier of an input that is given by `values` or by `local`."""
    shape = tuple(entry["shape"])
    if "values" in entry:
        return carrier_of(entry["dtype"], entry["values"], shape)
    mesh = entry.get("mesh", document["mesh"])["shape"]
    return assembled(entry["dtype"], shape, mesh, entry["placements"], entry["local"])


def largest_summand(entry):
    values = [abs(float(v)) for part in entry["local"] for v in part]
    return max((v for v in values if v < 1e30), default=0.0)


def whole_inputs(document):
    return {name: np.array(whole(document, entry)) for name, entry in document["inputs"].items()}


def carrier_of(dtype, values, shape):
    values = [number(v) for v in values]
    return np.array(values, dtypes.CARRIER[dtype]).reshape(shape)


def chunk(extent, parts, coord):
    """Of [begin, end) cut into `parts`: chunks of ceil(n / parts), the last short or empty."""
    begin, end = extent
    size = -(-(end - begin) // parts) if parts else 0
    return (min(end, begin + size * coord), min(end, begin + size * (coord + 1)))


def box_of(shape, mesh, placements, coord):
    """The slices that a rank holds under R, S(d) and P, mesh axes from the left."""
    extents = [(0, n) for n in shape]
    for parts, placement, at in zip(mesh, placements, coord):
        if placement.startswith("S("):
            dim = int(placement[2:-1]) % len(shape)
            extents[dim] = chunk(extents[dim], parts, at)
    return tuple(slice(a, b) for a, b in extents)


REDUCE = {"sum": np.add, "avg": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def assembled(dtype, shape, mesh, placements, local):
    """What the ranks' parts are together: reduced along Partial axes from the last one on."""
    parts = {}
    for coord, values in zip(np.ndindex(*mesh), local):
        box = box_of(shape, mesh, placements, coord)
        part = np.zeros(shape, dtypes.CARRIER[dtype])
        part[box] = carrier_of(dtype, values, part[box].shape)
        parts[coord] = part
    for axis in reversed(range(len(mesh))):
        parts = {front: _joined(parts, front, axis, (mesh, placements, shape))
                 for front in np.ndindex(*mesh[:axis])}
    return parts[()]


def _joined(parts, front, axis, layout):
    mesh, placements, shape = layout
    pieces = [parts[front + (at,)] for at in range(mesh[axis])]
    kind = placements[axis]
    if kind.startswith("P("):
        total = pieces[0]
        for piece in pieces[1:]:
            total = REDUCE[kind[2:-1]](total, piece)
        return total / mesh[axis] if kind == "P(avg)" else total
    if kind == "R" or not shape:
        return pieces[0]
    total = pieces[0]
    for at in range(1, mesh[axis]):
        box = box_of(shape, mesh[:axis + 1], placements, front + (at,))
        total = total.copy()
        total[box] = pieces[at][box]
    return total
