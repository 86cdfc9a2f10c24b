"""Products of matrices and their relatives."""

import numpy as np

import dtypes
from oracle import ROUNDED, SUMMED, Tensor, op, refuse_unless
from oracle_pointwise import broadcast, float_only, one_shape
from oracle_reduce import dim_of, norm


def product(name, ranks, function, grade=SUMMED):
    """function(*carriers, attrs) of floating operands whose numbers of dims are listed."""
    @op(name, grade)
    def run(tensors, attrs):
        for tensor, allowed in zip(tensors, ranks):
            refuse_unless(allowed is None or tensor.a.ndim in allowed, "numbers of dims")
        dtype = float_only(tensors)
        return Tensor(dtype, function(*[dtypes.cast(dtype, t.a) for t in tensors], attrs))


def times(a, b):
    """a @ b, each product formed: libraries skip zeros, of which times infinity is no number."""
    left, right = a if a.ndim > 1 else a[None, :], b if b.ndim > 1 else b[:, None]
    refuse_unless(left.shape[-1] == right.shape[-2], "sizes")
    out = np.sum(left[..., :, :, None] * right[..., None, :, :], axis=-2)
    out = out[..., 0, :] if a.ndim == 1 else out
    return out[..., 0] if b.ndim == 1 else out


def summed_over(a, b, of_a, of_b):
    """Products of all elements that share the dims listed, which are summed; the others stand in order."""
    rest_a = [d for d in range(a.ndim) if d not in of_a]
    rest_b = [d for d in range(b.ndim) if d not in of_b]
    left = np.transpose(a, rest_a + list(of_a))
    right = np.transpose(b, rest_b + list(of_b))
    refuse_unless(left.shape[len(rest_a):] == right.shape[len(rest_b):], "sizes")
    left = left.reshape(left.shape[:len(rest_a)] + (1,) * len(rest_b) + left.shape[len(rest_a):])
    return np.sum(left * right, axis=tuple(range(len(rest_a) + len(rest_b), left.ndim)))


ONE, TWO, THREE = (1,), (2,), (3,)
MANY = tuple(range(2, 9))


def inner_sizes(a, b):
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    refuse_unless(a.shape[-1] == b.shape[-1], "sizes")
    return summed_over(a, b, [a.ndim - 1], [b.ndim - 1])


def fused(base, value, attrs):
    """beta base + alpha value; where beta is 0 base does not count at all."""
    refuse_unless(np.broadcast_shapes(base.shape, value.shape) == value.shape, "self broadcasts")
    kept = attrs["beta"] * base if attrs["beta"] != 0 else np.zeros(base.shape)
    return kept + attrs["alpha"] * value


product("matmul", (MANY, MANY), lambda a, b, attrs: times(a, b))
product("mm", (TWO, TWO), lambda a, b, attrs: times(a, b))
product("bmm", (THREE, THREE), lambda a, b, attrs: times(equal_batches(a, b), b))
product("mv", (TWO, ONE), lambda a, b, attrs: times(a, b))
product("dot", (ONE, ONE), lambda a, b, attrs: np.asarray(times(a, b)))
product("vdot", (ONE, ONE), lambda a, b, attrs: np.asarray(times(a, b)))
product("outer", (ONE, ONE), lambda a, b, attrs: np.outer(a, b), ROUNDED)
product("kron", (TWO, TWO), lambda a, b, attrs: np.kron(a, b), ROUNDED)
product("inner", (None, None), lambda a, b, attrs: np.asarray(inner_sizes(a, b)))
product("addmm", (None, TWO, TWO), lambda s, a, b, attrs: fused(s, times(a, b), attrs))
product("addmv", (None, TWO, ONE), lambda s, a, b, attrs: fused(s, times(a, b), attrs))
product("addr", (None, ONE, ONE), lambda s, a, b, attrs: fused(s, np.outer(a, b), attrs))
product("addbmm", (None, THREE, THREE), lambda s, a, b, attrs: fused(
    s, times(equal_batches(a, b), b).sum(0), attrs))
