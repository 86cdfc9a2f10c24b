"""Copies in another order or shape: joins, repeats, rolls, triangles, casts, tensors from nothing."""
import numpy as np

import dtypes
from oracle import ROUNDED, SUMMED, Tensor, Unsure, op, refuse_unless
from oracle_arithmetic import stored
from oracle_reduce import dim_of
from oracle_views import along, positions


def copying(names, function):
    """function(carrier, attrs) -> carrier, of one operand and any dtype."""
    @op(names)
    def run(tensors, attrs):
        return Tensor(tensors[0].dtype, function(tensors[0].a, attrs))


copying("clone", lambda a, attrs: a)


@op("to")
def _to(tensors, attrs):
    x, dtype = tensors[0], attrs["dtype"]
    if x.floating and dtype not in dtypes.FLOATING and dtype != "BOOL":
        low, high = dtypes.INTEGER_RANGE[dtype]
        whole = np.trunc(x.a)
        if not np.all(np.isfinite(x.a) & (whole >= low) & (whole < high + 1.0)):
            raise Unsure("a number that the integer type does not hold")
    return Tensor(dtype, dtypes.cast(dtype, x.a))


# --- joins -------------------------------------------------------------------------------------------

def joined(tensors, join):
    refuse_unless(len(tensors) > 0, "no tensors")
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = dtypes.promote(dtype, tensor.dtype)
    return Tensor(dtype, join([dtypes.cast(dtype, t.a) for t in tensors]))


@op("cat")
def _cat(tensors, attrs):
    refuse_unless(all(t.a.ndim for t in tensors[0]), "no dims")
    return joined(tensors[0], lambda parts: np.concatenate(parts, dim_of(attrs["dim"], parts[0].ndim)))


@op("stack")
def _stack(tensors, attrs):
    return joined(tensors[0], lambda parts: np.stack(parts, attrs["dim"]))


@op("hstack")
def _hstack(tensors, attrs):
    return joined(tensors[0], np.hstack)


@op("vstack")
def _vstack(tensors, attrs):
    return joined(tensors[0], np.vstack)


@op("column_stack")
def _column_stack(tensors, attrs):
    return joined(tensors[0], lambda parts: np.concatenate(
        [p.reshape(-1, 1) if p.ndim < 2 else p for p in parts], 1))


@op("cartesian_prod")
def _cartesian_prod(tensors, attrs):
    refuse_unless(all(t.a.ndim == 1 for t in tensors[0]), "vectors")

    def rows(parts):
        grids = np.meshgrid(*parts, indexing="ij")
        return grids[0].ravel() if len(grids) == 1 else np.stack([g.ravel() for g in grids], -1)
    return joined(tensors[0], rows)


@op("meshgrid")
def _meshgrid(tensors, attrs):
    refuse_unless(all(t.a.ndim <= 1 for t in tensors[0]), "vectors")
    refuse_unless(attrs["indexing"] in ("ij", "xy"), "indexing")
    grids = np.meshgrid(*[t.a for t in tensors[0]], indexing=attrs["indexing"])
    return [Tensor(t.dtype, g) for t, g in zip(tensors[0], grids)]


# --- repeats -----------------------------------------------------------------------------------------

def repeat(a, attrs):
    refuse_unless(len(attrs["repeats"]) >= a.ndim and min(attrs["repeats"], default=0) >= 0, "repeats")
    return np.tile(a, attrs["repeats"])


def tile(a, attrs):
    refuse_unless(min(attrs["dims"], default=0) >= 0, "dims")
    return np.tile(a, attrs["dims"])


def repeat_interleave(a, attrs):
    refuse_unless(a.ndim > 0 and attrs["repeats"] >= 0, "repeats")
    return np.repeat(a, attrs["repeats"], dim_of(attrs["dim"], a.ndim))


copying("repeat", repeat)
copying("tile", tile)
copying("repeat_interleave", repeat_interleave)


@op("repeat_interleave_tensor")
def _repeat_interleave_tensor(tensors, attrs):
    x, repeats = tensors
    refuse_unless(x.a.ndim > 0 and repeats.a.ndim == 1 and np.all(repeats.a >= 0), "repeats")
    refuse_unless(repeats.a.sum() == attrs["output_size"], "output_size")
    dim = dim_of(attrs["dim"], x.a.ndim)
    refuse_unless(len(repeats.a) == x.shape[dim], "repeats")
    return Tensor(x.dtype, np.repeat(x.a, repeats.a, dim))


# --- orders ------------------------------------------------------------------------------------------

def flip(a, attrs):
    dims = [dim_of(d, a.ndim) for d in attrs["dims"]]
    refuse_unless(len(set(dims)) == len(dims), "a dim twice")
    return np.flip(a, tuple(dims)) if a.ndim else a


def roll(a, attrs):
    dims, shifts = attrs["dims"], attrs["shifts"]
    refuse_unless(len(dims) == len(shifts), "as many shifts as dims")
    for dim, shift in zip(dims, shifts):
        refuse_unless(a.ndim > 0, "a dim")
        a = np.roll(a, shift, dim_of(dim, a.ndim))
    return a


def rot90(a, attrs):
    dims = attrs["dims"]
    refuse_unless(len(dims) == 2 and a.ndim >= 2, "two dims")
    first, second = [dim_of(d, a.ndim) for d in dims]
    refuse_unless(first != second, "two dims")
    return np.rot90(a, attrs["k"], (first, second))


def triangle(function):
    def run(a, attrs):
        refuse_unless(a.ndim >= 2, "two dims")
        mask = function(np.ones(a.shape[-2:], bool), attrs["diagonal"])
        return np.where(mask, a, a.dtype.type(0))
    return run


