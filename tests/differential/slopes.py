"""Gradients by differences of the oracle's forward values, element by element, in F64.

An element is judged where the differences settle: on the slope where the program is smooth, between
the slopes of both sides at a corner. Where a cotangent is not finite, what has no influence on the
result's element that it belongs to must be what the finite cotangents make it.
"""
import numpy as np

import decisions
import oracle
from judge import Finding

STEP = 2.0**-10
MOST_JUDGED = 12  # elements of an input, drawn; those that are not finite are always judged
# A slope may be off by this share of itself, and of the sum of what is added up in the result, whose
# rounding the differences divide by the step.
RELATIVE, OF_SUM, LEAST = 2e-6, 1e-9, 1e-14


class Function:
    """The weighted sum of a program's result as a function of one element of an input."""

    def __init__(self, document, table):
        self.document, self.table = document, table
        self.step = next(s for s in document["program"] if "backward" in s)
        world = oracle.run(document, table)
        self.result = world.tensors[self.step["backward"]].a.copy()
        cotangent = self.step.get("cotangent")
        self.inputs = oracle.whole_inputs(document)
        self.weights = np.ones(self.result.shape) if cotangent is None else self.inputs[cotangent]
        self.finite = np.isfinite(self.weights)
        self.tied = has_ties(document, world)
        self.saturated = any(
            np.any(np.abs(t.a) > 12) for t in world.tensors.values() if t.floating) and any(
            step.get("op") in SATURATING for step in document["program"])
        self.at_origin = meets_origin(document, world)
        self.chained = sum("op" in step for step in document["program"]) > 1
        self.kinked = self.chained and meets_kink(document, world)
        self.has_nan = any(t.floating and not np.isfinite(t.a).all() for n, t in world.tensors.items()
                           if n != cotangent)

    def results(self, changed, jitter=None):
        world = oracle.run(self.document, self.table, given=changed, jitter=jitter)
        return world.tensors[self.step["backward"]].a

    def moved(self, name, at, by, base=None, jitter=None):
        """The result with one element moved; base, jitter: around other values."""
        inputs = dict(base or {})
        a = np.array(inputs.get(name, self.inputs[name]))
        a[at] += by
        inputs[name] = a
        return self.results(inputs, jitter)

    def singular(self, name, at):
        """Whether something in between jumps, or has a slope without bound, where this element stands."""
        here = oracle.run(self.document, self.table).tensors
        for by in (STEP / 64, -STEP / 64):
            a = np.array(self.inputs[name])
            a[at] += by
            there = oracle.run(self.document, self.table, given={name: a}).tensors
            for key, tensor in here.items():
                with np.errstate(all="ignore"):
                    moved = np.abs(there[key].a.astype(float) - tensor.a.astype(float))
                if np.any(~np.isfinite(there[key].a) & np.isfinite(tensor.a)) or np.any(moved > 20 * abs(by)):
                    return True
        return False

    def weighted(self, result):
        return float(np.sum(np.where(self.finite, self.weights * np.where(self.finite, result, 0), 0)))


def averaged_ranks(document, name):
    """Of an input that is P(avg) over n ranks the gradient is that of what each rank holds."""
    entry = document["inputs"][name]
    mesh = entry.get("mesh", document["mesh"])["shape"]
    return int(np.prod([n for n, p in zip(mesh, entry["placements"]) if p == "P(avg)"], dtype=np.int64))


def check_gradients(document, table, outcome, seed):
    """Raises Finding; oracle.Unsure where nothing can be said."""
    function = Function(document, table)
    if not np.all(np.isfinite(function.result)):
        raise oracle.Unsure("a result that is not finite")
    rng = np.random.default_rng(seed)
    for name in function.step["grads"]:
        if decisions.no_gradient(document, name):
            continue
        dtype, gradient = outcome.results[f"grad.{name}"]
        if gradient.shape != function.inputs[name].shape or dtype != document["inputs"][name]["dtype"]:
            raise Finding("gradient", f"grad.{name}: {dtype}{list(gradient.shape)}")
        if dtype != "F64":
            continue  # differences of values say little of it
        gradient = gradient * averaged_ranks(document, name)
        for at in chosen(rng, gradient):
            check_element(function, name, at, float(gradient[at]))


