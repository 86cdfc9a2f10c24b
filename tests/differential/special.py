"""Functions of one number that numpy lacks, as arrays take them."""
import math

import numpy as np


def of_arrays(function):
    return np.vectorize(function, otypes=[np.float64])


@of_arrays
def erf(x):
    return math.erf(x)


@of_arrays
def erfc(x):
    return math.erfc(x)


@of_arrays
def erfinv(x):
    if not -1 <= x <= 1:
        return math.nan
    if abs(x) == 1:
        return math.copysign(math.inf, x)
    if x == 0:
        return x
    return math.copysign(_positive_erfinv(abs(x)), x)


def _positive_erfinv(a):
    """Halley's iteration from S. Winitzki's guess (2008)."""
    log = math.log((1 - a) * (1 + a))
    half = 2 / (math.pi * 0.147) + log / 2
    guess = math.sqrt(math.sqrt(half * half - log / 0.147) - half)
    if guess == 0:
        return a * math.sqrt(math.pi) / 2
    for _ in range(60):
        # Beyond the middle the complement keeps its digits.
        error = math.erf(guess) - a if a < 0.5 else (1 - a) - math.erfc(guess)
        step = error * math.sqrt(math.pi) / 2 * math.exp(guess * guess)
        step /= 1 + guess * step
        guess -= step
        if abs(step) <= 1e-16 * guess:
            break
    return guess


@of_arrays
def lgamma(x):
    if math.isnan(x):
        return x
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


@of_arrays
def digamma(x):
    """Infinite at 0, of the sign that 1 / -x has; no number at the other poles."""
    if x == 0:
        return math.copysign(math.inf, -x)
    if math.isnan(x) or x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    if x == math.inf:
        return x
    if x < 0:
        return digamma(1 - x) - math.pi / math.tan(math.pi * (x - round(x)))
    shift = 0.0
    while x < 12:
        shift -= 1 / x
        x += 1
    y = 1 / (x * x)
    tail = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132)))))
    return shift + math.log(x) - 0.5 / x - tail


@of_arrays
def i0(x):
    """The power series; beyond 30 the asymptotic one."""
    x = abs(x)
    if math.isnan(x) or x > 800:
        return x + math.inf
    if x <= 30:
        term = total = 1.0
        for k in range(1, 200):
            term *= (x / 2 / k) ** 2
            total += term
            if term < 1e-18 * total:
                break
        return total
    term = total = 1.0
    for k in range(1, 30):
        term *= (2 * k - 1) ** 2 / (8 * k * x)
        total += term
        if term < 1e-18 * total:
            break
    try:
        return math.exp(x) * total / math.sqrt(2 * math.pi * x)
    except OverflowError:
        half = math.exp(x / 2) if x < 1400 else math.inf
        return half * total / math.sqrt(2 * math.pi * x) * half


def gcd(a, b):
    """Of two integer arrays, in their dtype; the least integer's magnitude wraps to itself."""
    return _by_pairs(lambda x, y: math.gcd(int(x), int(y)), a, b)


def lcm(a, b):
    return _by_pairs(lambda x, y: math.lcm(int(x), int(y)), a, b)


def _by_pairs(function, a, b):
    bits = 8 * a.dtype.itemsize
    unsigned = [function(x, y) % (1 << bits) for x, y in zip(a.ravel(), b.ravel())]
    raw = np.array(unsigned, np.uint64).astype(f"u{a.dtype.itemsize}")
    return raw.view(a.dtype).reshape(a.shape)
