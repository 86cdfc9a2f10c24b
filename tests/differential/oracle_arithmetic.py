"""Sums, products, quotients and powers of elements and numbers, bounds, fills, optimizer steps."""
import numpy as np

import dtypes
from oracle import (EXACT, ROUNDED, STEPPED, SUMMED, Refused, Tensor, Unsure, any_of, op, refuse_unless)
from oracle_pointwise import (any_number, broadcast, float_only, is_bool, is_float, larger,
                              not_bool, smaller)


def held(value, dtype):
    """The number as the dtype's own; what an integer tensor cannot hold is refused."""
    if dtype in dtypes.FLOATING:
        return np.float64(value)
    low, high = dtypes.INTEGER_RANGE["I64"]
    refuse_unless(np.isfinite(value) and float(value).is_integer(), f"{value} of {dtype}")
    refuse_unless(low <= int(value) <= high, f"{value} of {dtype}")
    return int(value)


def of(value, x):
    """`value` in the carrier of x, wrapping as its arithmetic does."""
    if is_float(x):
        return np.float64(value)
    if is_bool(x):
        raise Unsure("a number beside BOOL")
    return np.int64(value).astype(x.dtype)


def with_number(name, function, grade=ROUNDED, attribute="value", needs_float=False):
    """function(x, number, attrs) of one operand and one number."""
    @op(name, grade)
    def run(tensors, attrs):
        dtype = float_only(tensors) if needs_float else tensors[0].dtype
        value = of(held(attrs[attribute], dtype), tensors[0].a)
        if grade == STEPPED and dtype in dtypes.FLOATING:
            # It may be rounded before: to what the kernel computes in, or to the elements' dtype.
            value = any_of([value, dtypes.round_to("F64" if dtype == "F64" else "F32", value), dtypes.round_to(dtype, value)])
        return Tensor(dtype, function(tensors[0].a, value, attrs))


def alpha_of(a, attrs, dtype):
    return of(held(attrs.get("alpha", 1.0), dtype), a) if not is_bool(a) else True


def adding(names, combine):
    @op(names, ROUNDED)
    def run(tensors, attrs):
        dtype = dtypes.promote_all(tensors)
        a, b = broadcast(tensors, dtype)
        refuse_unless(names == "add" or not is_bool(a), "differences of BOOL")
        if is_bool(a) and attrs.get("alpha", 1.0) != 1:
            raise Unsure("a factor of BOOL")
        return Tensor(dtype, combine(a, b, alpha_of(a, attrs, dtype)))


adding("add", lambda a, b, alpha: a | b if is_bool(a) else a + alpha * b)
adding("sub", lambda a, b, alpha: a - alpha * b)
adding("rsub", lambda a, b, alpha: b - alpha * a)
any_number("mul", lambda a, b, attrs: a * b, ROUNDED)
with_number("add_scalar", lambda x, value, attrs: x + value)
with_number("sub_scalar", lambda x, value, attrs: x - value)
with_number("mul_scalar", lambda x, value, attrs: x * value)
with_number("rsub_scalar", lambda x, value, attrs: value - attrs["alpha"] * x, needs_float=True)


@op("div", ROUNDED)
def _div(tensors, attrs):
    dtype = float_only(tensors)
    a, b = broadcast(tensors, dtype)
    return Tensor(dtype, a / b)


with_number("div_scalar", lambda x, value, attrs: x / value, needs_float=True)


# --- division with a remainder -------------------------------------------------------------------

def divisor(a, b):
    refuse_unless(not np.any(b == 0) or np.broadcast_shapes(a.shape, np.shape(b)).count(0),
                  "integer division by zero")
    return b


def float_remainder(a, b):
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def float_floor_divide(a, b):
    """The whole quotient of what is left of a without its remainder; of infinity as the limit."""
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    quotient = np.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient)
    floored = np.floor(quotient)
    floored = np.where(quotient - floored > 0.5, floored + 1, floored)
    floored = np.where(floored == 0, np.copysign(0.0, a / b), floored)
    floored = np.where(np.isinf(b) & np.isfinite(a), np.where(
        (a != 0) & ((a < 0) != (b < 0)), -1.0, np.copysign(0.0, a / b)), floored)
    return np.where(b == 0, a / b, floored)


def floor_divide(a, b):
    if is_float(a):
        return float_floor_divide(a, b)
    quotient = np.floor_divide(a, divisor(a, np.where(b == -1, 1, b).astype(a.dtype)))
    return np.where(b == -1, -a if a.dtype != np.uint8 else quotient, quotient)


def remainder(a, b):
    if is_float(a):
        return float_remainder(a, b)
    return np.remainder(a, divisor(a, b))


