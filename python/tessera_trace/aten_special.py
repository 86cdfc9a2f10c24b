"""Rows of the table that take more than names: a call of ATen's as one or several of the engine's.

Each function gets a Call and returns [Mapped, ...], whose last ones make the call's results; None refuses, and the call
is a region. `call.given` holds ATen's arguments by name.
"""
import dataclasses
import math

from .placing import dtype_text


@dataclasses.dataclass
class Mapped:
    """One op: results `outs` are the call's own by number, a Value made on the way, or None; in place where it is empty."""

    op: str
    args: list
    attrs: dict = dataclasses.field(default_factory=dict)
    outs: list | None = None


def add_in_place(call):
    given = call.given
    if given["alpha"] == 1:
        return [Mapped("add_", [given["self"], given["other"]], outs=[])]
    if not call.is_tensor(given["other"]):
        return [Mapped("add_scalar_", [given["self"]], {"value": given["other"] * given["alpha"]}, outs=[])]
    scaled = call.made(given["other"], "mul_scalar")
    return [Mapped("mul_scalar", [given["other"]], {"value": given["alpha"]}, outs=[scaled]),
            Mapped("add_", [given["self"], scaled], outs=[])]


def log_sigmoid(call):
    return [Mapped("log_sigmoid", [call.given["self"]], outs=[0])]


def threshold_grad(call):
    if call.given["threshold"] != 0:
        return None
    return [Mapped("relu_grad", [call.given["grad_output"], call.given["self"]])]


def _scale(call):
    scale = call.given["scale"]
    return 1 / math.sqrt(call.given["query"].shape[-1]) if scale is None else scale


def attention(call):
    given = call.given
    if given["attn_mask"] is not None or given["dropout_p"]:
        return None
    return [Mapped("attention", [given["query"], given["key"], given["value"]],
                   {"scale": _scale(call), "causal": given["is_causal"]})]


def attention_grad(call):
    given = call.given
    if given["attn_mask"] is not None or given["dropout_p"]:
        return None
    operands = [given[name] for name in ("grad_out", "query", "key", "value", "out", "logsumexp")]
    return [Mapped("attention_grad", operands, {"scale": _scale(call), "causal": given["is_causal"]})]


def grouped_mm(call):
    """Offsets are sums of counts, and weights lie transposed: the steps between are views."""
    given = call.given
    counts = call.summed(given["offs"])
    if counts is None or given["bias"] is not None:
        return None
    if given["mat2"].dim() == 3 and given["self"].dim() == 2:
        weight = call.made(given["mat2"], "transpose", swap_last=True)
        return [Mapped("transpose", [given["mat2"]], {"dim0": -2, "dim1": -1}, outs=[weight]),
                Mapped("grouped_mm", [given["self"], weight, counts])]
    if given["mat2"].dim() == 2 and given["self"].dim() == 2:
        rows = call.made(given["self"], "transpose", swap_last=True)
        grad = call.made(call.results[0], "grouped_mm_weight_grad", swap_last=True)
        return [Mapped("transpose", [given["self"]], {"dim0": -2, "dim1": -1}, outs=[rows]),
                Mapped("grouped_mm_weight_grad", [given["mat2"], rows, counts], outs=[grad]),
                Mapped("transpose", [grad], {"dim0": -2, "dim1": -1})]
    return None


def layer_norm(call):
    given = call.given
    if len(given["normalized_shape"]) != 1:
        return None
    # torch keeps a dim of 1 where mean and deviation were taken.
    outs = [0, call.result_without_last_dim(1, "layer_norm"), call.result_without_last_dim(2, "layer_norm")]
    return [Mapped("layer_norm", [given["input"], given["weight"], given["bias"]], {"eps": given["eps"]}, outs=outs)]


def layer_norm_grad(call):
    given = call.given
    if len(given["normalized_shape"]) != 1:
        return None
    operands = [given[name] for name in ("grad_out", "input", "mean", "rstd", "weight")]
    return [Mapped("layer_norm_grad", operands, outs=call.wanted_of("layer_norm_grad", ("input", "weight", "weight")))]


def rms_norm(call):
    given = call.given
    if len(given["normalized_shape"]) != 1 or given["weight"] is None:
        return None
    return [Mapped("rms_norm", [given["input"], given["weight"]], {} if given["eps"] is None else {"eps": given["eps"]})]


