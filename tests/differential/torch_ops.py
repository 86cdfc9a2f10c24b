"""Ops as PyTorch has them: by ATen's name, by another spelling, or by a function of several ops."""
import torch

F = torch.nn.functional
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Ours: ATen's name with its overload.
SPELT = {
    "pow": "pow.Tensor_Scalar", "pow_tensor": "pow.Tensor_Tensor", "clamp_tensor": "clamp.Tensor",
    "masked_fill": "masked_fill.Scalar", "masked_fill_tensor": "masked_fill.Tensor",
    "lerp_scalar": "lerp.Scalar", "scatter_value": "scatter.value", "index_fill": "index_fill.int_Scalar",
    "scatter": "scatter.src", "where": "where.self", "bitwise_left_shift": "bitwise_left_shift.Tensor",
    "bitwise_right_shift": "bitwise_right_shift.Tensor",
    "repeat_interleave": "repeat_interleave.self_int", "to": "_to_copy",
    "pow_": "pow_.Scalar", "pow_tensor_": "pow_.Tensor",
}


class Unlike(Exception):
    """PyTorch has no op that takes this call."""


def value_of(attr):
    if isinstance(attr, str):
        return DTYPES.get(attr, float(attr) if attr in ("inf", "-inf", "nan") else attr)
    return attr


def overloads_of(name):
    if name in SPELT:
        packet, _, overload = SPELT[name].partition(".")
        return [getattr(getattr(torch.ops.aten, packet), overload or "default")]
    if name.endswith("_") and name[:-1] in SPELT:
        packet, _, overload = SPELT[name[:-1]].partition(".")
        return [getattr(getattr(torch.ops.aten, packet + "_"), overload or "default")]
    scalar = name.endswith("_scalar") or name.endswith("_scalar_")
    packet = getattr(torch.ops.aten, name.replace("_scalar", "") if scalar else name, None)
    if packet is None:
        raise Unlike("no op of that name")
    names = [o for o in packet.overloads() if not scalar or "Scalar" in o]
    return [getattr(packet, o) for o in sorted(names, key=lambda o: (o != "default", o))]


def arguments_for(schema, tensors, attrs):
    """Tensors in the order of the schema's tensor arguments, attributes by name."""
    left, kwargs, given = list(tensors), {}, dict(attrs)
    for arg in schema.arguments:
        kind = str(arg.type)
        takes_tensor = "Tensor" in kind
        if takes_tensor and left:
            value = left.pop(0)
            if isinstance(value, list) != ("List" in kind or "[]" in kind):
                raise Unlike("lists stand elsewhere")
            kwargs[arg.name] = value
        elif arg.name in given:
            kwargs[arg.name] = given.pop(arg.name)
        elif "value" in given and arg.name in ("other", "exponent", "scalar") and not takes_tensor:
            kwargs[arg.name] = given.pop("value")
        elif not arg.has_default_value() and arg.name != "out":
            raise Unlike(f"argument {arg.name}")
    if left:
        raise Unlike("more operands")
    for name, value in given.items():
        if value is not None:
            raise Unlike(f"attribute {name}")
    return kwargs


def sized(attrs, *names):
    """Attributes of windows as PyTorch takes them: an empty list is its default."""
    given = {n: attrs[n] for n in names if n in attrs}
    return {n: v for n, v in given.items() if v != []}


def maybe(tensors, at):
    return tensors[at] if at < len(tensors) else None


def loss(function, **more):
    def call(t, a):
        return function(t[0], t[1], reduction=a.get("reduction", "none"), **{k: a[k] for k in more if k in a})
    return call


def pool(function, spatial, *names):
    """Windows over the last dims; leading dims that PyTorch does not take are flattened."""
    def call(t, a):
        x = t[0]
        lead = x.shape[:x.dim() - spatial]
        if 0 in x.shape:
            raise Unlike("no elements")
        out = function(x.reshape(-1, 1, *x.shape[x.dim() - spatial:]), **sized(a, *names))
        whole = lambda y: y.reshape(*lead, *y.shape[2:])
        return tuple(whole(y) for y in out) if isinstance(out, tuple) else whole(out)
    return call


