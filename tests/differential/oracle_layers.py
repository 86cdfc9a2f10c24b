"""Norms, losses, attention, gates, optimizer steps, and cotangents by their closed forms."""
import numpy as np

import dtypes
import special
from oracle import EXACT, ROUNDED, SUMMED, Tensor, Unsure, any_of, op, refuse_unless
from oracle_pointwise import broadcast, float_only, floating, one_shape, sigmoid, softplus
from oracle_reduce import order
from oracle_scan import softmax


def optional(tensors, at):
    return tensors[at] if at < len(tensors) else None


# --- normalisation -----------------------------------------------------------------------------------

def statistics(x, axes, eps):
    mean = np.mean(x, axis=axes, keepdims=True)
    # The mean of infinities of one sign is that infinity, or NaN by a formula of differences.
    mean = np.where(np.isinf(mean), any_of([mean, np.nan]), mean)
    return mean, 1 / np.sqrt(np.mean((x - mean) ** 2, axis=axes, keepdims=True) + eps)


class Form:
    """Which dims share statistics, and which share weight and bias."""

    def __init__(self, x, kind, groups=1):
        refuse_unless(x.ndim >= {"layer": 1, "batch": 2, "instance": 3, "group": 2}[kind], "dims")
        if 0 in x.shape:
            raise Unsure("statistics of nothing")
        self.shape, self.kind, self.groups = x.shape, kind, groups
        refuse_unless(kind != "group" or (groups > 0 and x.shape[1] % groups == 0), "num_groups")

    @property
    def work_shape(self):
        n, c = self.shape[0], self.shape[1] if len(self.shape) > 1 else 1
        return (n, self.groups, c // self.groups) + self.shape[2:] if self.kind == "group" else self.shape

    @property
    def axes(self):
        ndim = len(self.work_shape)
        return {"layer": (ndim - 1,), "batch": (0,) + tuple(range(2, ndim)),
                "instance": tuple(range(2, ndim)), "group": tuple(range(2, ndim))}[self.kind]

    @property
    def statistics_shape(self):
        return tuple(n for d, n in enumerate(self.work_shape) if d not in self.axes)

    def along_weight(self, weight):
        """A weight or bias so that it broadcasts with x."""
        size = self.shape[-1] if self.kind == "layer" else self.shape[1]
        refuse_unless(weight.shape == (size,), "weight and bias")
        return weight if self.kind == "layer" else weight.reshape((-1,) + (1,) * (len(self.shape) - 2))

    @property
    def weight_axes(self):
        keep = len(self.shape) - 1 if self.kind == "layer" else 1
        return tuple(d for d in range(len(self.shape)) if d != keep)


def stat_dtype(dtype):
    """Statistics of 16-bit types are F32."""
    return "F32" if dtype in ("BF16", "F16") else dtype


def norm_op(kind):
    @op(f"{kind}_norm", SUMMED)
    def run(tensors, attrs):
        dtype = float_only(tensors[:1])
        form = Form(tensors[0].a, kind, attrs.get("num_groups", 1))
        x = tensors[0].a.reshape(form.work_shape)
        mean, rstd = statistics(x, form.axes, attrs["eps"])
        out = ((x - mean) * rstd).reshape(form.shape)
        weight, bias = optional(tensors, 1), optional(tensors, 2)
        out = out if weight is None else out * form.along_weight(weight.a)
        out = out if bias is None else out + form.along_weight(bias.a)
        return [Tensor(dtype, out)] + [Tensor(stat_dtype(dtype), s.reshape(form.statistics_shape))
                                       for s in (mean, rstd)]

    @op(f"{kind}_norm_grad", SUMMED)
    def run_grad(tensors, attrs):
        grad, x, mean, rstd = tensors[:4]
        dtype = float_only([x])
        form = Form(x.a, kind, attrs.get("num_groups", 1))
        refuse_unless(grad.shape == x.shape and mean.shape == rstd.shape == form.statistics_shape, "shapes")
        stats = tuple(1 if d in form.axes else n for d, n in enumerate(form.work_shape))
        unit = ((x.a.reshape(form.work_shape) - mean.a.reshape(stats)) * rstd.a.reshape(stats))
        weight = optional(tensors, 4)
        g = (grad.a if weight is None else grad.a * form.along_weight(weight.a)).reshape(form.work_shape)
        average = lambda a: np.mean(a, axis=form.axes, keepdims=True)
        through = rstd.a.reshape(stats) * (g - average(g) - unit * average(g * unit))
        return [Tensor(dtype, through.reshape(form.shape)),
                Tensor(dtype, np.sum(grad.a * unit.reshape(form.shape), axis=form.weight_axes)),
                Tensor(dtype, np.sum(grad.a, axis=form.weight_axes))]


for _kind in ("layer", "batch", "instance", "group"):
    norm_op(_kind)


@op("batch_norm_inference", ROUNDED)
def _batch_norm_inference(tensors, attrs):
    x, mean, variance = tensors[:3]
    form = Form(x.a, "batch")
    unit = (x.a - form.along_weight(mean.a)) / np.sqrt(form.along_weight(variance.a) + attrs["eps"])
    weight, bias = optional(tensors, 3), optional(tensors, 4)
    unit = unit if weight is None else unit * form.along_weight(weight.a)
    unit = unit if bias is None else unit + form.along_weight(bias.a)
    return Tensor(float_only([x]), unit)


@op("rms_norm", SUMMED)
def _rms_norm(tensors, attrs):
    x, weight = tensors
    refuse_unless(x.a.ndim >= 1 and weight.shape == x.shape[-1:], "weight")
    dtype = float_only([x])
    if x.shape[-1] == 0:
        raise Unsure("the mean of nothing")
    factor = 1 / np.sqrt(np.mean(x.a**2, axis=-1, keepdims=True) + attrs["eps"])
    return [Tensor(dtype, x.a * factor * weight.a), Tensor(stat_dtype(dtype), factor[..., 0])]


@op("rms_norm_grad", SUMMED)
def _rms_norm_grad(tensors, attrs):
    grad, x, rstd, weight = tensors
    refuse_unless(grad.shape == x.shape and rstd.shape == x.shape[:-1] and weight.shape == x.shape[-1:], "shapes")
    if x.shape[-1] == 0:
        raise Unsure("the mean of nothing")
    r = rstd.a[..., None]
    g = grad.a * weight.a
    through = r * g - x.a * r**3 * np.mean(g * x.a, axis=-1, keepdims=True)
    lead = tuple(range(x.a.ndim - 1))
    return [Tensor(x.dtype, through), Tensor(weight.dtype, np.sum(grad.a * x.a * r, axis=lead))]


# --- routing -----------------------------------------------------------------------------------------

ROUTE_SCORES = {"softmax": lambda x: softmax(x, -1), "sigmoid": sigmoid, "sqrt_softplus": lambda x: np.sqrt(softplus(x))}


def largest_experts(choice, k, dtype, from_equals):
    """The k largest of each row. Where rounding brings others together than those that are equal from the start,
    it decides between them. from_equals: what a choice is made of, of all experts."""
    at = order(choice, True)
    ranked = np.take_along_axis(choice, at, -1)[..., :k + 1]
    sources = np.take_along_axis(from_equals, at, -1)[..., :k + 1]
    with np.errstate(invalid="ignore"):
        gaps = ranked[..., :-1] - ranked[..., 1:]
        near = np.isfinite(gaps) & (gaps <= 16 * dtypes.EPSILON[dtype] * np.maximum(np.abs(ranked[..., 1:]), 1e-3))
    same = (sources[..., :-1] == sources[..., 1:]) | (np.isnan(sources[..., :-1]) & np.isnan(sources[..., 1:]))
    if np.any(near & ~same):
        raise Unsure("rounding decides between experts")
    return at[..., :k]


@op("route_topk", SUMMED)
def _route_topk(tensors, attrs):
    logits, bias, ids = tensors[0], optional(tensors, 1), optional(tensors, 2)
    dtype = float_only([logits])
    refuse_unless(attrs["score"] in ROUTE_SCORES and logits.a.ndim >= 1, "score, dims")
    experts, k = logits.shape[-1], attrs["k"]
    refuse_unless(0 <= k <= experts, "k")
    refuse_unless(bias is None or (bias.dtype == dtype and bias.shape == (experts,)), "bias")
    refuse_unless(ids is None or (ids.dtype == "I64" and ids.shape == logits.shape[:-1] + (k,)), "ids")
    if experts == 0:
        raise Unsure("no experts")
    scores = dtypes.round_to(dtype, ROUTE_SCORES[attrs["score"]](logits.a))
    if ids is None:
        moved = scores if bias is None else dtypes.round_to(dtype, scores + bias.a)
        if bias is not None and np.any(np.isinf(bias.a)):
            raise Unsure("experts that are all first, or last")
        # Equal logits with equal biases are equal in any rounding.
        sources = logits.a if bias is None else logits.a + 1j * bias.a
        chosen = largest_experts(moved, k, dtype, sources)
    else:
        refuse_unless(not np.any((ids.a < 0) | (ids.a >= experts)), "ids")
        chosen = ids.a
    weights = np.take_along_axis(scores, chosen, -1)
    if attrs["normalise"]:
        weights = weights / (np.sum(weights, axis=-1, keepdims=True) + dtypes.round_to(dtype, np.float64(1e-20)))
    return [Tensor(dtype, scores), Tensor("I64", chosen), Tensor(dtype, weights * attrs["scale"])]


# --- losses ------------------------------------------------------------------------------------------

def bce(x, target):
    return -(target * np.maximum(np.log(x), -100) + (1 - target) * np.maximum(np.log(1 - x), -100))


def bce_with_logits(x, target):
    if not np.all(np.isfinite(target)):
        raise Unsure("a target that is not finite")
    # As PyTorch has it, no number where an infinite x meets a weight of 0.
    return np.maximum(x, 0) * (1 - target) - np.minimum(x, 0) * target + np.log1p(np.exp(-np.abs(x)))


def huber(x, target, delta):
    error = np.abs(x - target)
    return np.where(error <= delta, 0.5 * error**2, delta * (error - 0.5 * delta))


def smooth_l1(x, target, beta):
    error = np.abs(x - target)
    return np.where(error < beta, 0.5 * error**2 / beta if beta else error, error - 0.5 * beta)


def kl_div(x, target, log_target):
    if log_target:
        return np.exp(target) * (target - x)
    return np.where(target == 0, 0.0, target * np.log(target)) - target * x


def loss(name, function):
    @op(name + "_each", ROUNDED)
    def each(tensors, attrs):
        dtype = float_only(one_shape(tensors))
        return Tensor(dtype, function(*broadcast(tensors, dtype), attrs))

    @op(name, SUMMED)
    def reduced(tensors, attrs):
        dtype = float_only(one_shape(tensors))
        refuse_unless(attrs["reduction"] in ("mean", "sum"), "reduction")
        values = np.asarray(function(*broadcast(tensors, dtype), attrs))
        total = np.sum(values)
        return Tensor(dtype, np.asarray(total / np.float64(values.size)
                                        if attrs["reduction"] == "mean" else total))


loss("mse_loss", lambda x, t, attrs: (x - t) ** 2)
loss("l1_loss", lambda x, t, attrs: np.abs(x - t))
loss("huber_loss", lambda x, t, attrs: huber(x, t, attrs["delta"]))
loss("smooth_l1_loss", lambda x, t, attrs: smooth_l1(x, t, attrs["beta"]))
loss("kl_div", lambda x, t, attrs: kl_div(x, t, attrs["log_target"]))
loss("binary_cross_entropy", lambda x, t, attrs: bce(x, t))
loss("binary_cross_entropy_with_logits", lambda x, t, attrs: bce_with_logits(x, t))


def classes_of(target, count):
    refuse_unless(target.dtype in dtypes.INDICES and not np.any((target.a < 0) | (target.a >= count)), "target")
    return target.a.astype(np.int64)


@op("cross_entropy", SUMMED)
def _cross_entropy(tensors, attrs):
    logits, target = tensors
    float_only([logits])
    refuse_unless(logits.a.ndim >= 1 and target.shape == logits.shape[:-1], "target")
    ids = classes_of(target, logits.shape[-1])
    if logits.shape[-1] == 0:
        raise Unsure("no classes")
    largest = np.max(logits.a, axis=-1, keepdims=True)
    lse = np.log(np.sum(np.exp(logits.a - largest), axis=-1)) + largest[..., 0]
    own = np.take_along_axis(logits.a, ids[..., None], -1)[..., 0]
    return [Tensor(stat_dtype(logits.dtype), v) for v in (lse - own, lse)]


@op("cross_entropy_grad", ROUNDED)
def _cross_entropy_grad(tensors, attrs):
    grad, logits, target, lse = tensors
    refuse_unless(grad.shape == target.shape == lse.shape == logits.shape[:-1] and logits.a.ndim, "shapes")
    ids = classes_of(target, logits.shape[-1])
    own = np.arange(logits.shape[-1]) == ids[..., None]
    return Tensor(logits.dtype, (np.exp(logits.a - lse.a[..., None]) - own) * grad.a[..., None])


@op("nll_loss", EXACT)
def _nll_loss(tensors, attrs):
    x, target, weight = tensors[0], tensors[1], optional(tensors, 2)
    float_only([x])
    refuse_unless(x.a.ndim >= 1 and target.shape == x.shape[:-1], "target")
    ignored = target.a == attrs["ignore_index"]
    ids = classes_of(Tensor(target.dtype, np.where(ignored, 0, target.a)), x.shape[-1])
    if weight is not None:
        refuse_unless(weight.shape == x.shape[-1:], "weight")
    each = np.ones(target.shape) if weight is None else weight.a[ids]
    each = np.where(ignored, 0.0, each)
    own = np.take_along_axis(x.a, ids[..., None], -1)[..., 0]
    return [Tensor(x.dtype, np.where(ignored, 0.0, -own * each)), Tensor(x.dtype, each)]


# --- attention ---------------------------------------------------------------------------------------

def weights_and_sums(scores, seen):
    """softmax over what is seen, and the log of the sums; a row that sees nothing weighs 0."""
    scores = np.where(seen, scores, -np.inf)
    largest = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    exps = np.where(seen, np.exp(scores - shift), 0.0)
    total = np.sum(exps, axis=-1, keepdims=True)
    weights = np.where(total == 0, 0.0, exps / np.where(total == 0, 1.0, total))
    # A row that sees keys, but all infinitely far away, has no weights by the formula.
    weights = np.where((total == 0) & np.any(seen, axis=-1, keepdims=True), any_of([0.0, np.nan]), weights)
    sums = (np.log(total) + shift)[..., 0]
    return weights, np.where(sums == np.inf, any_of([np.inf, np.nan]), sums)


def weighed(weights, seen, value):
    """weights @ value; what is not seen may take part with weight 0, or no part, which differ if it is not finite."""
    whole = weights @ value
    if np.isfinite(value).all() or seen.all():
        return whole
    parts = np.where(seen[..., None], weights[..., None] * value[..., None, :, :], 0.0)
    return any_of([whole, np.sum(parts, axis=-2)])


def causal(queries, keys, offset):
    return np.arange(keys)[None, :] <= np.arange(queries)[:, None] + offset


def attention_shapes(query, key, value):
    refuse_unless(query.a.ndim == key.a.ndim == value.a.ndim == 4, "[b, h, l, e]")
    refuse_unless(query.dtype == key.dtype == value.dtype and query.floating, "one floating dtype")
    refuse_unless(query.shape[0] == key.shape[0] == value.shape[0], "batches")
    refuse_unless(query.shape[3] == key.shape[3] and key.shape[1:3] == value.shape[1:3], "sizes")


def seen_by(attrs, query, key):
    seen = np.ones((query.shape[2], key.shape[2]), bool)
    return causal(query.shape[2], key.shape[2], attrs["causal_offset"]) if attrs["causal"] else seen


@op("attention", SUMMED)
def _attention(tensors, attrs):
    query, key, value = tensors
    attention_shapes(query, key, value)
    refuse_unless(query.shape[1] == key.shape[1], "heads")
    scores = attrs["scale"] * query.a @ np.swapaxes(key.a, 2, 3)
    seen = np.broadcast_to(seen_by(attrs, query, key), scores.shape)
    weights, sums = weights_and_sums(scores, seen)
    return [Tensor(query.dtype, weighed(weights, seen, value.a)), Tensor(stat_dtype(query.dtype), sums)]


@op("attention_grad", SUMMED)
def _attention_grad(tensors, attrs):
    grad, query, key, value, result, sums = [t.a for t in tensors]
    attention_shapes(*tensors[1:4])
    refuse_unless(grad.shape == result.shape == query.shape[:3] + value.shape[3:] and (
        sums.shape == query.shape[:3]), "shapes of the results")
    refuse_unless(tensors[0].dtype == tensors[4].dtype == tensors[1].dtype and (
        tensors[5].dtype == stat_dtype(tensors[1].dtype)), "dtypes of the results")
    if not all(np.all(np.isfinite(t.a)) for t in tensors):
        raise Unsure("what meets a weight of 0 may be dropped")
    scores = attrs["scale"] * query @ np.swapaxes(key, 2, 3)
    seen = seen_by(attrs, query, key)
    weights = np.where(seen, np.exp(scores - sums[..., None]), 0.0)
    through = grad @ np.swapaxes(value, 2, 3) - np.sum(grad * result, axis=-1, keepdims=True)
    inner = attrs["scale"] * weights * through
    dtype = tensors[1].dtype
    return [Tensor(dtype, inner @ key), Tensor(dtype, np.swapaxes(inner, 2, 3) @ query),
            Tensor(dtype, np.swapaxes(weights, 2, 3) @ grad)]


@op("scaled_dot_product_attention", SUMMED)
def _scaled_dot_product_attention(tensors, attrs):
    query, key, value, mask = tensors[0], tensors[1], tensors[2], optional(tensors, 3)
    attention_shapes(query, key, value)
    refuse_unless(attrs["dropout_p"] == 0, "dropout_p")
    refuse_unless(mask is None or not attrs["is_causal"], "a mask or is_causal")
    heads, shared = query.shape[1], key.shape[1]
    refuse_unless(heads == shared or (attrs["enable_gqa"] and shared and heads % shared == 0), "heads")
    k, v = [np.repeat(t.a, heads // max(shared, 1), 1) for t in (key, value)]
    scale = attrs["scale"] or 1 / np.sqrt(query.shape[3])
    scores = scale * query.a @ np.swapaxes(k, 2, 3)
    seen = np.ones(scores.shape, bool)
    if attrs["is_causal"]:
        seen = seen & causal(query.shape[2], key.shape[2], 0)
    if mask is not None and mask.dtype == "BOOL":
        seen = seen & mask.a
    elif mask is not None:
        refuse_unless(mask.dtype == query.dtype, "the mask's dtype")
        scores = scores + mask.a
    refuse_unless(scores.shape == query.shape[:3] + (key.shape[2],), "the mask broadcasts")
    return Tensor(query.dtype, weighed(weights_and_sums(scores, seen)[0], seen, v))


@op("rope", ROUNDED)
def _rope(tensors, attrs):
    x, cos, sin = tensors
    refuse_unless(x.a.ndim >= 3 and x.shape[-1] % 2 == 0, "pairs")
    refuse_unless(cos.shape == sin.shape == (x.shape[-3], x.shape[-1] // 2), "tables")
    c, s = cos.a[:, None, :], (-sin.a if attrs["inverse"] else sin.a)[:, None, :]
    a, b = x.a[..., 0::2], x.a[..., 1::2]
    out = np.empty(x.shape)
    out[..., 0::2], out[..., 1::2] = a * c - b * s, a * s + b * c
    return Tensor(float_only([x]), out)


# --- gates and their cotangents ------------------------------------------------------------------------

def silu(x):
    return x / (1 + np.exp(-x))


def silu_slope(x):
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


def gelu_slope(x, attrs):
    if attrs["approximate"] == "tanh":
        k = np.sqrt(2 / np.pi)
        t = np.tanh(k * (x + 0.044715 * x**3))
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x)
    return 0.5 * special.erfc(-x / np.sqrt(2)) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


@op("swiglu", ROUNDED)
def _swiglu(tensors, attrs):
    dtype = float_only(one_shape(tensors))
    gate, up = broadcast(tensors, dtype)
    return Tensor(dtype, silu(gate) * up)


floating("relu_grad", lambda g, y, attrs: np.where(y <= 0, 0.0, g), EXACT)
floating("sigmoid_grad", lambda g, y, attrs: g * y * (1 - y))
floating("tanh_grad", lambda g, y, attrs: g * (1 - y * y))
floating("silu_grad", lambda g, x, attrs: g * silu_slope(x))
floating("gelu_grad", lambda g, x, attrs: g * gelu_slope(x, attrs))


@op("swiglu_grad", ROUNDED)
def _swiglu_grad(tensors, attrs):
    dtype = float_only(one_shape(tensors))
    grad, gate, up = broadcast(tensors, dtype)
    return [Tensor(dtype, grad * up * silu_slope(gate)), Tensor(dtype, grad * silu(gate))]


@op("prelu", ROUNDED)
def _prelu(tensors, attrs):
    x, weight = tensors
    dtype = float_only(tensors)
    refuse_unless(x.a.ndim >= 2 and weight.shape == (x.shape[1],), "weight")
    w = weight.a.reshape((-1,) + (1,) * (x.a.ndim - 2))
    return Tensor(dtype, np.where(x.a > 0, x.a, w * x.a))


# --- optimizer steps -------------------------------------------------------------------------------------

def like_param(tensors):
    refuse_unless(all(t.floating for t in one_shape(tensors)), "floating")


# Moments of a parameter are of this dtype, or BF16.
MOMENTS = {"F64": "F64", "F32": "F32", "BF16": "F32", "F16": "F32"}


def adam(decoupled):
    def run(tensors, attrs):
        like_param(tensors)
        refuse_unless(all(t.dtype in (MOMENTS[tensors[0].dtype], "BF16") for t in tensors[2:]), "moments")
        param, grad, m, v = [t.a for t in tensors]
        refuse_unless(attrs["step"] >= 1, "step")
        grad = grad * attrs["grad_scale"]
        if not decoupled:
            grad = grad + attrs["weight_decay"] * param
        m = attrs["beta1"] * m + (1 - attrs["beta1"]) * grad
        v = attrs["beta2"] * v + (1 - attrs["beta2"]) * grad * grad
        keep = 1 - attrs["lr"] * attrs["weight_decay"] if decoupled else 1.0
        unbiased = [1 - attrs[name] ** attrs["step"] for name in ("beta1", "beta2")]
        step = attrs["lr"] * (m / unbiased[0]) / (np.sqrt(v / unbiased[1]) + attrs["eps"])
        return {0: param * keep - step, 2: m, 3: v}
    return run


def sgd(tensors, attrs):
    like_param(tensors)
    param, grad = tensors[0].a, tensors[1].a * attrs["grad_scale"]
    grad = grad + attrs["weight_decay"] * param if attrs["weight_decay"] else grad
    if len(tensors) == 2:
        return {0: param - attrs["lr"] * grad}
    refuse_unless(attrs["step"] >= 1, "step")
    buffer = grad if attrs["step"] == 1 else (
        attrs["momentum"] * tensors[2].a + (1 - attrs["dampening"]) * grad)
    step = grad + attrs["momentum"] * buffer if attrs["nesterov"] else buffer
    return {0: param - attrs["lr"] * step, 2: buffer}


for _name, _function in {"adam_": adam(decoupled=False), "adamw_": adam(decoupled=True),
                         "sgd_": sgd, "sgd_momentum_": sgd}.items():
    _operands = {"sgd_": (0,), "sgd_momentum_": (0, 2)}.get(_name, (0, 2, 3))

    @op(_name, ROUNDED, writes=_operands)
    def _step(tensors, attrs, function=_function):
        return [Tensor(tensors[at].dtype, a) for at, a in function(tensors, attrs).items()]