def rms_norm_grad(call):
    given = call.given
    if len(given["normalized_shape"]) != 1 or given["weight"] is None:
        return None
    operands = [given[name] for name in ("grad_out", "input", "rstd", "weight")]
    return [Mapped("rms_norm_grad", operands, outs=call.wanted_of("rms_norm_grad", ("input", "weight")))]


def mse_loss(call):
    given = call.given
    return [Mapped("mse_loss", [given["self"], given["target"]], {"reduction": ("none", "mean", "sum")[given["reduction"]]})]


def slice_grad(call):
    given = call.given
    if given["step"] != 1:
        return None
    dim, size = given["dim"], given["input_sizes"][given["dim"]]
    start = given["start"] + (size if given["start"] < 0 else 0)
    return [Mapped("slice_grad", [given["grad_output"]], {"dim": dim, "start": start, "size": size})]


def select_grad(call):
    given = call.given
    ndim = len(given["input_sizes"])
    dim, size = given["dim"] % ndim, given["input_sizes"][given["dim"]]
    whole = call.made(given["grad_output"], "unsqueeze", insert=dim)
    return [Mapped("unsqueeze", [given["grad_output"]], {"dim": dim}, outs=[whole]),
            Mapped("slice_grad", [whole], {"dim": dim, "start": given["index"] % size, "size": size})]


def to_copy(call):
    source, dtype = call.given["self"], call.given["dtype"]
    if dtype is None or dtype == source.dtype:
        return [Mapped("clone", [source])]
    text, exact = dtype_text(dtype)
    return [Mapped("to", [source], {"dtype": text})] if exact else None


def index_add(call):
    given = call.given
    if given["alpha"] != 1:
        return None
    attrs = {"dim": given["dim"]}
    operands = [given["self"], given["index"], given["source"]]
    return [Mapped("index_add_", operands, attrs, outs=[]) if call.in_place else Mapped("index_add", operands, attrs)]


def _addressed(indices):
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    return [index for index in indices if index is not None], dims


def index(call):
    indices, dims = _addressed(call.given["indices"])
    if any(str(each.dtype) in ("torch.bool", "torch.uint8") for each in indices):
        return None
    return [Mapped("index", [call.given["self"], indices], {"dims": dims})]


def index_put(call):
    given = call.given
    indices, dims = _addressed(given["indices"])
    if any(str(each.dtype) in ("torch.bool", "torch.uint8") for each in indices):
        return None
    operands, attrs = [given["self"], given["values"], indices], {"dims": dims, "accumulate": given["accumulate"]}
    return [Mapped("index_put_", operands, attrs, outs=[]) if call.in_place else Mapped("index_put", operands, attrs)]


def _fused(call, op, lists, attrs):
    columns = [call.given[name] for name in lists]
    return [Mapped(op, list(row), attrs, outs=[]) for row in zip(*columns)]


def _adam(call, op):
    given = call.given
    if given["amsgrad"] or given["maximize"]:
        return None
    names = ("lr", "beta1", "beta2", "eps", "weight_decay")
    if any(call.is_tensor(given[name]) for name in names):
        return None
    attrs = {name: given[name] for name in names} | {"step": 2}
    return _fused(call, op, ("self", "grads", "exp_avgs", "exp_avg_sqs"), attrs)


def fused_adamw(call):
    """The step traced is the second: the first one makes the moments."""
    return _adam(call, "adamw_")


def fused_adam(call):
    return _adam(call, "adam_")


def fused_sgd(call):
    given = call.given
    if given["maximize"] or call.is_tensor(given["lr"]):
        return None
    attrs = {"lr": given["lr"], "weight_decay": given["weight_decay"]}
    if not given["momentum"]:
        return _fused(call, "sgd_", ("self", "grads"), attrs)
    attrs |= {"momentum": given["momentum"], "dampening": given["dampening"], "nesterov": given["nesterov"], "step": 2}
    return _fused(call, "sgd_momentum_", ("self", "grads", "momentum_buffer_list"), attrs)


# What a row of the table may name by "@".
SPECIAL = {made.__name__: made for made in (
    add_in_place, log_sigmoid, threshold_grad, attention, attention_grad, grouped_mm, layer_norm, layer_norm_grad, rms_norm,
    rms_norm_grad, mse_loss, slice_grad, select_grad, to_copy, index_add, index, index_put, fused_adamw, fused_adam,
    fused_sgd)}