def averaged(function, spatial):
    names = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def call(t, a):
        overridden = a.get("divisor_override")
        if overridden and spatial == 1:
            raise Unlike("a divisor of one dim")
        return pool(function, spatial, *names, *(["divisor_override"] if overridden else []))(t, a)
    return call


def upsampled(spatial):
    return pool(lambda x, output_size: F.interpolate(x, size=output_size), spatial, "output_size")


def placed(t, a, at):
    """The tuple that indexes: dims listed, or the first ones."""
    index = [slice(None)] * t[0].dim()
    dims = a["dims"] or list(range(len(t[at])))
    if t[0].dim() == 0:
        raise Unlike("no dims")
    if [d % t[0].dim() for d in dims] != sorted(d % t[0].dim() for d in dims):
        raise Unlike("dims out of order")
    for dim, tensor in zip(dims, t[at]):
        index[dim] = tensor
    return tuple(index)


def index_put(t, a, in_place):
    copy = t[0] if in_place else t[0].clone()
    where = placed(t, a, 2)
    if not all(isinstance(w, torch.Tensor) for w in where[:len(t[2])]):
        raise Unlike("dims that are not the first")
    tensors = where[:max(i for i, w in enumerate(where) if isinstance(w, torch.Tensor)) + 1]
    return copy.index_put_(tensors, t[1], a["accumulate"])


def norm_of(function):
    def call(t, a):
        x = t[0]
        return function(x, a, maybe(t, 1), maybe(t, 2))
    return call


def attention(t, a):
    if maybe(t, 3) is not None and a["is_causal"]:
        raise Unlike("a mask and is_causal")
    return F.scaled_dot_product_attention(t[0], t[1], t[2], maybe(t, 3), is_causal=a["is_causal"],
                                          scale=a["scale"] or None, enable_gqa=a["enable_gqa"])


def cross_entropy(t, a):
    if t[0].dim() < 1 or 0 in t[0].shape:
        raise Unlike("no classes")
    flat = F.cross_entropy(t[0].reshape(-1, t[0].shape[-1]), t[1].flatten().long(), reduction="none")
    return flat.reshape(t[1].shape)


def nll_loss(t, a):
    """A loss a row, and the row's weight."""
    x, target, weight = t[0], t[1].long(), maybe(t, 2)
    if x.dim() < 1 or target.shape != x.shape[:-1] or x.shape[-1] == 0:
        raise Unlike("no classes, or none a row")
    rows = F.nll_loss(x.reshape(-1, x.shape[-1]), target.flatten(), weight, reduction="none", ignore_index=a["ignore_index"])
    ignored = target == a["ignore_index"]
    each = torch.ones_like(target, dtype=x.dtype) if weight is None else weight[target.masked_fill(ignored, 0)]
    return rows.reshape(target.shape), each.masked_fill(ignored, 0)


def unfold_backward(t, a):
    sizes = list(t[0].shape[:-1])
    sizes[a["dimension"]] = a["length"]
    return torch.ops.aten.unfold_backward(t[0], sizes, a["dimension"] % len(sizes), t[0].shape[-1], a["step"])


MAX_POOL = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
CONV = ("stride", "padding", "dilation")
TRANSPOSED = ("stride", "padding", "output_padding", "dilation")


def conv(function, names):
    return lambda t, a: function(t[0], t[1], maybe(t, 2), groups=a["groups"], **sized(a, *names))