def fmod(a, b):
    return np.fmod(a, b if is_float(a) else divisor(a, b))


def dividing(name, function):
    def of_tensors(a, b, attrs):
        if is_bool(a):
            raise Unsure("division of BOOL")
        return function(a, b)
    any_number(name, of_tensors, STEPPED)
    with_number(name + "_scalar", lambda x, value, attrs: function(
        x, np.asarray(value).astype(x.dtype)), STEPPED)


dividing("floor_divide", floor_divide)
dividing("remainder", remainder)
dividing("fmod", fmod)


# --- powers --------------------------------------------------------------------------------------

def whole_power(a, b):
    """Integers wrap; of negative powers only those of 1 and -1 are whole and not 0."""
    with_sign = np.where(b % 2 == 0, 1, a)
    negative = np.where(a == 1, 1, np.where(a == -1, with_sign, 0))
    return np.where(b < 0, negative, np.power(a, np.where(b < 0, 0, b))).astype(a.dtype)


@op("pow_tensor", ROUNDED)
def _pow_tensor(tensors, attrs):
    dtype = dtypes.promote_all(tensors)
    a, b = broadcast(tensors, dtype)
    if is_bool(a):
        raise Unsure("powers of BOOL")
    return Tensor(dtype, np.power(a, b) if is_float(a) else whole_power(a, b))


@op("float_power", ROUNDED)
def _float_power(tensors, attrs):
    a, b = broadcast(tensors, "F64")
    return Tensor("F64", np.power(a, b))


def power(x, value, attrs):
    """Of infinities and zeros roots by their own functions differ from powers."""
    plain = np.power(x, np.full(x.shape, value))
    if abs(value) != 0.5:
        return plain
    root = np.sqrt(x)
    return any_of([plain, root if value > 0 else 1 / root])


with_number("pow", power, attribute="exponent", needs_float=True)
with_number("scalar_pow", lambda x, value, attrs: np.power(value, x), attribute="self",
            needs_float=True)


# --- three operands ------------------------------------------------------------------------------

def scaled_pair(name, combine, needs_float):
    @op(name, ROUNDED)
    def run(tensors, attrs):
        dtype = float_only(tensors) if needs_float else dtypes.promote_all(tensors)
        a, b, c = broadcast(tensors, dtype)
        return Tensor(dtype, a + of(held(attrs["value"], dtype), a) * combine(b, c))


scaled_pair("addcmul", lambda b, c: b * c, needs_float=False)
scaled_pair("addcdiv", lambda b, c: b / c, needs_float=True)


@op("lerp_scalar", ROUNDED)
def _lerp_scalar(tensors, attrs):
    dtype = float_only(tensors)
    a, b = broadcast(tensors, dtype)
    w = attrs["weight"]
    return Tensor(dtype, a + w * (b - a) if abs(w) < 0.5 else b + (b - a) * (w - 1))


# --- bounds and comparisons with a number ----------------------------------------------------------

def bounded(x, low, high):
    """min(max(x, low), high) with a bound or none; integers are bound by nothing on an infinite side."""
    if is_bool(x):
        raise Unsure("bounds of BOOL")
    for bound, choose in ((low, larger), (high, smaller)):
        if bound is None or (not is_float(x) and bound == (-np.inf if choose is larger else np.inf)):
            continue
        low_end, high_end = (-np.inf, np.inf) if is_float(x) else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        if bound < low_end or bound > high_end:
            raise Unsure("a bound that the dtype does not hold")
        x = choose(x, np.full(x.shape, of(held(bound, "F64" if is_float(x) else "I64"), x)))
    return x


@op("clamp")
def _clamp(tensors, attrs):
    return Tensor(tensors[0].dtype, bounded(tensors[0].a, attrs["min"], attrs["max"]))


@op("clamp_min")
def _clamp_min(tensors, attrs):
    return Tensor(tensors[0].dtype, bounded(tensors[0].a, attrs["min"], None))


@op("clamp_max")
def _clamp_max(tensors, attrs):
    return Tensor(tensors[0].dtype, bounded(tensors[0].a, None, attrs["max"]))


@op("hardtanh")
def _hardtanh(tensors, attrs):
    return Tensor(tensors[0].dtype, bounded(tensors[0].a, attrs["min_val"], attrs["max_val"]))


@op("threshold")
def _threshold(tensors, attrs):
    x = not_bool(tensors[0].a)
    value = of(held(attrs["value"], tensors[0].dtype), x)
    return Tensor(tensors[0].dtype, np.where(x <= attrs["threshold"], value, x))


