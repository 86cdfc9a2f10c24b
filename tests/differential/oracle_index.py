"""Ops that address elements by indices."""
import numpy as np

import dtypes
from oracle import EXACT, ROUNDED, SUMMED, Tensor, Unsure, op, refuse_unless
from oracle_arithmetic import mask_of, stored
from oracle_reduce import dim_of


def index_of(tensor, size, negative=False):
    """An index operand whose values lie in [0, size), or from -size on."""
    refuse_unless(tensor.dtype in dtypes.INDICES, "an index is I64 or I32")
    low = -size if negative else 0
    refuse_unless(not np.any((tensor.a < low) | (tensor.a >= size)), "an index lies outside")
    return tensor.a.astype(np.int64) % max(size, 1)


def one_dim(index):
    refuse_unless(index.a.ndim <= 1, "an index of one dim")
    return index


def slices(dim, index):
    return (slice(None),) * dim + (index,)


# --- reads -----------------------------------------------------------------------------------------

def grids(shape, dim, index):
    """Positions of every element of an index that addresses `dim`, for fancy indexing."""
    at = list(np.indices(shape))
    at[dim] = index
    return tuple(at)


@op("gather")
def _gather(tensors, attrs):
    x, index = tensors
    refuse_unless(x.a.ndim == index.a.ndim, "as many dims")
    dim = dim_of(attrs["dim"], x.a.ndim)
    refuse_unless(all(d == dim or i <= n for d, (i, n) in enumerate(zip(index.shape, x.shape))), "sizes")
    if x.a.ndim == 0:
        index_of(index, 1)
        return Tensor(x.dtype, x.a)
    return Tensor(x.dtype, x.a[grids(index.shape, dim, index_of(index, x.shape[dim]))])


@op("take_along_dim")
def _take_along_dim(tensors, attrs):
    x, index = tensors
    refuse_unless(x.a.ndim == index.a.ndim and x.a.ndim > 0, "as many dims")
    dim = dim_of(attrs["dim"], x.a.ndim)
    shape = [max(i, n) if 0 not in (i, n) else 0 for i, n in zip(index.shape, x.shape)]
    for d in range(x.a.ndim):
        refuse_unless(d == dim or {index.shape[d], x.shape[d]} <= {1, shape[d]}, "sizes")
    a = np.broadcast_to(x.a, shape[:dim] + [x.shape[dim]] + shape[dim + 1:])
    at = np.broadcast_to(index_of(index, x.shape[dim]), shape[:dim] + [index.shape[dim]] + shape[dim + 1:])
    return Tensor(x.dtype, np.take_along_axis(a, at, dim))


@op("take")
def _take(tensors, attrs):
    x, index = tensors
    return Tensor(x.dtype, x.a.ravel()[index_of(index, x.a.size, negative=True)])


@op("index_select")
def _index_select(tensors, attrs):
    x, index = tensors
    dim = dim_of(attrs["dim"], x.a.ndim)
    if x.a.ndim == 0:
        raise Unsure("an index of a tensor of no dims")
    refuse_unless(index.a.ndim == 1, "an index of one dim")
    return Tensor(x.dtype, x.a[slices(dim, index_of(index, x.shape[dim]))])


@op("embedding")
def _embedding(tensors, attrs):
    weight, index = tensors
    refuse_unless(weight.a.ndim == 2, "weight [v, d]")
    return Tensor(weight.dtype, weight.a[index_of(index, weight.shape[0])])


def addressed(x, indices, attrs):
    """The tuple that indexes x, and x with the addressed dims in front where they must be."""
    dims = attrs["dims"] or list(range(len(indices)))
    refuse_unless(len(dims) == len(indices) and indices, "as many dims as indices")
    dims = [dim_of(d, x.a.ndim) for d in dims]
    refuse_unless(len(set(dims)) == len(dims), "a dim twice")
    if sorted(dims) != dims:
        raise Unsure("dims out of order")
    where = [slice(None)] * x.a.ndim
    for dim, index in zip(dims, indices):
        where[dim] = index_of(index, x.shape[dim], negative=True)
    return tuple(where)