def chosen(rng, gradient):
    places = list(np.ndindex(*gradient.shape))
    if len(places) > MOST_JUDGED:
        odd = [p for p in places if not np.isfinite(gradient[p])][:4]
        places = odd + [places[i] for i in sorted(rng.choice(len(places), MOST_JUDGED, replace=False))]
    return places


def check_element(function, name, at, got):
    if not np.isfinite(function.inputs[name][at]):
        return
    if not function.finite.all() and not without_influence(function, name, at):
        return
    slopes = Slopes(function, name, at)
    if not slopes.settled:
        return
    low, high = slopes.bounds
    if np.isfinite(got) and (function.tied or function.kinked or (function.chained and low != high)):
        return  # of several corners at once each has a slope of its own choice
    room = RELATIVE * max(abs(low), abs(high)) + OF_SUM * slopes.scale + slopes.doubt + LEAST
    if np.isnan(got) and (function.at_origin or (function.chained and function.has_nan) or (
            function.chained if low != high else low == 0 and (function.has_nan or function.singular(name, at)))):
        return  # 0 times an infinite slope or a NaN, where one op feeds the next
    if not low - room <= got <= high + room:
        wanted = repr(low) if low == high else f"from {low!r} to {high!r}"
        raise Finding("gradient", f"grad.{name}: element {list(at)} is {got!r}, expected {wanted}")


def meets_origin(document, world):
    """Whether an op sees the zeros where its slope is 0 / 0, as PyTorch's is: hypot(0, 0), xlogy(0, 0)."""
    for step in document["program"]:
        operands = [world.tensors[name].a for name in oracle.operand_names(step)]
        if step.get("op") in ("hypot", "xlogy") and np.any((operands[0] == 0) & (operands[1] == 0)):
            return True
    return False


def meets_kink(document, world):
    """Whether an op sees zeros at which its slope jumps, or is as steep as its eps is small."""
    for step in document["program"]:
        operands = [world.tensors[name].a for name in oracle.operand_names(step)]
        if step.get("op") in KINKED and any(np.any(a == 0) for a in operands):
            return True
    return False


def has_ties(document, world):
    """Whether an op that puts elements in order sees equal ones, of which any may stand for the others."""
    for step in document["program"]:
        if step.get("op") in ORDERED:
            a = world.tensors[step["args"][0]].a
            if np.unique(a).size < a.size:
                return True
        if step.get("op") in NORMS and "inf" in [str(v).lstrip("-") for v in step["attrs"].values()]:
            return True
        if step.get("op") in EXTREMES and len(document["program"]) > 2:
            for name in step["args"]:
                a = world.tensors[name].a
                if a.dtype == np.float64 and np.unique(a).size < a.size:
                    return True
        if step.get("op") == "clamp_tensor":
            x, low, high = [world.tensors[name].a for name in step["args"]]
            if np.any(x == low) or np.any(x == high):
                return True
    return False


def accepts(function, name, at, got):
    """Whether a slope that differences show, or one between two of them, is `got`."""
    slopes = Slopes(function, name, at)
    if not slopes.settled:
        return False
    low, high = slopes.bounds
    if function.kinked or (function.chained and low != high):
        return True
    room = RELATIVE * max(abs(low), abs(high)) + OF_SUM * slopes.scale + slopes.doubt + LEAST
    return low - room <= got <= high + room


class Slopes:
    """Slopes on both sides, at two distances."""

    def __init__(self, function, name, at):
        value = lambda result: function.weighted(result)
        step = STEP * max(1.0, abs(function.inputs[name][at]))
        here = value(function.result)
        far = {k: value(function.moved(name, at, k * step)) for k in (-2, -1, 1, 2)}
        near = {k: value(function.moved(name, at, k * step / 16)) for k in (-1, 1)}
        self.scale = float(np.sum(np.abs(np.where(function.finite, function.weights, 0) * function.result)))
        values = list(far.values()) + list(near.values()) + [here]
        self.settled = bool(np.all(np.isfinite(values)))
        if not self.settled:
            return
        ahead, behind = (near[1] - here) / (step / 16), (here - near[-1]) / (step / 16)
        ahead_far, behind_far = (far[1] - here) / step, (here - far[-1]) / step
        size = max(abs(ahead), abs(behind), abs(ahead_far), abs(behind_far))
        noise = 1e-11 * self.scale * 16 / step * 1e-3
        self.doubt = noise
        smooth = 8 * (far[1] - far[-1]) - (far[2] - far[-2])
        centre, centre_near = smooth / (12 * step), (near[1] - near[-1]) / (step / 8)
        # At a corner the sides differ at all distances alike; where a curve is smooth, ever less.
        curved = abs(ahead - behind) <= 0.2 * abs(ahead_far - behind_far)
        if curved or abs(ahead - behind) <= 1e-3 * size + noise:
            # Smooth: both estimates of the slope agree.
            self.settled = abs(centre - centre_near) <= 1e-4 * size + noise
            self.doubt += 10 * abs(centre - centre_near)
            self.bounds = (float(centre), float(centre))
            return
        # A corner: each side's slope is the same at both distances.
        self.settled = all(abs(a - b) <= 0.02 * size + noise
                           for a, b in ((ahead, ahead_far), (behind, behind_far)))
        self.doubt += 0.03 * size
        self.bounds = (float(min(ahead, behind)), float(max(ahead, behind)))


