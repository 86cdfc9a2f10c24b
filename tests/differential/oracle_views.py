"""Views as numpy's views, and what rearranges by a copy."""
import numpy as np

import dtypes
from oracle import Refused, Tensor, Unsure, op, refuse_unless
from oracle_reduce import dim_of


def view_op(names, function):
    """function(carrier, attrs, other operands) -> one array or several that share its storage."""
    @op(names, view=True)
    def run(tensors, attrs):
        x = tensors[0]
        out = function(x.a, attrs, tensors[1:])
        many = isinstance(out, list)
        results = [Tensor(x.dtype, a, x.storage) for a in (out if many else [out])]
        for result in results:
            if result.a.size and not np.shares_memory(result.a, x.a):
                # numpy had to copy; whether the engine's local arrays need to is open.
                x.storage.open = True
        return results


def one_missing(sizes, total):
    """A list of sizes with at most one -1, which is what is left."""
    sizes = list(sizes)
    refuse_unless(all(s >= -1 for s in sizes) and sizes.count(-1) <= 1, "sizes")
    if -1 in sizes:
        known = int(np.prod([s for s in sizes if s != -1], dtype=np.int64))
        refuse_unless(known > 0 and total % known == 0, "sizes do not hold the elements")
        sizes[sizes.index(-1)] = total // known
    refuse_unless(int(np.prod(sizes, dtype=np.int64)) == total, "sizes do not hold the elements")
    return sizes


def reshape(a, attrs, others, name="size"):
    sizes = attrs[name] if not others else list(others[0].shape)
    return a.reshape(one_missing(sizes, a.size))


def view(a, attrs, others):
    out = reshape(a, attrs, others)
    if a.size and not np.shares_memory(out, a):
        raise Unsure("strides that allow no view")
    return out


view_op("view", view)
view_op("view_as", lambda a, attrs, others: view(a, attrs, others))
view_op("reshape", lambda a, attrs, others: reshape(a, attrs, others, "shape"))
view_op("reshape_as", reshape)
view_op("ravel", lambda a, attrs, others: a.reshape(-1))


def flatten(a, attrs, others):
    begin, end = dim_of(attrs["start_dim"], a.ndim), dim_of(attrs["end_dim"], a.ndim)
    refuse_unless(begin <= end, "start_dim after end_dim")
    if a.ndim == 0:
        return a.reshape(1)
    merged = int(np.prod(a.shape[begin:end + 1], dtype=np.int64))
    return a.reshape(a.shape[:begin] + (merged,) + a.shape[end + 1:])


def unflatten(a, attrs, others):
    refuse_unless(a.ndim > 0 and attrs["sizes"], "dims")
    dim = dim_of(attrs["dim"], a.ndim)
    sizes = one_missing(attrs["sizes"], a.shape[dim])
    return a.reshape(a.shape[:dim] + tuple(sizes) + a.shape[dim + 1:])


def expanded(a, sizes):
    sizes = list(sizes)
    refuse_unless(len(sizes) >= a.ndim, "fewer sizes than dims")
    lead = len(sizes) - a.ndim
    for at, size in enumerate(sizes):
        old = a.shape[at - lead] if at >= lead else None
        refuse_unless(size >= 0 or (size == -1 and old is not None), "sizes")
        refuse_unless(old in (None, 1, size) or size == -1, "only dims of size 1 expand")
        sizes[at] = old if size == -1 else size
    return np.lib.stride_tricks.as_strided(
        a, tuple(sizes), (0,) * lead + tuple(0 if old != new else stride for old, new, stride in zip(
            a.shape, sizes[lead:], a.strides)))


view_op("flatten", flatten)
view_op("unflatten", unflatten)
view_op("expand broadcast_to", lambda a, attrs, others: expanded(a, attrs["size"]))
view_op("expand_as", lambda a, attrs, others: expanded(a, others[0].shape))
view_op("atleast_1d", lambda a, attrs, others: a.reshape(1) if a.ndim == 0 else a)
view_op("atleast_2d", lambda a, attrs, others: a.reshape((1,) * (2 - a.ndim) + a.shape)
        if a.ndim < 2 else a)