@op("index")
def _index(tensors, attrs):
    x, indices = tensors
    return Tensor(x.dtype, x.a[addressed(x, indices, attrs)])


# --- writes ----------------------------------------------------------------------------------------

def same_dtype(x, other):
    refuse_unless(x.dtype == other.dtype, "operands of one dtype")
    return other.a


def scatter_at(x, index, src_shape, dim):
    refuse_unless(x.a.ndim == index.a.ndim and (src_shape is None or len(src_shape) == x.a.ndim), "dims")
    for d, n in enumerate(index.shape):
        refuse_unless(d == dim or n <= x.shape[d], "the index is no larger than self")
        refuse_unless(src_shape is None or n <= src_shape[d], "the index is no larger than src")
    if x.a.ndim == 0:
        raise Unsure("scatter into a tensor of no dims")
    return grids(index.shape, dim, index_of(index, x.shape[dim]))


def in_order(at, values, shape):
    """(position, value) pairs in row-major order of the operand."""
    for place in np.ndindex(*shape):
        yield tuple(int(a[place]) for a in at), values[place]


@op("scatter")
def _scatter(tensors, attrs):
    x, index, src = tensors
    at = scatter_at(x, index, src.shape, dim_of(attrs["dim"], x.a.ndim))
    out, values = x.a.copy(), same_dtype(x, src)
    for place, value in in_order(at, values, index.shape):
        out[place] = value
    return Tensor(x.dtype, out)


@op("scatter_value")
def _scatter_value(tensors, attrs):
    x, index = tensors
    out = x.a.copy()
    out[scatter_at(x, index, None, dim_of(attrs["dim"], x.a.ndim))] = stored(attrs["value"], x.dtype)
    return Tensor(x.dtype, out)


def added(out, at, values):
    if out.dtype == np.bool_:
        raise Unsure("sums of BOOL")
    np.add.at(out, at, values)
    return out


@op("scatter_add", SUMMED)
def _scatter_add(tensors, attrs):
    x, index, src = tensors
    at = scatter_at(x, index, src.shape, dim_of(attrs["dim"], x.a.ndim))
    part = same_dtype(x, src)[tuple(slice(n) for n in index.shape)]
    return Tensor(x.dtype, added(x.a.copy(), at, part))


