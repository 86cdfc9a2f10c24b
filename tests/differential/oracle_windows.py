"""Convolutions, pools and paddings: which positions of the operand a position of the result reads.

A dim's windows are a list, one entry for each position of the result, of (place in the kernel,
position in the operand). Products of such lists over the windowed dims say everything about an op
and, read the other way, about its cotangent.
"""
import itertools

import numpy as np

import dtypes
from oracle import EXACT, SUMMED, Tensor, Unsure, any_of, op, refuse_unless
from oracle_arithmetic import stored
from oracle_pointwise import float_only


def listed(attrs, name, dims, otherwise, least):
    """An attribute with no entry, one for all windowed dims, or one each."""
    values = attrs.get(name) or []
    refuse_unless(len(values) in (0, 1, dims) and all(v >= least for v in values), name)
    values = values or [otherwise] * dims if otherwise is not None or values else None
    refuse_unless(values is not None, name)
    return values * dims if len(values) == 1 else values


def windows(size, kernel, stride, padding, dilation):
    """Those of a result of as many positions as fit; at least one."""
    out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    refuse_unless(out > 0 and kernel > 0, "no position fits")
    return reading(out, size, (kernel, stride, padding, dilation))


def reading(out, size, form):
    kernel, stride, padding, dilation = form
    return [[(k, o * stride + k * dilation - padding) for k in range(kernel)
             if 0 <= o * stride + k * dilation - padding < size] for o in range(out)]


def triples(dims):
    """(positions in the result, places in the kernel, positions in the operand) over all dims."""
    for outs in itertools.product(*[range(len(d)) for d in dims]):
        for pairs in itertools.product(*[d[o] for d, o in zip(dims, outs)]):
            yield outs, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)


# --- convolutions ----------------------------------------------------------------------------------

def conv_form(attrs, dims):
    return [listed(attrs, name, dims, otherwise, least) for name, otherwise, least in (
        ("stride", 1, 1), ("padding", 0, 0), ("dilation", 1, 1))]


def conv_windows(attrs, sizes, kernels):
    stride, padding, dilation = conv_form(attrs, len(sizes))
    return [windows(*form) for form in zip(sizes, kernels, stride, padding, dilation)]


