"""Reductions, selections, sorts and scans."""
import numpy as np

import dtypes
from oracle import EXACT, ROUNDED, SUMMED, Tensor, Unsure, any_of, op, refuse_unless
from oracle_pointwise import float_only


def dim_of(dim, ndim):
    """A dim counted from either end; a tensor of no dims takes 0 and -1 for its only one."""
    refuse_unless(-max(ndim, 1) <= dim < max(ndim, 1), f"dim {dim} of {ndim}")
    return dim % max(ndim, 1)


def dims_of(dims, ndim):
    """Those listed, or all."""
    if dims is None or dims == []:
        return tuple(range(ndim))
    normal = [dim_of(d, ndim) for d in ([dims] if isinstance(dims, int) else dims)]
    refuse_unless(len(set(normal)) == len(normal) or ndim == 0, "a dim twice")
    return tuple(sorted(normal)) if ndim else ()


def lanes(a, dim):
    """The array with `dim` last; of no dims, one lane of one element."""
    return a.reshape(1) if a.ndim == 0 else np.moveaxis(a, dim, -1)


def back(a, dim, ndim):
    return a.reshape(()) if ndim == 0 else np.moveaxis(a, -1, dim)


def kept(a, dim, ndim, keepdim):
    """A result without its last dim, put where `dim` was if it is kept."""
    if ndim == 0:
        return a.reshape(())
    return np.expand_dims(a, dim) if keepdim else a


def over_dims(names, function, grade, result=lambda dtype: dtype, attribute="dim", needs_float=False):
    """function(carrier, axes, keepdims, attrs) over the dims listed by an attribute."""
    @op(names, grade)
    def run(tensors, attrs):
        x = tensors[0]
        dtype = result(float_only([x]) if needs_float else x.dtype)
        axes = dims_of(attrs.get(attribute), x.a.ndim)
        return Tensor(dtype, np.asarray(function(x.a, axes, attrs.get("keepdim", False), attrs)))


def widened(dtype):
    """Integers and BOOL are summed and multiplied as I64."""
    return dtype if dtype in dtypes.FLOATING else "I64"


def wide(a):
    return a if a.dtype == np.float64 else a.astype(np.int64)


def count(a, axes):
    return int(np.prod([a.shape[d] for d in axes], dtype=np.int64))


over_dims("sum", lambda a, axes, keep, attrs: np.sum(wide(a), axis=axes, keepdims=keep), SUMMED, widened)
over_dims("nansum", lambda a, axes, keep, attrs: np.sum(np.where(np.isnan(a), 0, a) if a.dtype == float
          else wide(a), axis=axes, keepdims=keep), SUMMED, widened)
over_dims("prod", lambda a, axes, keep, attrs: np.prod(wide(a), axis=axes, keepdims=keep), SUMMED, widened)
over_dims("mean", lambda a, axes, keep, attrs: np.sum(a, axis=axes, keepdims=keep) / np.float64(
          count(a, axes)), SUMMED, needs_float=True)
over_dims("count_nonzero", lambda a, axes, keep, attrs: np.sum(a != 0, axis=axes, keepdims=keep), EXACT,
          lambda dtype: "I64")
over_dims("all", lambda a, axes, keep, attrs: np.all(a != 0, axis=axes, keepdims=keep), EXACT,
          lambda dtype: "BOOL")
over_dims("any", lambda a, axes, keep, attrs: np.any(a != 0, axis=axes, keepdims=keep), EXACT,
          lambda dtype: "BOOL")


@op("nanmean", SUMMED)
def _nanmean(tensors, attrs):
    x = tensors[0]
    axes, keep = dims_of(attrs["dim"], x.a.ndim), attrs["keepdim"]
    total = np.sum(np.where(np.isnan(x.a), 0, x.a), axis=axes, keepdims=keep)
    return Tensor(float_only([x]), total / np.sum(~np.isnan(x.a), axis=axes, keepdims=keep))


@op("sum_of_squares", SUMMED)
def _sum_of_squares(tensors, attrs):
    wide_x = tensors[0].a.astype(np.float64)
    return Tensor("F64", np.sum(wide_x * wide_x))