for _name, _compare in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                        "gt": np.greater, "ge": np.greater_equal}.items():
    @op(_name + "_scalar")
    def _compared(tensors, attrs, function=_compare):
        """A floating tensor is compared with the number as its dtype has it, others with the number itself."""
        x, value = tensors[0], attrs["value"]
        return Tensor("BOOL", function(x.a, dtypes.round_to(x.dtype, value) if x.floating else value))


def bits_with_number(name, function):
    @op(name)
    def run(tensors, attrs):
        x = tensors[0]
        refuse_unless(not x.floating, "an integer type is needed")
        if x.dtype == "BOOL" and attrs["value"] not in (0, 1):
            raise Unsure("a number beside BOOL")
        return Tensor(x.dtype, function(x.a, np.int64(attrs["value"]).astype(x.a.dtype)))


bits_with_number("bitwise_and_scalar", np.bitwise_and)
bits_with_number("bitwise_or_scalar", np.bitwise_or)
bits_with_number("bitwise_xor_scalar", np.bitwise_xor)


# --- choices -------------------------------------------------------------------------------------

def mask_of(tensor):
    refuse_unless(tensor.dtype == "BOOL", "a mask is BOOL")
    return tensor.a


@op("where")
def _where(tensors, attrs):
    dtype = dtypes.promote_all(tensors[1:])
    a, b = [dtypes.cast(dtype, t.a) for t in tensors[1:]]
    return Tensor(dtype, np.where(mask_of(tensors[0]), a, b))


@op("where_scalar")
def _where_scalar(tensors, attrs):
    x = tensors[1]
    other = stored(attrs["other"], x.dtype)
    return Tensor(x.dtype, np.where(mask_of(tensors[0]), x.a, other))


def stored(value, dtype):
    """A number as an element of `dtype`: what it cannot hold is refused."""
    if dtype in dtypes.FLOATING:
        return np.float64(value)
    value = held(value, dtype)
    low, high = dtypes.INTEGER_RANGE[dtype]
    refuse_unless(low <= value <= high, f"{value} of {dtype}")
    return dtypes.CARRIER[dtype](value)


def fits(shape, *others):
    refuse_unless(np.broadcast_shapes(shape, *others) == tuple(shape), "does not broadcast to self")


@op("masked_fill")
def _masked_fill(tensors, attrs):
    x, mask = tensors
    return Tensor(x.dtype, np.where(mask_of(mask), stored(attrs["value"], x.dtype), x.a))


@op("masked_fill_tensor")
def _masked_fill_tensor(tensors, attrs):
    x, mask, value = tensors
    refuse_unless(value.a.ndim == 0, "value has no dims")
    refuse_unless(dtypes.kind(value.dtype) <= dtypes.kind(x.dtype), "value is of a higher kind")
    return Tensor(x.dtype, np.where(mask_of(mask), dtypes.cast(x.dtype, value.a), x.a))


# --- fills: an op in place on its operand ----------------------------------------------------------

def filling(name, function, grade=EXACT):
    """function(shape, attrs, dtype) gives what the operand becomes."""
    @op(name[:-1] if name.endswith("_") else name, grade)
    def run(tensors, attrs):
        x = tensors[0]
        return Tensor(x.dtype, dtypes.cast(x.dtype, function(x.shape, attrs, x.dtype)))


def along_only_dim(shape):
    refuse_unless(len(shape) == 1, "one dim")
    return np.arange(shape[0], dtype=np.float64)


def linspace(shape, attrs, dtype):
    steps = along_only_dim(shape)
    if len(steps) < 2:
        return np.full(shape, attrs["start"])
    return attrs["start"] + steps * ((attrs["end"] - attrs["start"]) / (len(steps) - 1))


def eye(shape, attrs, dtype):
    refuse_unless(len(shape) == 2, "a matrix")
    return np.eye(*shape)


filling("fill_", lambda shape, attrs, dtype: np.full(shape, stored(attrs["value"], dtype)))
filling("zero_", lambda shape, attrs, dtype: np.zeros(shape))
filling("eye_", eye)
filling("arange_", lambda shape, attrs, dtype: attrs["start"] + along_only_dim(shape) * attrs["step"],
        ROUNDED)
filling("linspace_", linspace, ROUNDED)
filling("logspace_", lambda shape, attrs, dtype: np.power(
    np.float64(attrs["base"]), linspace(shape, attrs, dtype)), ROUNDED)


@op("copy")
def _copy(tensors, attrs):
    x, other = tensors
    fits(x.shape, other.shape)
    return Tensor(x.dtype, np.broadcast_to(dtypes.cast(x.dtype, other.a), x.shape))
