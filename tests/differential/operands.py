"""Values of operands: ordinary ones, ties, limits, numbers that are not finite."""
import numpy as np

import dtypes

PLAIN = ("distinct", "ordinary", "ties", "small")
SPECIAL = ("special", "extreme", "zeros", "constant", "one_special", "sorted")


def style_of(rng, special_share=0.3):
    return rng.choice(SPECIAL) if rng.random() < special_share else rng.choice(PLAIN)


def values(rng, dtype, shape, style):
    """A carrier of `dtype`."""
    n = int(np.prod(shape, dtype=np.int64))
    if dtype == "BOOL":
        flat = np.full(n, rng.random() < 0.5) if style == "constant" else rng.random(n) < 0.5
    elif dtype in dtypes.FLOATING:
        flat = dtypes.round_to(dtype, floating(rng, dtype, n, style))
    else:
        flat = integers(rng, dtype, n, style)
    if style == "sorted":
        flat = np.sort(flat)
    return np.asarray(flat, dtypes.CARRIER[dtype]).reshape(shape)


def floating(rng, dtype, n, style):
    if style == "distinct":
        return (rng.permutation(n) - n // 2 + 0.5) / 8
    if style == "ties":
        return rng.choice([-1.0, 0.0, 1.0, 2.0], n)
    if style == "small":
        return rng.integers(-16, 17, n) / 8
    if style == "zeros":
        return rng.choice([0.0, -0.0, 1.0, -1.0], n)
    if style == "constant":
        return np.full(n, rng.choice([0.0, 1.0, -0.5, 3.0, -0.0]))
    if style == "special":
        return rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 2.5], n)
    if style == "one_special":
        a = rng.integers(-16, 17, n) / 8
        if n:
            a[rng.integers(n)] = rng.choice([np.inf, -np.inf, np.nan, -0.0])
        return a
    if style == "extreme":
        largest, tiny = dtypes.LARGEST[dtype], dtypes.SMALLEST[dtype]
        return rng.choice([largest, -largest, tiny, -tiny, 20.0, -20.0, 100.0, -100.0, 0.0, 1.0], n)
    return rng.normal(size=n)


def integers(rng, dtype, n, style):
    low, high = dtypes.INTEGER_RANGE[dtype]
    if style == "distinct":
        return (rng.permutation(n) - (n // 2 if low else 0)).astype(np.int64)
    if style in ("extreme", "special"):
        picks = [low, high, low + 1, high - 1, 0, 1, 2, high // 2] + ([-1, -2] if low else [])
        return np.array([picks[i] for i in rng.integers(len(picks), size=n)], np.int64)
    if style == "one_special":
        a = rng.integers(-3 if low else 0, 6, n)
        if n:
            a[rng.integers(n)] = low if rng.random() < 0.5 else high
        return a
    if style == "constant":
        return np.full(n, rng.integers(0, 5))
    if style in ("ties", "zeros"):
        return rng.integers(-1 if low else 0, 3, n)
    return rng.integers(-9 if low else 0, 10, n)


def listed(carrier):
    """The elements as JSON has them."""
    flat = carrier.ravel().tolist()
    if carrier.dtype != np.float64:
        return flat
    return [v if np.isfinite(v) else ("nan" if v != v else "inf" if v > 0 else "-inf") for v in flat]