def diag(a, attrs):
    refuse_unless(a.ndim in (1, 2), "one dim or two")
    # Beyond a matrix all diagonals are empty; numpy takes C's int only.
    most = 2**30 if a.ndim == 1 else max(a.shape) + 1
    return np.diag(a, int(np.clip(attrs["diagonal"], -most, most)))


def diag_embed(a, attrs):
    refuse_unless(a.ndim >= 1, "a dim")
    ndim, offset = a.ndim + 1, attrs["offset"]
    first, second = attrs["dim1"], attrs["dim2"]
    refuse_unless(-ndim <= first < ndim and -ndim <= second < ndim and first % ndim != second % ndim, "dims")
    size = a.shape[-1] + abs(offset)
    out = np.zeros(a.shape[:-1] + (size, size), a.dtype)
    at = np.arange(a.shape[-1])
    out[..., at + max(0, -offset), at + max(0, offset)] = a
    return np.moveaxis(out, (-2, -1), (first % ndim, second % ndim))


copying("flip", flip)
copying("roll", roll)
copying("rot90", rot90)
copying("tril", triangle(np.tril))
copying("triu", triangle(np.triu))
copying("diag", diag)
copying("diag_embed", diag_embed)


# --- one tensor written into a part of another -------------------------------------------------------

def writing(name, part_of):
    """part_of(copy, attrs) is the part of self that src replaces."""
    @op(name)
    def run(tensors, attrs):
        x, src = tensors
        out = x.a.copy()
        part = part_of(out, attrs)
        refuse_unless(part.shape == src.shape, "src has the shape of the part")
        refuse_unless(src.dtype == x.dtype, "src has self's dtype")
        part[...] = src.a
        return Tensor(x.dtype, out)


def scattered_slice(a, attrs):
    dim, part = positions(a, attrs)
    return a[along(dim, a.ndim, part)]


def scattered_select(a, attrs):
    refuse_unless(a.ndim > 0, "no dims")
    dim = dim_of(attrs["dim"], a.ndim)
    refuse_unless(-a.shape[dim] <= attrs["index"] < a.shape[dim], "index")
    index = attrs["index"] % a.shape[dim]
    part = a[along(dim, a.ndim, slice(index, index + 1))]
    return np.squeeze(part, dim)


def scattered_diagonal(a, attrs):
    refuse_unless(a.ndim >= 2, "two dims")
    first, second = dim_of(attrs["dim1"], a.ndim), dim_of(attrs["dim2"], a.ndim)
    refuse_unless(first != second, "two dims")
    part = np.diagonal(a, attrs["offset"], first, second)
    part.flags.writeable = True
    return part


writing("slice_scatter", scattered_slice)
writing("select_scatter", scattered_select)
writing("diagonal_scatter", scattered_diagonal)


# --- tensors from nothing ----------------------------------------------------------------------------

def filled(name, value, sized):
    @op(name)
    def run(tensors, attrs):
        dtype = attrs.get("dtype") or tensors[0].dtype
        shape = tuple(attrs["size"]) if sized else tensors[0].shape
        refuse_unless(all(n >= 0 for n in shape), "sizes")
        number = attrs["fill_value"] if value is None else value
        return Tensor(dtype, np.full(shape, stored(number, dtype)))


filled("zeros_like", 0, sized=False)
filled("ones_like", 1, sized=False)
filled("full_like", None, sized=False)
filled("empty_like", 0, sized=False)
filled("new_zeros", 0, sized=True)
filled("new_ones", 1, sized=True)
filled("new_full", None, sized=True)
filled("new_empty", 0, sized=True)


@op("positions_like")
def _positions_like(tensors, attrs):
    x = tensors[0]
    refuse_unless(x.a.ndim > 0, "no dims")
    return Tensor("I64", np.arange(x.shape[dim_of(attrs["dim"], x.a.ndim)]))


# --- cotangents of copies ----------------------------------------------------------------------------

@op("slice_grad")
def _slice_grad(tensors, attrs):
    x = tensors[0]
    dim, start, size = dim_of(attrs["dim"], x.a.ndim), attrs["start"], attrs["size"]
    refuse_unless(x.a.ndim > 0 and 0 <= start and start + x.shape[dim] <= size, "start and size")
    out = np.zeros(x.shape[:dim] + (size,) + x.shape[dim + 1:], x.a.dtype)
    out[along(dim, out.ndim, slice(start, start + x.shape[dim]))] = x.a
    return Tensor(x.dtype, out)


@op("trace_grad")
def _trace_grad(tensors, attrs):
    x = tensors[0]
    refuse_unless(len(attrs["size"]) == 2 and min(attrs["size"]) >= 0, "size")
    if x.a.ndim:
        raise Unsure("a batch of traces")
    return Tensor(x.dtype, np.where(np.eye(*attrs["size"], dtype=bool), x.a, x.a.dtype.type(0)))


@op("unfold_backward", SUMMED)
def _unfold_backward(tensors, attrs):
    """Windows [.., w, .., j] added at w step + j of a dim of `length`."""
    g = tensors[0]
    refuse_unless(g.a.ndim >= 2 and g.dtype != "BOOL", "a window dim")
    dim, step, length = dim_of(attrs["dimension"], g.a.ndim - 1), attrs["step"], attrs["length"]
    windows, size = g.shape[dim], g.shape[-1]
    refuse_unless(step > 0 and 0 < size <= length and (windows == 0 or (windows - 1) * step + size <= length),
                  "the windows lie in the dim")
    out = np.zeros(g.shape[:dim] + (length,) + g.shape[dim + 1:-1], g.a.dtype)
    for w in range(windows):
        for j in range(size):
            out[along(dim, out.ndim, w * step + j)] += g.a[along(dim, g.a.ndim - 1, w)][..., j]
    return Tensor(g.dtype, out)