# --- extremes ------------------------------------------------------------------------------------

def extreme(a, axes, keep, largest):
    """NaN wins; of no elements the identity, which integers have none of that means anything."""
    if count(a, axes) == 0:
        whole = np.sum(a, axis=axes, keepdims=keep)
        if a.dtype != np.float64 and whole.size:
            raise Unsure("the extreme of no integers")
        return np.full(whole.shape, -np.inf if largest else np.inf).astype(a.dtype)
    return (np.max if largest else np.min)(a, axis=axes, keepdims=keep)


def of_some(a, axes, keep, largest):
    refuse_unless(a.size > 0, "no elements")
    return extreme(a, axes, keep, largest)


over_dims("amax", lambda a, axes, keep, attrs: extreme(a, axes, keep, True), EXACT)
over_dims("amin", lambda a, axes, keep, attrs: extreme(a, axes, keep, False), EXACT)
over_dims("max", lambda a, axes, keep, attrs: of_some(a, axes, keep, True), EXACT)
over_dims("min", lambda a, axes, keep, attrs: of_some(a, axes, keep, False), EXACT)


@op("aminmax")
def _aminmax(tensors, attrs):
    x = tensors[0]
    axes = dims_of(attrs["dim"], x.a.ndim)
    refuse_unless(count(x.a, axes) > 0, "no elements")
    return [Tensor(x.dtype, np.asarray(extreme(x.a, axes, attrs["keepdim"], largest)))
            for largest in (False, True)]


def position(names, function, with_value):
    """Where along a dim (or in the flattened tensor) an extreme stands; the first of equals."""
    @op(names)
    def run(tensors, attrs):
        x, dim, keep = tensors[0], attrs["dim"], attrs["keepdim"]
        if dim is None:
            refuse_unless(x.a.size > 0, "no elements")
            index = np.asarray(function(x.a.ravel()))
            return Tensor("I64", index.reshape((1,) * x.a.ndim) if keep else index)
        dim = dim_of(dim, x.a.ndim)
        rows = lanes(x.a, dim)
        refuse_unless(rows.shape[-1] > 0, "no elements along the dim")
        index = np.asarray(function(rows, axis=-1))
        value = np.take_along_axis(rows, index[..., None], -1)[..., 0]
        results = [Tensor(x.dtype, kept(value, dim, x.a.ndim, keep)),
                   Tensor("I64", kept(index, dim, x.a.ndim, keep))]
        return results if with_value else results[1]


position("argmax", np.argmax, with_value=False)
position("argmin", np.argmin, with_value=False)
position("max_dim", np.argmax, with_value=True)
position("min_dim", np.argmin, with_value=True)


# --- order ---------------------------------------------------------------------------------------

def order(rows, descending=False):
    """Indices of a stable sort of the last dim; NaN counts as the largest."""
    if not descending:
        return np.argsort(rows, axis=-1, kind="stable")
    n = rows.shape[-1]
    return (n - 1 - np.argsort(rows[..., ::-1], axis=-1, kind="stable"))[..., ::-1]


def pick(x, dim, chosen):
    """Values and indices along `dim` where `chosen` are positions in its lanes."""
    values = np.take_along_axis(lanes(x.a, dim), chosen, -1)
    return [Tensor(x.dtype, back(values, dim, x.a.ndim)), Tensor("I64", back(chosen, dim, x.a.ndim))]


@op("sort")
def _sort(tensors, attrs):
    dim = dim_of(attrs["dim"], tensors[0].a.ndim)
    return pick(tensors[0], dim, order(lanes(tensors[0].a, dim), attrs["descending"]))


@op("argsort")
def _argsort(tensors, attrs):
    return _sort(tensors, attrs)[1]


@op("msort")
def _msort(tensors, attrs):
    return _sort(tensors, {"dim": 0, "descending": False})[0]


@op("topk")
def _topk(tensors, attrs):
    x, k = tensors[0], attrs["k"]
    dim = dim_of(attrs["dim"], x.a.ndim)
    rows = lanes(x.a, dim)
    refuse_unless(0 <= k <= rows.shape[-1], "k")
    if not attrs["sorted"]:
        raise Unsure("the order of what is not sorted")
    return pick(x, dim, order(rows, attrs["largest"])[..., :k])


