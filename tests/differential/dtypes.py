"""Element types as the oracle carries them: integers as they are, floating types as float64.

Every value of F32, BF16 and F16 is a float64 too, so the oracle computes in float64 and rounds each
result to its dtype once. That keeps numpy's aliasing (a view of a float64 carrier is a view) and
needs no BF16, which numpy lacks.
"""
import numpy as np

FLOATING = ("F64", "F32", "BF16", "F16")
INTEGERS = ("I64", "I32", "U8")
INDICES = ("I64", "I32")
ALL = FLOATING + INTEGERS + ("BOOL",)

CARRIER = {
    "F64": np.float64, "F32": np.float64, "BF16": np.float64, "F16": np.float64,
    "I64": np.int64, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_,
}
SIZE = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "U8": 1, "BOOL": 1}
# Distance from 1 to the next number.
EPSILON = {"F64": 2.0**-52, "F32": 2.0**-23, "BF16": 2.0**-7, "F16": 2.0**-10}
LARGEST = {"F64": np.finfo(np.float64).max, "F32": float(np.finfo(np.float32).max),
           "BF16": 2.0**127 * (2 - 2.0**-7), "F16": 65504.0}
SMALLEST = {"F64": 5e-324, "F32": 2.0**-149, "BF16": 2.0**-133, "F16": 2.0**-24}
INTEGER_RANGE = {"I64": (-2**63, 2**63 - 1), "I32": (-2**31, 2**31 - 1), "U8": (0, 255), "BOOL": (0, 1)}


def kind(dtype):
    """BOOL below integers below floating types."""
    return 2 if dtype in FLOATING else 0 if dtype == "BOOL" else 1


def promote(a, b):
    """placement/dtype.h: floating beats integer beats BOOL, then the wider; BF16 with F16 is F32."""
    if a == b:
        return a
    if kind(a) != kind(b):
        return a if kind(a) > kind(b) else b
    if {a, b} == {"BF16", "F16"}:
        return "F32"
    return a if SIZE[a] > SIZE[b] else b


def promote_all(tensors):
    """The dtype of a result of several operands: one of no dims counts only if it is of a higher kind."""
    with_dims = _promoted(t.dtype for t in tensors if t.a.ndim)
    without = _promoted(t.dtype for t in tensors if not t.a.ndim)
    if with_dims is None or without is None:
        return with_dims or without or "F32"
    return without if kind(without) > kind(with_dims) else with_dims


def _promoted(dtypes):
    result = None
    for dtype in dtypes:
        result = dtype if result is None else promote(result, dtype)
    return result


def to_bf16(a):
    """float64 rounded to the nearest BF16, halves to even, by way of F32."""
    with np.errstate(over="ignore"):
        bits = np.atleast_1d(np.asarray(a, np.float32)).view(np.uint32).astype(np.int64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    result = rounded.astype(np.uint32).view(np.float32).astype(np.float64).reshape(np.shape(a))
    return np.where(np.isnan(a), np.nan, result)


def round_to(dtype, a):
    """The carrier of `dtype` that is nearest to the float64 or integer array `a`."""
    if dtype == "F64":
        return np.asarray(a, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "F32":
            return np.asarray(a, np.float32).astype(np.float64)
        if dtype == "F16":
            return np.asarray(a, np.float16).astype(np.float64)
        if dtype == "BF16":
            return to_bf16(np.asarray(a, np.float64))
        return np.asarray(a).astype(CARRIER[dtype])


def cast(dtype, a):
    """`to`: between carriers. A floating value goes to an integer towards zero, to BOOL by != 0."""
    a = np.asarray(a)
    if dtype == "BOOL":
        return a != 0
    if dtype in INTEGERS and a.dtype.kind == "f":
        return integers(dtype, a)
    return round_to(dtype, a)


def integers(dtype, a):
    """To their ends beyond them, and NaN to 0; U8 is the low byte of an I64."""
    ends = np.iinfo(np.int32 if dtype == "I32" else np.int64)
    inside = (a > ends.min) & (a < ends.max)
    whole = np.where(inside, np.trunc(np.where(inside, a, 0)), 0).astype(np.int64)
    whole = np.where(a >= ends.max, ends.max, np.where(a <= ends.min, ends.min, whole))
    return whole.astype(CARRIER[dtype])