FUNCTIONS = {
    "avg_pool1d": averaged(F.avg_pool1d, 1), "avg_pool2d": averaged(F.avg_pool2d, 2),
    "adaptive_avg_pool1d": pool(F.adaptive_avg_pool1d, 1, "output_size"),
    "adaptive_avg_pool2d": pool(F.adaptive_avg_pool2d, 2, "output_size"),
    "adaptive_max_pool1d": pool(lambda x, output_size: F.adaptive_max_pool1d(x, output_size, True), 1, "output_size"),
    "adaptive_max_pool2d": pool(lambda x, output_size: F.adaptive_max_pool2d(x, output_size, True), 2, "output_size"),
    "max_pool1d": pool(F.max_pool1d, 1, *MAX_POOL), "max_pool2d": pool(F.max_pool2d, 2, *MAX_POOL),
    "max_pool1d_with_indices": pool(F.max_pool1d_with_indices, 1, *MAX_POOL),
    "max_pool2d_with_indices": pool(F.max_pool2d_with_indices, 2, *MAX_POOL),
    "upsample_nearest1d": upsampled(1), "upsample_nearest2d": upsampled(2),
    "conv1d": conv(F.conv1d, CONV), "conv2d": conv(F.conv2d, CONV),
    "conv_transpose1d": conv(F.conv_transpose1d, TRANSPOSED),
    "conv_transpose2d": conv(F.conv_transpose2d, TRANSPOSED),
    "binary_cross_entropy": loss(F.binary_cross_entropy),
    "binary_cross_entropy_with_logits": loss(F.binary_cross_entropy_with_logits),
    "huber_loss": loss(F.huber_loss, delta=0), "smooth_l1_loss": loss(F.smooth_l1_loss, beta=0),
    "kl_div": loss(F.kl_div, log_target=0), "l1_loss": loss(F.l1_loss), "mse_loss": loss(F.mse_loss),
    "cross_entropy": cross_entropy, "nll_loss": nll_loss,
    "layer_norm": norm_of(lambda x, a, w, b: F.layer_norm(x, x.shape[-1:], w, b, a["eps"])),
    "rms_norm": lambda t, a: F.rms_norm(t[0], t[0].shape[-1:], t[1], a["eps"]),
    "group_norm": norm_of(lambda x, a, w, b: F.group_norm(x, a["num_groups"], w, b, a["eps"])),
    "batch_norm": norm_of(lambda x, a, w, b: F.batch_norm(x, None, None, w, b, True, 0.0, a["eps"])),
    "instance_norm": norm_of(lambda x, a, w, b: F.instance_norm(x, None, None, w, b, True, 0.0, a["eps"])),
    "batch_norm_inference": lambda t, a: F.batch_norm(t[0], t[1], t[2], maybe(t, 3), maybe(t, 4), False, 0.0, a["eps"]),
    "softmin": lambda t, a: F.softmin(t[0], a["dim"]), "softsign": lambda t, a: F.softsign(t[0]),
    "softmax": lambda t, a: torch.softmax(t[0], a["dim"]), "log_softmax": lambda t, a: torch.log_softmax(t[0], a["dim"]),
    "tanhshrink": lambda t, a: F.tanhshrink(t[0]), "log_sigmoid": lambda t, a: F.logsigmoid(t[0]),
    "max_dim": lambda t, a: tuple(torch.max(t[0], a["dim"], a["keepdim"])),
    "min_dim": lambda t, a: tuple(torch.min(t[0], a["dim"], a["keepdim"])),
    "median_dim": lambda t, a: tuple(torch.median(t[0], a["dim"], a["keepdim"])),
    "nanmedian_dim": lambda t, a: tuple(torch.nanmedian(t[0], a["dim"], a["keepdim"])),
    "index": lambda t, a: t[0][placed(t, a, 1)],
    "index_put": lambda t, a: index_put(t, a, False), "index_put_": lambda t, a: index_put(t, a, True),
    "repeat_interleave_tensor": lambda t, a: torch.repeat_interleave(t[0], t[1], a.get("dim")),
    "scaled_dot_product_attention": attention,
    "swiglu": lambda t, a: F.silu(t[0]) * t[1],
    "sum_of_squares": lambda t, a: (t[0].double() * t[0].double()).sum(),
    "scalar_pow": lambda t, a: torch.pow(a["self"], t[0]),
    "reflection_pad1d": lambda t, a: padded(t[0], a["padding"], "reflect"),
    "reflection_pad2d": lambda t, a: padded(t[0], a["padding"], "reflect"),
    "replication_pad1d": lambda t, a: padded(t[0], a["padding"], "replicate"),
    "replication_pad2d": lambda t, a: padded(t[0], a["padding"], "replicate"),
    "any": lambda t, a: torch.ops.aten.any.dims(t[0], a["dim"] or None, a["keepdim"]),
    "all": lambda t, a: torch.ops.aten.all.dims(t[0], a["dim"] or None, a["keepdim"]),
    "where_scalar": lambda t, a: torch.where(t[0], t[1], torch.tensor(a["other"], dtype=t[1].dtype)),
    "arange_": lambda t, a: t[0].copy_(a["start"] + torch.arange(t[0].shape[0], dtype=torch.float64) * a["step"]),
    "positions_like": lambda t, a: torch.arange(t[0].shape[a["dim"]]),
    "bincount": lambda t, a: torch.bincount(t[0], maybe(t, 1), minlength=a["minlength"]).to(
        torch.int64 if maybe(t, 1) is None else t[1].dtype),
    "equal": lambda t, a: torch.tensor(torch.equal(t[0], t[1])),
    "allclose": lambda t, a: torch.isclose(t[0], t[1], a["rtol"], a["atol"], a["equal_nan"]).all(),
    "count_nonzero": lambda t, a: (t[0] != 0).sum(a["dim"] or list(range(t[0].dim())), a["keepdim"]),
    "eye_": lambda t, a: t[0].copy_(torch.eye(*t[0].shape)),
    "linspace_": lambda t, a: t[0].copy_(torch.linspace(a["start"], a["end"], t[0].shape[0], dtype=torch.float64)),
    "unfold_backward": unfold_backward,
    "prod": lambda t, a: prod(t[0], a["dim"], a["keepdim"]),
    "chunk": lambda t, a: torch.chunk(t[0], a["chunks"], a["dim"]),
    "ldexp": lambda t, a: torch.ldexp(t[0], t[1]), "hstack": lambda t, a: torch.hstack(t[0]),
}
for _name in ("binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss", "smooth_l1_loss", "kl_div",
              "l1_loss", "mse_loss"):
    FUNCTIONS[_name + "_each"] = FUNCTIONS[_name]