@op("kthvalue")
def _kthvalue(tensors, attrs):
    x, k = tensors[0], attrs["k"]
    dim = dim_of(attrs["dim"], x.a.ndim)
    rows = lanes(x.a, dim)
    refuse_unless(1 <= k <= rows.shape[-1], "k")
    return one_of_each(x, dim, order(rows)[..., k - 1], attrs["keepdim"])


def one_of_each(x, dim, index, keepdim):
    """The elements at one position of each lane, and the positions."""
    values = np.take_along_axis(lanes(x.a, dim), index[..., None], -1)[..., 0]
    return [Tensor(x.dtype, kept(values, dim, x.a.ndim, keepdim)),
            Tensor("I64", kept(index, dim, x.a.ndim, keepdim))]


def each_lane(rows, function):
    """function(lane) -> integer, for each lane."""
    flat = rows.reshape(-1, rows.shape[-1])
    return np.array([function(lane) for lane in flat], np.int64).reshape(rows.shape[:-1])


def median_position(lane, skip_nan):
    """Of equal elements any position is right: the definition names none."""
    nan = np.isnan(lane)
    if nan.any() and not (skip_nan and not nan.all()):
        return any_of(np.flatnonzero(nan))
    rank = (np.count_nonzero(~nan) - 1) // 2
    value = lane[order(lane)[rank]]
    return any_of(np.flatnonzero(lane == value))


def medians(name, skip_nan):
    @op(name + "_dim")
    def along(tensors, attrs):
        x = tensors[0]
        dim = dim_of(attrs["dim"], x.a.ndim)
        rows = lanes(x.a, dim)
        refuse_unless(rows.shape[-1] > 0, "no elements along the dim")
        return one_of_each(x, dim, each_lane(rows, lambda r: median_position(r, skip_nan)), attrs["keepdim"])

    @op(name)
    def of_all(tensors, attrs):
        x = tensors[0]
        if x.a.size == 0:
            if not x.floating:
                raise Unsure("the median of no integers")
            return Tensor(x.dtype, np.asarray(np.nan))
        flat = x.a.ravel()
        return Tensor(x.dtype, np.asarray(flat[median_position(flat, skip_nan)]))


medians("median", skip_nan=False)
medians("nanmedian", skip_nan=True)


@op("mode")
def _mode(tensors, attrs):
    x = tensors[0]
    dim = dim_of(attrs["dim"], x.a.ndim)
    rows = lanes(x.a, dim)
    refuse_unless(rows.shape[-1] > 0, "no elements along the dim")
    if np.isnan(rows).any():
        raise Unsure("how often NaN occurs")

    def position_of(lane):
        values, counts = np.unique(lane, return_counts=True)
        return np.flatnonzero(lane == values[np.argmax(counts)])[-1]
    return one_of_each(x, dim, each_lane(rows, position_of), attrs["keepdim"])


@op("sort_by_key")
def _sort_by_key(tensors, attrs):
    keys = tensors[0].a
    refuse_unless(keys.ndim == 1 and not np.any((keys < 0) | (keys >= attrs["num_keys"])), "keys")
    counts = np.bincount(keys, minlength=attrs["num_keys"]) if keys.size else np.zeros(attrs["num_keys"])
    return [Tensor("I64", np.argsort(keys, kind="stable")), Tensor("I64", counts)]


@op("prod_of_others", SUMMED)
def _prod_of_others(tensors, attrs):
    """Of each element the product of those that share its place but for the dims."""
    x = tensors[0]
    axes = dims_of(attrs["dim"], x.a.ndim)
    rows = np.moveaxis(x.a, axes, range(x.a.ndim - len(axes), x.a.ndim))
    flat = rows.reshape(rows.shape[:x.a.ndim - len(axes)] + (count(x.a, axes),))
    out = np.stack([np.prod(np.delete(flat, i, -1), axis=-1) for i in range(flat.shape[-1])], -1) if flat.size else flat
    return Tensor(float_only([x]), np.moveaxis(out.reshape(rows.shape), range(x.a.ndim - len(axes), x.a.ndim), axes))