product("baddbmm", (None, THREE, THREE), lambda s, a, b, attrs: fused(s, times(equal_batches(a, b), b), attrs))


def equal_batches(a, b):
    refuse_unless(a.shape[0] == b.shape[0], "batches")
    return a


@op("linear", SUMMED)
def _linear(tensors, attrs):
    dtype = float_only([t for t in tensors if t is not None])
    x, weight = [dtypes.cast(dtype, t.a) for t in tensors[:2]]
    refuse_unless(x.ndim >= 1 and weight.ndim == 2 and x.shape[-1] == weight.shape[1], "sizes")
    out = times(x, weight.T)
    if len(tensors) > 2 and tensors[2] is not None:
        refuse_unless(tensors[2].shape == (weight.shape[0],), "bias [n]")
        out = out + dtypes.cast(dtype, tensors[2].a)
    return Tensor(dtype, out)


product("linear_input_grad", (None, TWO), lambda g, w, attrs: times(g, w) if g.ndim else refuse_unless(False))
product("linear_weight_grad", (None, None), lambda a, b, attrs: weight_grad(a, b))


def weight_grad(a, b):
    refuse_unless(a.ndim >= 1 and b.ndim >= 1 and a.shape[:-1] == b.shape[:-1], "leading dims")
    return summed_over(a, b, list(range(a.ndim - 1)), list(range(b.ndim - 1)))


@op("tensordot", SUMMED)
def _tensordot(tensors, attrs):
    dtype = float_only(tensors)
    a, b = [dtypes.cast(dtype, t.a) for t in tensors]
    of_a = [dim_of(d, a.ndim) for d in attrs["dims_self"]]
    of_b = [dim_of(d, b.ndim) for d in attrs["dims_other"]]
    refuse_unless(len(of_a) == len(of_b) == len(set(of_a)) == len(set(of_b)), "dims in pairs")
    return Tensor(dtype, np.asarray(summed_over(a, b, of_a, of_b)))


@op("einsum", SUMMED)
def _einsum(tensors, attrs):
    dtype = float_only(tensors[0])
    operands = [dtypes.cast(dtype, t.a) for t in tensors[0]]
    equation = attrs["equation"].replace(" ", "")
    terms = equation.split("->")[0].split(",")
    refuse_unless(all(len(set(t.replace("...", ""))) == len(t.replace("...", "")) for t in terms),
                  "no letter twice in one operand")
    return Tensor(dtype, np.asarray(np.einsum(equation, *operands)))


@op("linalg_cross", ROUNDED)
def _linalg_cross(tensors, attrs):
    dtype = dtypes.promote_all(tensors)
    a, b = broadcast(tensors, dtype)
    dim = dim_of(attrs["dim"], a.ndim)
    refuse_unless(a.ndim > 0 and tensors[0].a.ndim == tensors[1].a.ndim, "as many dims")
    refuse_unless(all(t.dtype != "BOOL" for t in tensors), "numbers")
    refuse_unless(all(t.shape[dim] == 3 for t in tensors), "vectors of three")
    a, b = np.moveaxis(a, dim, -1), np.moveaxis(b, dim, -1)
    x, y, z = [a[..., i] for i in range(3)]
    u, v, w = [b[..., i] for i in range(3)]
    return Tensor(dtype, np.moveaxis(np.stack([y * w - z * v, z * u - x * w, x * v - y * u], -1), -1, dim))


@op("trace", SUMMED)
def _trace(tensors, attrs):
    x = tensors[0]
    refuse_unless(x.a.ndim == 2, "a matrix")
    dtype = x.dtype if x.floating else "I64"
    return Tensor(dtype, np.asarray(np.trace(x.a if x.floating else x.a.astype(np.int64))))


# --- distances -------------------------------------------------------------------------------------

@op("dist", SUMMED)
def _dist(tensors, attrs):
    dtype = float_only(one_shape(tensors))
    a, b = broadcast(tensors, dtype)
    return Tensor(dtype, np.asarray(norm(a - b, tuple(range(a.ndim)), False, attrs["p"])))