def prod(x, dims, keepdim):
    if not dims:
        whole = x.prod()
        return whole.reshape([1] * x.dim()) if keepdim else whole
    for dim in sorted((d % max(x.dim(), 1) for d in dims), reverse=True):
        x = x.prod(dim, keepdim)
    return x


def padded(x, padding, mode):
    dims = len(padding) // 2
    lead = x.shape[:x.dim() - dims]
    if 0 in x.shape:
        raise Unlike("no elements")
    out = F.pad(x.reshape(1, -1, *x.shape[x.dim() - dims:]), padding, mode)
    return out.reshape(*lead, *out.shape[2:])


def whole_numbers(tensors, attrs):
    """A scalar attribute is a double here; with integer operands PyTorch is given an int."""
    flat = [t for x in tensors for t in (x if isinstance(x, list) else [x]) if t is not None]
    if any(t.is_floating_point() for t in flat):
        return attrs
    whole = lambda v: isinstance(v, float) and abs(v) < 2**63 and v == int(v)
    return {k: int(v) if whole(v) else v for k, v in attrs.items()}


REFUSALS = (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError, ZeroDivisionError, OverflowError)


def call(name, tensors, attrs):
    """A list of results. Raises Unlike, or what PyTorch raises."""
    if name in ("empty_like", "new_empty"):
        raise Unlike("what was in memory before; zeros here")
    attrs = whole_numbers(tensors, {k: value_of(v) for k, v in attrs.items()})
    if name in FUNCTIONS:
        return as_list(FUNCTIONS[name](tensors, attrs))
    if name.endswith("_") and getattr(torch.ops.aten, name.replace("_scalar", ""), None) is None and name[:-1] not in SPELT:
        # PyTorch has no such form of the op.
        return [tensors[0].copy_(call(name[:-1], [tensors[0].clone()] + list(tensors[1:]), attrs)[0])]
    reasons, refusal = [], None
    for overload in overloads_of(name):
        if "out" in overload._overloadname:
            continue
        try:
            return as_list(overload(**arguments_for(overload._schema, tensors, attrs)))
        except Unlike as reason:
            reasons.append(str(reason))
        except REFUSALS as error:
            refusal = refusal or error
    if refusal is not None:
        raise refusal
    raise Unlike(reasons[0] if reasons else "no overload")


def as_list(result):
    results = result if isinstance(result, (tuple, list)) else [result]
    return [r for r in results if isinstance(r, torch.Tensor)]