view_op("atleast_3d", lambda a, attrs, others: a if a.ndim > 2 else a[..., None] if a.ndim == 2 else
        a.reshape(1, -1, 1) if a.ndim else a.reshape(1, 1, 1))


def contiguous(a, attrs, others):
    return a if a.flags.c_contiguous else np.array(a, order="C")


view_op("contiguous", contiguous)


# --- orders of dims --------------------------------------------------------------------------------

def swapped(a, first, second):
    first, second = dim_of(first, a.ndim), dim_of(second, a.ndim)
    return a if a.ndim == 0 else np.swapaxes(a, first, second)


def permute(a, attrs, others):
    dims = attrs["dims"]
    refuse_unless(len(dims) == a.ndim, "as many dims as the tensor has")
    normal = [dim_of(d, a.ndim) for d in dims]
    refuse_unless(len(set(normal)) == len(normal), "a dim twice")
    return np.transpose(a, normal)


def matrix_transpose(a, attrs, others):
    refuse_unless(a.ndim >= 2, "at least two dims")
    return np.swapaxes(a, -1, -2)


def transpose(a, attrs, others):
    refuse_unless(a.ndim <= 2, "at most two dims")
    return a.T


def move(a, attrs, others):
    source = [dim_of(d, a.ndim) for d in attrs["source"]]
    to = [dim_of(d, a.ndim) for d in attrs["destination"]]
    refuse_unless(len(source) == len(to) == len(set(source)) == len(set(to)), "dims")
    return np.moveaxis(a, source, to) if a.ndim else a


view_op("transpose", lambda a, attrs, others: swapped(a, attrs["dim0"], attrs["dim1"]))
view_op("swapdims", lambda a, attrs, others: swapped(a, attrs["dim0"], attrs["dim1"]))
view_op("swapaxes", lambda a, attrs, others: swapped(a, attrs["axis0"], attrs["axis1"]))
view_op("permute", permute)
view_op("mT", matrix_transpose)
view_op("t", transpose)
view_op("movedim moveaxis", move)


# --- parts -------------------------------------------------------------------------------------------

def with_dims(a):
    refuse_unless(a.ndim > 0, "no dims")
    return a


def along(dim, ndim, what):
    return (slice(None),) * dim + (what,) + (slice(None),) * (ndim - dim - 1)


def select(a, attrs, others):
    dim = dim_of(attrs["dim"], with_dims(a).ndim)
    index = attrs["index"]
    refuse_unless(-a.shape[dim] <= index < a.shape[dim], "index")
    index %= a.shape[dim]
    # Of a slice of one element, as indexing a vector would give a copy.
    return np.squeeze(a[along(dim, a.ndim, slice(index, index + 1))], dim)


def narrow(a, attrs, others):
    dim = dim_of(attrs["dim"], with_dims(a).ndim)
    start, length = attrs["start"], attrs["length"]
    start = start + a.shape[dim] if start < 0 else start
    refuse_unless(0 <= start and 0 <= length and start + length <= a.shape[dim], "start and length")
    return a[along(dim, a.ndim, slice(start, start + length))]


def positions(a, attrs):
    """dim, and the python slice of a slice: out of range ends are held, as Python holds them."""
    dim = dim_of(attrs["dim"], with_dims(a).ndim)
    refuse_unless(attrs["step"] > 0, "step")
    start, stop, step = slice(attrs["start"], attrs["end"], attrs["step"]).indices(a.shape[dim])
    return dim, slice(start, max(start, stop), step)


def slice_of(a, attrs, others):
    dim, part = positions(a, attrs)
    return a[along(dim, a.ndim, part)]


