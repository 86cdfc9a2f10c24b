"""Scans along a dim, sums of exponentials and what is made of them."""
import numpy as np

from oracle import EXACT, ROUNDED, SUMMED, Tensor, Unsure, any_of, op
from oracle_pointwise import broadcast, float_only, one_shape
from oracle_reduce import back, dim_of, dims_of, lanes, over_dims, wide, widened


def scanning(name, function, grade, result=widened):
    """function(lanes) along the dim named by `dim`."""
    @op(name, grade)
    def run(tensors, attrs):
        x = tensors[0]
        dim = dim_of(attrs["dim"], x.a.ndim)
        return Tensor(result(x.dtype), back(function(lanes(wide(x.a), dim)), dim, x.a.ndim))


scanning("cumsum", lambda rows: np.cumsum(rows, axis=-1), SUMMED)
scanning("cumprod", lambda rows: np.cumprod(rows, axis=-1), SUMMED)


@op("cumsum_grad", SUMMED)
def _cumsum_grad(tensors, attrs):
    """The sum from each element on."""
    x = tensors[0]
    dim = dim_of(attrs["dim"], x.a.ndim)
    rows = np.cumsum(lanes(x.a, dim)[..., ::-1], axis=-1)[..., ::-1]
    if x.dtype == "BOOL":
        raise Unsure("a cotangent of BOOL")
    return Tensor(widened(x.dtype), back(rows, dim, x.a.ndim))


def running_extreme(name, beats):
    """Value and index so far; NaN counts as the extreme, and the last of equals wins."""
    @op(name)
    def run(tensors, attrs):
        x = tensors[0]
        dim = dim_of(attrs["dim"], x.a.ndim)
        rows = lanes(x.a, dim)
        index = np.zeros(rows.shape, np.int64)
        for at in np.ndindex(rows.shape[:-1]):
            best = 0
            for i in range(rows.shape[-1]):
                now, old = rows[at + (i,)], rows[at + (best,)]
                if np.isnan(now) or (not np.isnan(old) and (beats(now, old) or now == old)):
                    best = i
                index[at + (i,)] = best
        values = np.take_along_axis(rows, index, -1)
        return [Tensor(x.dtype, back(values, dim, x.a.ndim)), Tensor("I64", back(index, dim, x.a.ndim))]


running_extreme("cummax", lambda now, old: now > old)
running_extreme("cummin", lambda now, old: now < old)


def rounded_logarithm(a):
    """In noisy worlds off by a rounding of the sum, which is at least 1."""
    return a + 2.0**-52 * any_of([0.0, 1.0, -1.0])


def log_sum_exp(a, axes, keep):
    """Of no elements -inf; infinite elements stand for themselves."""
    largest = np.max(a, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    total = np.log(np.sum(np.exp(a - shift), axis=axes, keepdims=True))
    # The logarithm of what is near 1 keeps digits that other ways to it lose.
    total = rounded_logarithm(total) + shift
    return total if keep else np.squeeze(total, axis=axes)


over_dims("logsumexp", lambda a, axes, keep, attrs: log_sum_exp(a, axes, keep), SUMMED, needs_float=True)


@op("logcumsumexp", SUMMED)
def _logcumsumexp(tensors, attrs):
    x = tensors[0]
    dtype, dim = float_only([x]), dim_of(attrs["dim"], x.a.ndim)
    rows = lanes(x.a, dim)
    parts = [log_sum_exp(rows[..., :i + 1], (rows.ndim - 1,), True) for i in range(rows.shape[-1])]
    return Tensor(dtype, back(np.concatenate(parts, -1) if parts else rows, dim, x.a.ndim))


@op("logcumsumexp_grad", SUMMED)
def _logcumsumexp_grad(tensors, attrs):
    """Element i of the operand enters every later sum j with weight exp(x_i - result_j)."""
    dtype = float_only(one_shape(tensors))
    dim = dim_of(attrs["dim"], tensors[0].a.ndim)
    grad, x, result = [lanes(t.a, dim) for t in tensors]
    out = np.zeros(x.shape)
    for i in range(x.shape[-1]):
        weights = np.exp(x[..., i:i + 1] - result[..., i:])
        out[..., i] = np.sum(grad[..., i:] * weights, axis=-1)
    return Tensor(dtype, back(out, dim, tensors[0].a.ndim))


# --- softmax -------------------------------------------------------------------------------------

def log_softmax(a, dim):
    rows = lanes(a, dim)
    largest = np.max(rows, axis=-1, keepdims=True, initial=-np.inf)
    shifted = rows - largest
    return back(shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True)), dim, a.ndim)


def softmax(a, dim):
    rows = lanes(a, dim)
    exps = np.exp(rows - np.max(rows, axis=-1, keepdims=True, initial=-np.inf))
    return back(exps / np.sum(exps, axis=-1, keepdims=True), dim, a.ndim)


def along_dim(name, function):
    @op(name, SUMMED)
    def run(tensors, attrs):
        dtype = float_only(one_shape(tensors))
        operands = broadcast(tensors, dtype)
        return Tensor(dtype, function(*operands, dim_of(attrs["dim"], operands[0].ndim)))


along_dim("softmax", softmax)
along_dim("log_softmax", log_softmax)
along_dim("softmin", lambda a, dim: softmax(-a, dim))


def softmax_grad(grad, result, dim):
    g, y = lanes(grad, dim), lanes(result, dim)
    return back(y * (g - np.sum(g * y, axis=-1, keepdims=True)), dim, grad.ndim)


def log_softmax_grad(grad, result, dim):
    g, y = lanes(grad, dim), lanes(result, dim)
    return back(g - np.exp(y) * np.sum(g, axis=-1, keepdims=True), dim, grad.ndim)


along_dim("softmax_grad", softmax_grad)
along_dim("log_softmax_grad", log_softmax_grad)