# What may be no number by the op's own mathematics: a result that is normalised stays 1 or 0 where it
# has but one element, yet its slope is a difference of what is not finite then; a padding is a factor 0.
NORMALISED = {"softmax", "softmin", "log_softmax", "std", "var", "std_mean", "var_mean", "layer_norm", "rms_norm",
              "batch_norm", "group_norm", "instance_norm", "cosine_similarity", "scaled_dot_product_attention",
              "attention", "cross_entropy", "nll_loss", "logsumexp", "logcumsumexp", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "scalar_pow", "route_topk"}
# Of equal elements any may stand for the others.
ORDERED = {"max_pool1d", "max_pool2d", "max_pool1d_with_indices", "max_pool2d_with_indices",
           "adaptive_max_pool1d", "adaptive_max_pool2d", "sort", "msort", "topk", "kthvalue", "median", "median_dim", "nanmedian", "nanmedian_dim", "mode",
           "cummax", "cummin", "max_dim", "min_dim", "route_topk"}
# In chains what one of them shares out between equal elements lies beside the slopes of the whole.
EXTREMES = {"min", "max", "amin", "amax", "aminmax", "embedding_bag"}
KINKED = {"relu", "leaky_relu", "prelu", "abs", "elu", "celu", "selu", "cosine_similarity", "l1_loss", "sign", "hardshrink",
          "softshrink", "threshold"}
NORMS = {"norm", "linalg_vector_norm", "dist", "cdist", "pairwise_distance", "renorm"}
# Far from 0 these are constant but for what rounding hides.
SATURATING = {"elu", "celu", "selu", "gelu", "silu", "mish", "sigmoid", "log_sigmoid", "tanh", "tanhshrink", "erf", "erfc",
              "softplus", "logaddexp", "logaddexp2", "exp", "exp2", "expm1", "swiglu", "softsign", "atan",
              "binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits_each"}
ZERO_FACTORS = ("self", "value", "alpha", "beta", "weight", "negative_slope", "scale", "input_scale", "lambd")


def without_influence(function, name, at):
    """Whether the elements whose cotangents are not finite stay as they are when this one moves.

    That must hold around these values, and around those in between, too: a product with what happens
    to be 0 does depend on the other factor, and 0 times infinity is no number."""
    if function.has_nan or function.tied or function.saturated or any(step.get("op") in NORMALISED for step in function.document["program"]):
        return False
    if any(step.get("attrs", {}).get(key) in (0, 0.0, "inf", "-inf", "nan") for step in function.document["program"]
           for key in ZERO_FACTORS):
        return False
    if any(step.get("op") == "lerp_scalar" and step["attrs"]["weight"] == 1 for step in function.document["program"]):
        return False  # 1 - weight is a factor
    odd = ~function.finite
    for jitter in (None, 1, 2, 3, 4):
        rng = np.random.default_rng(jitter)
        base = {} if jitter is None else {
            n: oracle.nearby(rng, a) for n, a in function.inputs.items()
            if a.dtype == np.float64 and n != function.step.get("cotangent")}
        try:
            here = function.results(base, jitter)[odd]
            for by in (1e-3, -1e-3, 1e-7):
                if not np.array_equal(function.moved(name, at, by, base, jitter)[odd], here):
                    return False
        except (oracle.Refused, oracle.Unsure):
            return False
    return True