# --- counts --------------------------------------------------------------------------------------

@op("histc")
def _histc(tensors, attrs):
    """A value at a border belongs to the range above; near one that rounding moves, to either."""
    x, low, high, bins = tensors[0], attrs["min"], attrs["max"], attrs["bins"]
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise Unsure("ranges that the data decide")
    exact_borders = float((high - low) / bins * 2**20).is_integer() and float(low * 2**20).is_integer()
    counts = np.zeros(bins)
    for value in x.a.ravel().astype(np.float64):
        if not low <= value <= high:
            continue
        at = (value - low) / (high - low) * bins
        if not exact_borders and abs(at - round(at)) < 1e-6 and 0 < round(at) < bins:
            at = any_of([round(at), round(at) - 1])
        counts[min(int(at), bins - 1)] += 1
    return Tensor(x.dtype, counts)


@op("bincount", SUMMED)
def _bincount(tensors, attrs):
    x, n = tensors[0], attrs["minlength"]
    weights = tensors[1] if len(tensors) > 1 else None
    refuse_unless(x.dtype in dtypes.INDICES and x.a.ndim == 1 and not np.any((x.a < 0) | (x.a >= n)), "values")
    refuse_unless(weights is None or weights.shape == x.shape, "weights of self's shape")
    total = np.zeros(n, np.int64 if weights is None else dtypes.CARRIER[weights.dtype])
    np.add.at(total, x.a.astype(np.int64), 1 if weights is None else weights.a)
    return Tensor("I64" if weights is None else weights.dtype, total)


# --- moments and norms ---------------------------------------------------------------------------

def spread(a, axes, keep, correction):
    mean = np.sum(a, axis=axes, keepdims=True) / np.float64(count(a, axes))
    squares = np.sum((a - mean) ** 2, axis=axes, keepdims=keep)
    return squares / np.float64(max(0.0, count(a, axes) - correction))


def mean_of(a, axes, keep):
    return np.sum(a, axis=axes, keepdims=keep) / np.float64(count(a, axes))


def moments(names, root, with_mean):
    @op(names, SUMMED)
    def run(tensors, attrs):
        x = tensors[0]
        dtype, axes = float_only([x]), dims_of(attrs["dim"], x.a.ndim)
        value = spread(x.a, axes, attrs["keepdim"], attrs["correction"])
        results = [Tensor(dtype, np.asarray(np.sqrt(value) if root else value))]
        if with_mean:
            mean = np.asarray(mean_of(x.a, axes, attrs["keepdim"]))
            # Of infinities of one sign it is that infinity, or NaN by a formula of differences.
            results.append(Tensor(dtype, np.where(np.isinf(mean), any_of([mean, np.nan]), mean)))
        return results


moments("var", root=False, with_mean=False)
moments("std", root=True, with_mean=False)
moments("var_mean", root=False, with_mean=True)
moments("std_mean", root=True, with_mean=True)


def norm(a, axes, keep, p):
    size = np.abs(a)
    if p == 0:
        return np.sum(size != 0, axis=axes, keepdims=keep).astype(np.float64)
    if np.isinf(p):
        if count(a, axes) == 0:
            raise Unsure("an extreme of no magnitudes")
        return (np.max if p > 0 else np.min)(size, axis=axes, keepdims=keep)
    largest = np.max(size, axis=axes, keepdims=True, initial=0.0)
    scale = np.where((largest == 0) | ~np.isfinite(largest), 1.0, largest)
    total = np.sum((size / scale) ** p, axis=axes, keepdims=True) ** (1 / p) * scale
    return total if keep else np.squeeze(total, axis=axes)


over_dims("linalg_vector_norm", lambda a, axes, keep, attrs: norm(a, axes, keep, attrs["ord"]), SUMMED,
          needs_float=True)
over_dims("norm", lambda a, axes, keep, attrs: norm(a, axes, keep, attrs["p"]), SUMMED, needs_float=True)