def combine(x, at_values, reduce, include_self):
    """self with values combined into the elements that they address."""
    names = {"sum": np.add, "prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}
    refuse_unless(reduce in names, "reduce")
    if x.dtype == "BOOL" or (reduce == "mean" and not x.floating):
        raise Unsure("reduced in this dtype")
    out, counts = x.a.copy(), np.full(x.shape, 1 if include_self else 0)
    for place, value in at_values:
        out[place] = value if counts[place] == 0 else names[reduce](out[place], value)
        counts[place] += 1
    return out / np.maximum(counts, 1) if reduce == "mean" else out


@op("scatter_reduce", SUMMED)
def _scatter_reduce(tensors, attrs):
    x, index, src = tensors
    at = scatter_at(x, index, src.shape, dim_of(attrs["dim"], x.a.ndim))
    pairs = in_order(at, same_dtype(x, src), index.shape)
    return Tensor(x.dtype, combine(x, pairs, attrs["reduce"], attrs["include_self"]))


def along_index(tensors, attrs):
    """dim, index and source of an op that addresses slices by an index of one dim."""
    x, index = tensors[:2]
    if x.a.ndim == 0:
        raise Unsure("slices of a tensor of no dims")
    dim = dim_of(attrs["dim"], x.a.ndim)
    refuse_unless(index.a.ndim == 1, "an index of one dim")
    if len(tensors) > 2:
        wanted = x.shape[:dim] + index.shape + x.shape[dim + 1:]
        refuse_unless(tensors[2].shape == wanted, "source has index's size along the dim")
    return dim, index_of(index, x.shape[dim])


@op("index_add", SUMMED)
def _index_add(tensors, attrs):
    dim, index = along_index(tensors, attrs)
    x, values = tensors[0], same_dtype(tensors[0], tensors[2])
    return Tensor(x.dtype, added(x.a.copy(), slices(dim, index), values))


@op("index_copy")
def _index_copy(tensors, attrs):
    dim, index = along_index(tensors, attrs)
    x, values = tensors[0], same_dtype(tensors[0], tensors[2])
    out = x.a.copy()
    for i, at in enumerate(index):
        out[slices(dim, at)] = values[slices(dim, i)]
    return Tensor(x.dtype, out)


@op("index_fill")
def _index_fill(tensors, attrs):
    dim, index = along_index(tensors, attrs)
    out = tensors[0].a.copy()
    out[slices(dim, index)] = stored(attrs["value"], tensors[0].dtype)
    return Tensor(tensors[0].dtype, out)


@op("index_reduce", SUMMED)
def _index_reduce(tensors, attrs):
    dim, index = along_index(tensors, attrs)
    refuse_unless(attrs["reduce"] != "sum", "reduce")
    x, values = tensors[0], same_dtype(tensors[0], tensors[2])

    def pairs():
        for i, at in enumerate(index):
            for place in np.ndindex(*(x.shape[:dim] + x.shape[dim + 1:])):
                yield place[:dim] + (int(at),) + place[dim:], values[place[:dim] + (i,) + place[dim:]]
    return Tensor(x.dtype, combine(x, pairs(), attrs["reduce"], attrs["include_self"]))


@op("index_put", SUMMED)
def _index_put(tensors, attrs):
    x, values, indices = tensors
    where = addressed(x, indices, attrs)
    places = np.arange(x.a.size).reshape(x.shape)[where]
    refuse_unless(np.broadcast_shapes(values.shape, places.shape) == places.shape, "values")
    given = np.broadcast_to(same_dtype(x, values), places.shape).ravel()
    return Tensor(x.dtype, put_flat(x.a, places.ravel(), given, attrs["accumulate"]))


def put_flat(a, places, values, accumulate):
    out = a.ravel().copy()
    if accumulate:
        return added(out, places, values).reshape(a.shape)
    for place, value in zip(places, values):
        out[place] = value
    return out.reshape(a.shape)


@op("put", SUMMED)
def _put(tensors, attrs):
    x, index, source = tensors
    refuse_unless(index.a.size == source.a.size, "as many values as indices")
    places = index_of(index, x.a.size, negative=True).ravel()
    return Tensor(x.dtype, put_flat(x.a, places, same_dtype(x, source).ravel(), attrs["accumulate"]))


@op("masked_scatter")
def _masked_scatter(tensors, attrs):
    x, mask, source = tensors
    where = np.broadcast_to(mask_of(mask), x.shape)
    refuse_unless(source.a.ndim == 1 and source.a.size >= np.count_nonzero(where), "source is too short")
    out = x.a.copy()
    out[where] = same_dtype(x, source)[:np.count_nonzero(where)]
    return Tensor(x.dtype, out)


@op("masked_scatter_backward")
def _masked_scatter_backward(tensors, attrs):
    grad, mask = tensors
    where = np.broadcast_to(mask_of(mask), grad.shape)
    size = int(np.prod(attrs["sizes"], dtype=np.int64))
    refuse_unless(len(attrs["sizes"]) == 1 and size >= np.count_nonzero(where), "sizes")
    out = np.zeros(size, grad.a.dtype)
    out[:np.count_nonzero(where)] = grad.a[where]
    return Tensor(grad.dtype, out)


@op("one_hot")
def _one_hot(tensors, attrs):
    refuse_unless(attrs["num_classes"] >= 1, "classes")
    index = index_of(tensors[0], attrs["num_classes"])
    return Tensor("I64", np.eye(attrs["num_classes"], dtype=np.int64)[index])


# --- searches --------------------------------------------------------------------------------------

def places_in(sequence, values, right):
    """How many of the ascending sequence are less than each value (or not above it)."""
    return np.searchsorted(sequence, values, "right" if right else "left")


def ascending(a):
    if a.shape[-1:] and not np.array_equal(np.sort(a, axis=-1), a, equal_nan=a.dtype == float):
        raise Unsure("a sequence that is not sorted")
    return a


@op("bucketize")
def _bucketize(tensors, attrs):
    values, boundaries = tensors
    refuse_unless(boundaries.a.ndim == 1, "boundaries of one dim")
    both = dtypes.promote(values.dtype, boundaries.dtype)
    found = places_in(ascending(dtypes.cast(both, boundaries.a)), dtypes.cast(both, values.a), attrs["right"])
    return Tensor("I32" if attrs["out_int32"] else "I64", np.asarray(found))


@op("searchsorted")
def _searchsorted(tensors, attrs):
    sequence, values = tensors
    refuse_unless(sequence.a.ndim > 0, "a sequence")
    both = dtypes.promote(values.dtype, sequence.dtype)
    rows, wanted = ascending(dtypes.cast(both, sequence.a)), dtypes.cast(both, values.a)
    dtype = "I32" if attrs["out_int32"] else "I64"
    if rows.ndim == 1:
        return Tensor(dtype, np.asarray(places_in(rows, wanted, attrs["right"])))
    refuse_unless(rows.shape[:-1] == wanted.shape[:-1], "equal leading dims")
    out = np.zeros(wanted.shape, np.int64)
    for at in np.ndindex(*rows.shape[:-1]):
        out[at] = places_in(rows[at], wanted[at], attrs["right"])
    return Tensor(dtype, out)


# --- bags ------------------------------------------------------------------------------------------

def bags(offsets, n):
    begins = [int(o) for o in offsets.a]
    refuse_unless(offsets.a.ndim == 1 and all(0 <= b <= n for b in begins) and begins == sorted(begins),
                  "offsets ascend")
    refuse_unless(begins[0] == 0 if begins else n == 0, "the first offset is 0")
    return list(zip(begins, begins[1:] + [n]))


@op("embedding_bag", SUMMED)
def _embedding_bag(tensors, attrs):
    weight, index, offsets = tensors
    refuse_unless(weight.a.ndim == 2 and index.a.ndim == 1 and weight.floating, "weight [v, d]")
    rows = weight.a[index_of(index, weight.shape[0])]
    out = np.zeros((offsets.a.size, weight.shape[1]))
    for b, (begin, end) in enumerate(bags(offsets, index.a.size)):
        if begin < end:
            bag = rows[begin:end]
            out[b] = (bag.sum(0), bag.sum(0) / (end - begin), bag.max(0))[attrs["mode"]]
    return Tensor(weight.dtype, out)


@op("offset2bag")
def _offset2bag(tensors, attrs):
    offsets, index = tensors
    refuse_unless(index.a.ndim == 1, "indices of one dim")
    out = np.zeros(index.a.size, np.int64)
    for b, (begin, end) in enumerate(bags(offsets, index.a.size)):
        out[begin:end] = b
    return Tensor("I64", out)


# --- cotangents ------------------------------------------------------------------------------------

@op("gather_grad", SUMMED)
def _gather_grad(tensors, attrs):
    grad, index = tensors
    out = Tensor(grad.dtype, np.zeros(attrs["size"]))
    refuse_unless(grad.shape == index.shape and grad.floating, "grad of the index's shape")
    return Tensor(grad.dtype, added(out.a, scatter_at(out, index, None, dim_of(
        attrs["dim"], grad.a.ndim)), grad.a))


@op("index_select_grad", SUMMED)
def _index_select_grad(tensors, attrs):
    grad, index = tensors
    dim = dim_of(attrs["dim"], grad.a.ndim)
    refuse_unless(grad.a.ndim > 0 and index.shape == (grad.shape[dim],) and grad.floating, "grad")
    out = np.zeros(grad.shape[:dim] + (attrs["size"],) + grad.shape[dim + 1:])
    return Tensor(grad.dtype, added(out, slices(dim, index_of(index, attrs["size"])), grad.a))


@op("embedding_grad", SUMMED)
def _embedding_grad(tensors, attrs):
    grad, index = tensors
    refuse_unless(grad.shape[:-1] == index.shape and grad.a.ndim > 0 and grad.floating, "grad")
    out = np.zeros((attrs["num_embeddings"], grad.shape[-1]))
    return Tensor(grad.dtype, added(out, index_of(index, attrs["num_embeddings"]), grad.a))