@op("cdist", SUMMED)
def _cdist(tensors, attrs):
    dtype = float_only(tensors)
    a, b = [dtypes.cast(dtype, t.a) for t in tensors]
    refuse_unless(a.ndim >= 2 and a.shape[:-2] == b.shape[:-2] and b.ndim == a.ndim, "equal leading dims")
    refuse_unless(a.shape[-1] == b.shape[-1] and attrs["p"] >= 0, "rows")
    difference = a[..., :, None, :] - b[..., None, :, :]
    if difference.shape[-1] == 0:
        return Tensor(dtype, np.zeros(difference.shape[:-1]))
    return Tensor(dtype, norm(difference, (difference.ndim - 1,), False, attrs["p"]))


@op("pairwise_distance", SUMMED)
def _pairwise_distance(tensors, attrs):
    dtype = float_only(one_shape(tensors))
    a, b = broadcast(tensors, dtype)
    refuse_unless(a.ndim >= 1, "rows")
    return Tensor(dtype, norm(a - b + attrs["eps"], (a.ndim - 1,), False, attrs["p"]))


@op("cosine_similarity", SUMMED)
def _cosine_similarity(tensors, attrs):
    dtype = float_only(one_shape(tensors))
    a, b = broadcast(tensors, dtype)
    refuse_unless(a.ndim >= 1, "dims")
    dim = dim_of(attrs["dim"], a.ndim)
    axes = (dim,)
    lengths = [np.maximum(np.sqrt(np.sum(v * v, axis=axes, keepdims=True)), attrs["eps"]) for v in (a, b)]
    return Tensor(dtype, np.asarray(np.sum((a / lengths[0]) * (b / lengths[1]), axis=axes)))


# --- groups of rows --------------------------------------------------------------------------------

def groups(counts, rows, slots):
    """(group, begin, end): consecutive ones, or each in its own slots."""
    sizes = [int(c) for c in counts.a]
    begin, result = 0, []
    for e, size in enumerate(sizes):
        begin = e * (rows // len(sizes)) if slots else begin
        refuse_unless(0 <= size and begin + size <= rows, "counts")
        refuse_unless(not slots or (rows % len(sizes) == 0 and size <= rows // len(sizes)), "slots")
        result.append((e, begin, begin + size))
        begin += size
    return result


def grouped(name, slots, transposed):
    """Rows of each group times its weight [n, k], transposed or not; other rows give zeros."""
    @op(name, SUMMED)
    def run(tensors, attrs):
        x, weight, counts = tensors
        dtype = float_only(tensors[:2])
        refuse_unless(x.a.ndim == 2 and weight.a.ndim == 3 and counts.shape == weight.shape[:1], "dims")
        refuse_unless(counts.a.size > 0 or not slots, "groups")
        w = np.swapaxes(weight.a, 1, 2) if transposed else weight.a
        refuse_unless(x.shape[1] == w.shape[1], "sizes")
        out = np.zeros((x.shape[0], w.shape[2]))
        for e, begin, end in groups(counts, x.shape[0], slots):
            out[begin:end] = times(x.a[begin:end], w[e])
        return Tensor(dtype, out)


def grouped_weights(name, slots):
    @op(name, SUMMED)
    def run(tensors, attrs):
        grad, x, counts = tensors
        dtype = float_only(tensors[:2])
        refuse_unless(grad.a.ndim == 2 and x.a.ndim == 2 and grad.shape[0] == x.shape[0], "dims")
        refuse_unless(not slots or counts.a.size, "slots of no group")
        out = np.zeros((counts.a.size, grad.shape[1], x.shape[1]))
        for e, begin, end in groups(counts, x.shape[0], slots):
            out[e] = times(grad.a[begin:end].T, x.a[begin:end])
        return Tensor(dtype, out)


grouped("grouped_mm", slots=False, transposed=True)
grouped("grouped_mm_input_grad", slots=False, transposed=False)
grouped("grouped_mm_slots", slots=True, transposed=True)
grouped_weights("grouped_mm_weight_grad", slots=False)
grouped_weights("grouped_mm_slots_weight_grad", slots=True)