def by_group(a, dim, groups):
    """Channels as [group, channel]."""
    refuse_unless(groups > 0 and a.shape[dim] % groups == 0, "groups")
    return a.reshape(a.shape[:dim] + (groups, a.shape[dim] // groups) + a.shape[dim + 1:])


def ungrouped(a, dim):
    return a.reshape(a.shape[:dim] + (a.shape[dim] * a.shape[dim + 1],) + a.shape[dim + 2:])


def conv_check(x, weight, dims, groups):
    refuse_unless(x.ndim == dims + 2 and weight.ndim == dims + 2, "dims")
    refuse_unless(groups > 0 and x.shape[1] % groups == 0 and weight.shape[0] % groups == 0, "groups")
    refuse_unless(x.shape[1] // groups == weight.shape[1], "channels")
    if 0 in weight.shape:
        raise Unsure("a kernel without elements")
    if not np.all(np.isfinite(weight)):
        raise Unsure("paddings times what is not finite")


def with_bias(out, tensors, dtype, channels):
    if len(tensors) > 2 and tensors[2] is not None:
        refuse_unless(tensors[2].shape == (channels,), "bias")
        out = out + dtypes.cast(dtype, tensors[2].a).reshape((-1,) + (1,) * (out.ndim - 2))
    return Tensor(dtype, out)


def conv(name, dims):
    @op(name, SUMMED)
    def run(tensors, attrs):
        dtype = float_only([t for t in tensors if t is not None])
        x, weight = [dtypes.cast(dtype, t.a) for t in tensors[:2]]
        conv_check(x, weight, dims, attrs["groups"])
        reads = conv_windows(attrs, x.shape[2:], weight.shape[2:])
        xs, ws = by_group(x, 1, attrs["groups"]), by_group(weight, 0, attrs["groups"])
        out = np.zeros(xs.shape[:2] + (ws.shape[1],) + tuple(map(len, reads)))
        for o, k, i in triples(reads):
            out[(...,) + o] += np.einsum("ngc,goc->ngo", xs[(...,) + i], ws[(...,) + k])
        return with_bias(ungrouped(out, 1), tensors, dtype, weight.shape[0])

    @op(name + "_input_grad", SUMMED)
    def input_grad(tensors, attrs):
        dtype = float_only(tensors)
        grad, weight = [dtypes.cast(dtype, t.a) for t in tensors]
        refuse_unless(grad.ndim == dims + 2 and weight.ndim == dims + 2, "dims")
        sizes = listed(attrs, "input_size", dims, None, 0)
        reads = conv_windows(attrs, sizes, weight.shape[2:])
        refuse_unless(grad.shape[2:] == tuple(map(len, reads)), "sizes of grad")
        refuse_unless(grad.shape[1] == weight.shape[0], "channels")
        gs, ws = by_group(grad, 1, attrs["groups"]), by_group(weight, 0, attrs["groups"])
        out = np.zeros(gs.shape[:2] + (ws.shape[2],) + tuple(sizes))
        for o, k, i in triples(reads):
            out[(...,) + i] += np.einsum("ngo,goc->ngc", gs[(...,) + o], ws[(...,) + k])
        return Tensor(dtype, ungrouped(out, 1))

    @op(name + "_weight_grad", SUMMED)
    def weight_grad(tensors, attrs):
        dtype = float_only(tensors)
        grad, x = [dtypes.cast(dtype, t.a) for t in tensors]
        refuse_unless(grad.ndim == dims + 2 and x.ndim == dims + 2 and len(grad) == len(x), "dims")
        kernels = listed(attrs, "kernel_size", dims, None, 1)
        reads = conv_windows(attrs, x.shape[2:], kernels)
        refuse_unless(grad.shape[2:] == tuple(map(len, reads)), "sizes of grad")
        if any(attrs["padding"]) and not np.isfinite(grad).all():
            raise Unsure("paddings times what is not finite")
        gs, xs = by_group(grad, 1, attrs["groups"]), by_group(x, 1, attrs["groups"])
        out = np.zeros((attrs["groups"], gs.shape[2], xs.shape[2]) + tuple(kernels))
        for o, k, i in triples(reads):
            out[(...,) + k] += np.einsum("ngo,ngc->goc", gs[(...,) + o], xs[(...,) + i])
        return Tensor(dtype, ungrouped(out, 0))


conv("conv1d", 1)
conv("conv2d", 2)


def conv_transpose(name, dims):
    """Each position of the operand adds its multiple of the kernel to the result."""
    @op(name, SUMMED)
    def run(tensors, attrs):
        dtype = float_only([t for t in tensors if t is not None])
        x, weight = [dtypes.cast(dtype, t.a) for t in tensors[:2]]
        refuse_unless(x.ndim == dims + 2 and weight.ndim == dims + 2, "dims")
        refuse_unless(x.shape[1] == weight.shape[0], "channels")
        more = listed(attrs, "output_padding", dims, 0, 0)
        stride, padding, dilation = conv_form(attrs, dims)
        refuse_unless(all(m < max(s, d) for m, s, d in zip(more, stride, dilation)), "output_padding")
        sizes, reads = [], []
        for n, k, s, p, d, m in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, more):
            sizes.append((n - 1) * s - 2 * p + d * (k - 1) + m + 1)
            refuse_unless(sizes[-1] > 0 and k > 0 and n > 0, "no position fits")
            reads.append(reading(n, sizes[-1], (k, s, p, d)))
        xs, ws = by_group(x, 1, attrs["groups"]), by_group(weight, 0, attrs["groups"])
        out = np.zeros(xs.shape[:2] + (ws.shape[2],) + tuple(sizes))
        for i, k, o in triples(reads):
            out[(...,) + o] += np.einsum("ngc,gco->ngo", xs[(...,) + i], ws[(...,) + k])
        return with_bias(ungrouped(out, 1), tensors, dtype, out.shape[1] * out.shape[2])


conv_transpose("conv_transpose1d", 1)
conv_transpose("conv_transpose2d", 2)


# --- pools -----------------------------------------------------------------------------------------

def pool_windows(attrs, sizes):
    """Windows of each dim, and of each window how many padded positions it covers."""
    dims = len(sizes)
    kernel = listed(attrs, "kernel_size", dims, None, 1)
    stride = listed(attrs, "stride", dims, None, 1) if attrs.get("stride") else kernel
    padding, dilation = listed(attrs, "padding", dims, 0, 0), listed(attrs, "dilation", dims, 1, 1)
    reads, covered = [], []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation):
        refuse_unless(2 * p <= k, "padding is at most half of the kernel")
        room = n + 2 * p - d * (k - 1) - 1
        refuse_unless(room >= 0 and n > 0, "no position fits")
        out = room // s + 1
        if attrs["ceil_mode"]:
            out = -(-room // s) + 1
            out -= (out - 1) * s >= n + p  # the last window begins inside, or in the left padding
        reads.append(reading(out, n, (k, s, p, d)))
        covered.append([min(o * s - p + k, n + p) - (o * s - p) for o in range(out)])
    return reads, covered


def adaptive_windows(attrs, sizes):
    outs = listed(attrs, "output_size", len(sizes), None, 0)
    if 0 in outs or 0 in sizes:
        raise Unsure("pools of nothing")
    return [[[(0, i) for i in range(o * n // out, -(-(o + 1) * n // out))] for o in range(out)]
            for n, out in zip(sizes, outs)]


def planes(tensors, dims):
    dtype = float_only(tensors)
    refuse_unless(all(t.a.ndim >= dims for t in tensors), "dims")
    return dtype


def weights_of(attrs, reads, covered):
    """{(out, in): weight} of an average over windows."""
    weights = {}
    for outs in itertools.product(*[range(len(d)) for d in reads]):
        inside = list(itertools.product(*[[i for _, i in d[o]] for d, o in zip(reads, outs)]))
        size = np.prod([c[o] for c, o in zip(covered, outs)]) if covered else len(inside)
        if covered and not attrs["count_include_pad"]:
            size = len(inside)
        size = attrs.get("divisor_override") or size
        for at in inside:
            weights[outs, at] = weights.get((outs, at), 0.0) + 1 / size
    return weights


def averages(name, dims, windows_of):
    @op(name, SUMMED)
    def run(tensors, attrs):
        dtype, x = planes(tensors, dims), tensors[0].a
        reads, covered = windows_of(attrs, x.shape[x.ndim - dims:])
        out = np.zeros(x.shape[:x.ndim - dims] + tuple(map(len, reads)))
        for (o, i), weight in weights_of(attrs, reads, covered).items():
            out[(...,) + o] += weight * x[(...,) + i]
        return Tensor(dtype, out)

    @op(name + "_grad", SUMMED)
    def run_grad(tensors, attrs):
        dtype, g = planes(tensors, dims), tensors[0].a
        sizes = attrs["input_size"][-dims:]
        refuse_unless(len(sizes) == dims, "input_size")
        reads, covered = windows_of(attrs, sizes)
        refuse_unless(g.shape[g.ndim - dims:] == tuple(map(len, reads)), "sizes of grad")
        out = np.zeros(g.shape[:g.ndim - dims] + tuple(sizes))
        for (o, i), weight in weights_of(attrs, reads, covered).items():
            out[(...,) + i] += weight * g[(...,) + o]
        return Tensor(dtype, out)


def largest_of(x, outs, reads, sizes):
    """The first place of the largest element of a window; any NaN that it has."""
    inside = list(itertools.product(*[[i for _, i in d[o]] for d, o in zip(reads, outs)]))
    flat = [int(np.ravel_multi_index(i, sizes)) for i in inside]
    values = [x[i] for i in inside]
    nan = [f for f, v in zip(flat, values) if np.isnan(v)]
    return any_of(nan) if nan else flat[int(np.argmax(values))]


def chosen(x, dims, reads):
    """Of each window the place of its largest element in the plane."""
    lead, sizes = x.shape[:x.ndim - dims], x.shape[x.ndim - dims:]
    index = np.zeros(lead + tuple(map(len, reads)), np.int64)
    for at in np.ndindex(*lead):
        for outs in itertools.product(*[range(len(d)) for d in reads]):
            index[at + outs] = largest_of(x[at], outs, reads, sizes)
    return index


def maxima(names, dims, windows_of):
    """Ops by name: whether they give the places, too."""
    def forward(with_places):
        def run(tensors, attrs):
            dtype, x = planes(tensors, dims), tensors[0].a
            index = chosen(x, dims, windows_of(attrs, x.shape[x.ndim - dims:])[0])
            lead = x.shape[:x.ndim - dims]
            flat = x.reshape(lead + (int(np.prod(x.shape[len(lead):])),))
            places = index.reshape(lead + (int(np.prod(index.shape[len(lead):])),))
            values = np.take_along_axis(flat, places, -1).reshape(index.shape)
            results = [Tensor(dtype, values), Tensor("I64", index)]
            return results if with_places else results[0]
        return run
    for name, with_places in names.items():
        op(name)(forward(with_places))

    @op(next(iter(names)) + "_grad", SUMMED)
    def run_grad(tensors, attrs):
        dtype = planes(tensors, dims)
        g, x = tensors[0].a, tensors[1].a
        index = chosen(x, dims, windows_of(attrs, x.shape[x.ndim - dims:])[0])
        refuse_unless(g.shape == index.shape, "sizes of grad")
        out = np.zeros(x.shape)
        for at in np.ndindex(*g.shape):
            lead = at[:x.ndim - dims]
            place = np.unravel_index(index[at], x.shape[x.ndim - dims:])
            out[lead + tuple(place)] += g[at]
        return Tensor(dtype, out)


def shared_out(attrs, sizes):
    return adaptive_windows(attrs, sizes), None


for _dims in (1, 2):
    averages(f"avg_pool{_dims}d", _dims, pool_windows)
    averages(f"adaptive_avg_pool{_dims}d", _dims, shared_out)
    maxima({f"max_pool{_dims}d": False, f"max_pool{_dims}d_with_indices": True}, _dims, pool_windows)
    maxima({f"adaptive_max_pool{_dims}d": True}, _dims, shared_out)


# --- paddings and resampling -------------------------------------------------------------------------

def padded_sources(kind, before, size, after):
    """Of each position of the padded dim the one that it is taken from, or None."""
    if kind == "constant":
        return [i if 0 <= i < size else None for i in range(-before, size + after)]
    if min(before, after) < 0 or size == 0:
        raise Unsure("a continuation that takes away, or of nothing")
    if kind == "replicate":
        return [min(max(i, 0), size - 1) for i in range(-before, size + after)]
    if kind == "circular":
        if max(before, after) > size:
            raise Unsure("more than once round")
        return [i % size for i in range(-before, size + after)]
    refuse_unless(max(before, after) < size, "a mirror is no longer than what it shows")
    return [-i if i < 0 else 2 * (size - 1) - i if i >= size else i for i in range(-before, size + after)]


def pad_maps(kind, pad, shape, dims):
    refuse_unless(len(pad) % 2 == 0 and len(pad) // 2 <= len(shape), "pad")
    refuse_unless(dims is None or len(pad) == 2 * dims, "padding")
    maps = {}
    for place in range(len(pad) // 2):
        dim = len(shape) - 1 - place
        refuse_unless(shape[dim] + pad[2 * place] + pad[2 * place + 1] >= 0, "negative sizes")
        maps[dim] = padded_sources(kind, pad[2 * place], shape[dim], pad[2 * place + 1])
    return maps


def taken(a, maps, value):
    for dim, sources in maps.items():
        out = np.full(a.shape[:dim] + (len(sources),) + a.shape[dim + 1:], value, a.dtype)
        moved, given = np.moveaxis(out, dim, 0), np.moveaxis(a, dim, 0)
        for at, source in enumerate(sources):
            if source is not None:
                moved[at] = given[source]
        a = out
    return a


def given_back(g, maps, shape):
    """The cotangent: what was taken from a position adds up there."""
    for dim, sources in maps.items():
        refuse_unless(g.shape[dim] == len(sources), "sizes of grad")
        out = np.zeros(g.shape[:dim] + (shape[dim],) + g.shape[dim + 1:], g.dtype)
        moved, given = np.moveaxis(out, dim, 0), np.moveaxis(g, dim, 0)
        for at, source in enumerate(sources):
            if source is not None:
                moved[source] += given[at]
        g = out
    return g


def mapping(name, maps_of, value_of=lambda attrs, dtype: 0):
    """An op that takes positions, and its cotangent."""
    @op(name)
    def run(tensors, attrs):
        x = tensors[0]
        return Tensor(x.dtype, taken(x.a, maps_of(attrs, x.shape), value_of(attrs, x.dtype)))

    @op(name + "_grad", SUMMED)
    def run_grad(tensors, attrs):
        g, shape = tensors[0], tuple(attrs["input_size"])
        refuse_unless(len(shape) == g.a.ndim, "input_size")
        if not g.floating:
            raise Unsure("a cotangent of integers")
        maps = maps_of(attrs, shape)
        refuse_unless(all(d in maps or n == m for d, (n, m) in enumerate(zip(shape, g.shape))), "sizes")
        return Tensor(g.dtype, given_back(g.a, maps, shape))


def nearest(dims):
    def maps(attrs, shape):
        outs = listed(attrs, "output_size", dims, None, 0)
        refuse_unless(len(shape) >= dims, "dims")
        if 0 in outs or 0 in shape[-dims:]:
            raise Unsure("resampling of nothing")
        return {len(shape) - dims + d: [o * shape[len(shape) - dims + d] // out for o in range(out)]
                for d, out in enumerate(outs)}
    return maps


def some_dims(shape):
    refuse_unless(len(shape) > 0, "a dim")
    return shape


def constant_of(attrs, dtype):
    return stored(attrs["value"], dtype)


mapping("constant_pad_nd", lambda attrs, shape: pad_maps("constant", attrs["pad"], shape, None), constant_of)
mapping("_pad_circular", lambda attrs, shape: pad_maps("circular", attrs["pad"], some_dims(shape), None))
for _dims in (1, 2):
    mapping(f"reflection_pad{_dims}d", lambda attrs, shape, n=_dims: pad_maps(
        "reflect", attrs["padding"], shape, n))
    mapping(f"replication_pad{_dims}d", lambda attrs, shape, n=_dims: pad_maps(
        "replicate", attrs["padding"], shape, n))
    mapping(f"upsample_nearest{_dims}d", nearest(_dims))