def squeeze(a, attrs, others):
    dim = dim_of(attrs["dim"], a.ndim)
    return np.squeeze(a, dim) if a.ndim and a.shape[dim] == 1 else a


def unsqueeze(a, attrs, others):
    refuse_unless(-a.ndim - 1 <= attrs["dim"] <= a.ndim, "dim")
    return np.expand_dims(a, attrs["dim"])


def cut(a, dim, sizes):
    ends = np.cumsum([0] + list(sizes))
    return [a[along(dim, a.ndim, slice(b, e))] for b, e in zip(ends, ends[1:])]


def in_steps(size, step):
    """Sizes of pieces of `step`, the last shorter; one empty piece of nothing."""
    refuse_unless(step > 0 or (step == 0 and size == 0), "sizes of pieces")
    if size == 0:
        return [0]
    return [min(step, size - at) for at in range(0, size, step)]


def chunk(a, attrs, others):
    dim = dim_of(attrs["dim"], with_dims(a).ndim)
    refuse_unless(attrs["chunks"] > 0, "chunks")
    if a.shape[dim] == 0:
        raise Unsure("how many pieces nothing has")
    return cut(a, dim, in_steps(a.shape[dim], -(-a.shape[dim] // attrs["chunks"])))


def split(a, attrs, others):
    dim = dim_of(attrs["dim"], with_dims(a).ndim)
    return cut(a, dim, in_steps(a.shape[dim], attrs["split_size"]))


def split_with_sizes(a, attrs, others):
    dim = dim_of(attrs["dim"], with_dims(a).ndim)
    sizes = attrs["split_sizes"]
    refuse_unless(all(s >= 0 for s in sizes) and sum(sizes) == a.shape[dim], "split_sizes")
    return cut(a, dim, sizes)


def tensor_split(a, attrs, others):
    dim = dim_of(attrs["dim"], with_dims(a).ndim)
    n = attrs["sections"]
    refuse_unless(n > 0, "sections")
    least, longer = divmod(a.shape[dim], n)
    return cut(a, dim, [least + 1] * longer + [least] * (n - longer))


def unbind(a, attrs, others):
    dim = dim_of(attrs["dim"], with_dims(a).ndim)
    refuse_unless(a.shape[dim] > 0, "no slices")
    return [select(a, {"dim": dim, "index": i}, ()) for i in range(a.shape[dim])]


def diagonal(a, attrs, others):
    refuse_unless(a.ndim >= 2, "two dims")
    first, second = dim_of(attrs["dim1"], a.ndim), dim_of(attrs["dim2"], a.ndim)
    refuse_unless(first != second, "two dims")
    most = max(a.shape) + 1  # numpy takes offsets of 32 bits
    out = np.diagonal(a, int(np.clip(attrs["offset"], -most, most)), first, second)
    out.flags.writeable = True
    return out


def unfold(a, attrs, others):
    dim = dim_of(attrs["dimension"], with_dims(a).ndim)
    size, step = attrs["size"], attrs["step"]
    refuse_unless(0 <= size <= a.shape[dim] and step > 0, "size and step")
    if size == 0:
        raise Unsure("windows of nothing")
    windows = (a.shape[dim] - size) // step + 1
    shape = a.shape[:dim] + (windows,) + a.shape[dim + 1:] + (size,)
    strides = a.strides[:dim] + (a.strides[dim] * step,) + a.strides[dim + 1:] + (a.strides[dim],)
    return np.lib.stride_tricks.as_strided(a, shape, strides)


view_op("select", select)
view_op("narrow", narrow)
view_op("slice", slice_of)
view_op("squeeze", squeeze)
view_op("unsqueeze", unsqueeze)
view_op("chunk", chunk)
view_op("split", split)
view_op("split_with_sizes", split_with_sizes)
view_op("tensor_split", tensor_split)
view_op("unbind", unbind)
view_op("diagonal", diagonal)
view_op("unfold", unfold)
