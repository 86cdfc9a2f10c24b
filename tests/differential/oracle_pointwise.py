"""Ops that look at one element at a time: of one operand, of two and of three."""
import numpy as np

import dtypes
import special
from oracle import EXACT, ROUNDED, STEPPED, Refused, Tensor, Unsure, any_of, op, refuse_unless


def float_only(tensors):
    dtype = dtypes.promote_all(tensors)
    refuse_unless(dtype in dtypes.FLOATING, "a floating type is needed")
    return dtype


def one_shape(tensors):
    refuse_unless(all(t.shape == tensors[0].shape for t in tensors), "one shape")
    return tensors


def broadcast(tensors, dtype):
    """All operands as carriers of `dtype`, of one shape."""
    try:
        return np.broadcast_arrays(*[dtypes.cast(dtype, t.a) for t in tensors])
    except ValueError as error:
        raise Refused(str(error)) from error


def floating(names, function, grade=ROUNDED):
    """function(*carriers, attrs) of floating operands only."""
    @op(names, grade)
    def run(tensors, attrs):
        dtype = float_only(tensors)
        return Tensor(dtype, function(*broadcast(tensors, dtype), attrs))


def any_number(names, function, grade=EXACT):
    """function(*carriers, attrs) in the promoted dtype, whatever it is."""
    @op(names, grade)
    def run(tensors, attrs):
        dtype = dtypes.promote_all(tensors)
        return Tensor(dtype, function(*broadcast(tensors, dtype), attrs))


def predicate(names, function):
    @op(names)
    def run(tensors, attrs):
        return Tensor("BOOL", function(*broadcast(tensors, dtypes.promote_all(tensors)), attrs))


def is_float(x):
    return x.dtype == np.float64


def is_bool(x):
    return x.dtype == np.bool_


def not_bool(x):
    refuse_unless(not is_bool(x), "BOOL")
    return x


# --- of one operand, floating ------------------------------------------------------------------

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x, beta=1.0, threshold=20.0):
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


def gelu(x, attrs):
    if attrs["approximate"] == "tanh":
        inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
        return vanishing(x, any_of([0.5 * x * (1 + np.tanh(inner)), x * sigmoid(2 * inner)]))
    refuse_unless(attrs["approximate"] == "none")
    return vanishing(x, x * 0.5 * special.erfc(-x / np.sqrt(2)))


def vanishing(x, value):
    """At -inf such a function has the limit 0, and its formula, minus infinity times 0, is no number."""
    return np.where(x == -np.inf, any_of([np.nan, -0.0]), value)


def elu(x, alpha, scale, input_scale):
    return np.where(x > 0, scale * x, np.where(x <= 0, scale * alpha * np.expm1(input_scale * x), x))


def celu(x, attrs):
    if attrs["alpha"] == 0:
        raise Unsure("a division by alpha")
    return elu(x, attrs["alpha"], 1.0, 1 / attrs["alpha"])


def logit(x, attrs):
    eps = attrs["eps"]
    if eps >= 0:
        x = np.where(x < eps, eps, np.where(x > 1 - eps, 1 - eps, x))
    return np.log(x / (1 - x))


def hold(x, low, high):
    """min(max(x, low), high), NaN staying."""
    return np.minimum(np.maximum(x, low), high)


def sinc(x):
    return np.where(x == 0, 1.0, np.sin(np.pi * x) / (np.pi * x))


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946

for _name, _function in {
        "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2,
        "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
        "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
        "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
        "acosh": np.arccosh, "atanh": np.arctanh, "erf": special.erf, "erfc": special.erfc,
        "erfinv": special.erfinv, "lgamma": special.lgamma, "digamma": special.digamma,
        "i0": special.i0, "sigmoid": sigmoid, "silu": lambda x: vanishing(x, x / (1 + np.exp(-x))),
        "mish": lambda x: vanishing(x, x * np.tanh(softplus(x))), "reciprocal": lambda x: 1 / x, "sinc": sinc,
        "softsign": lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))),
        "tanhshrink": lambda x: x - np.tanh(x), "log_sigmoid": lambda x: -np.logaddexp(0, -x),
        "hardsigmoid": lambda x: hold(x + 3, 0, 6) / 6, "hardswish": lambda x: vanishing(x, any_of(
            [x * hold(x + 3, 0, 6) / 6, x * (hold(x + 3, 0, 6) / 6)])),
        "deg2rad": np.deg2rad, "rad2deg": np.rad2deg}.items():
    floating(_name, lambda x, attrs, f=_function: f(x))

floating("gelu", gelu)
floating("softplus", lambda x, attrs: softplus(x, attrs["beta"], attrs["threshold"]))
floating("elu", lambda x, attrs: elu(x, attrs["alpha"], attrs["scale"], attrs["input_scale"]))
floating("selu", lambda x, attrs: elu(x, SELU_ALPHA, SELU_SCALE, 1.0))
floating("celu", celu)
floating("leaky_relu", lambda x, attrs: np.where(x > 0, x, x * attrs["negative_slope"]))
floating("logit", logit)
floating("hardshrink", lambda x, attrs: np.where(np.abs(x) <= attrs["lambd"], 0.0, x), EXACT)
floating("softshrink", lambda x, attrs: np.where(x > attrs["lambd"], x - attrs["lambd"], np.where(
    x < -attrs["lambd"], x + attrs["lambd"], x * 0)))
floating("frac", lambda x, attrs: np.where(np.isinf(x), np.nan, x - np.trunc(x)), EXACT)


# --- of one operand, any dtype -----------------------------------------------------------------

def whole_is_itself(function):
    return lambda x, attrs: function(x) if is_float(x) else not_bool(x)


def nan_to_num(dtype, x, attrs):
    largest = dtypes.LARGEST[dtype]
    high = largest if attrs["posinf"] is None else attrs["posinf"]
    low = -largest if attrs["neginf"] is None else attrs["neginf"]
    nan = 0.0 if attrs["nan"] is None else attrs["nan"]
    return np.where(np.isnan(x), nan, np.where(x == np.inf, high, np.where(x == -np.inf, low, x)))


@op("nan_to_num")
def _(tensors, attrs):
    x = tensors[0]
    return Tensor(x.dtype, nan_to_num(x.dtype, x.a, attrs) if x.floating else x.a)


any_number("ceil", whole_is_itself(np.ceil))
any_number("floor", whole_is_itself(np.floor))
any_number("round", whole_is_itself(np.rint))
any_number("trunc", whole_is_itself(np.trunc))
any_number("abs", lambda x, attrs: np.abs(not_bool(x)))
any_number("neg", lambda x, attrs: -not_bool(x))
any_number("positive", lambda x, attrs: not_bool(x))
any_number("square", lambda x, attrs: x * x, ROUNDED)
any_number("sign", lambda x, attrs: x if is_bool(x) else ((x > 0) * 1 - (x < 0)).astype(x.dtype))
floating("relu", lambda x, attrs: np.maximum(x, 0.0), EXACT)
any_number("relu6", lambda x, attrs: hold(not_bool(x), x.dtype.type(0), x.dtype.type(6)))
any_number("bitwise_not", lambda x, attrs: ~x)
predicate("isnan", lambda x, attrs: x != x)
predicate("isfinite", lambda x, attrs: np.isfinite(x) if is_float(x) else np.ones(x.shape, bool))
predicate("isinf", lambda x, attrs: np.isinf(x) if is_float(x) else np.zeros(x.shape, bool))
predicate("isposinf", lambda x, attrs: x == np.inf if is_float(x) else np.zeros(x.shape, bool))
predicate("isneginf", lambda x, attrs: x == -np.inf if is_float(x) else np.zeros(x.shape, bool))
predicate("signbit", lambda x, attrs: np.where(np.isnan(x), any_of([False, True]), np.signbit(x)) if is_float(x) else x < 0)
predicate("logical_not", lambda x, attrs: x == 0)


# --- of two operands ---------------------------------------------------------------------------

def nextafter(tensors, attrs):
    dtype = float_only(tensors)
    a, b = broadcast(tensors, dtype)
    if dtype == "BF16":
        return Tensor(dtype, next_bf16(a, b))
    stored = {"F64": np.float64, "F32": np.float32, "F16": np.float16}[dtype]
    steps = np.nextafter(a.astype(stored), b.astype(stored)).astype(np.float64)
    return Tensor(dtype, np.where(a == b, b, steps))  # numpy's of F16 keeps the sign of a zero


def next_bf16(a, b):
    """One step of the upper half of an F32's bits, which count up with the magnitude."""
    bits = np.atleast_1d(a.astype(np.float32)).view(np.uint32).reshape(a.shape).astype(np.int64) >> 16
    bits = np.where(a == 0, np.where(b < 0, 0x8001, 1), bits + np.where((b > a) == (a > 0), 1, -1))
    steps = np.atleast_1d((bits << 16).astype(np.uint32)).view(np.float32).reshape(a.shape).astype(np.float64)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a == b, b, steps))


op("nextafter")(nextafter)


def larger(a, b):
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, np.where(a >= b, a, b))) \
        if is_float(a) else np.maximum(a, b)


def smaller(a, b):
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, np.where(a <= b, a, b))) \
        if is_float(a) else np.minimum(a, b)


def xlogy(a, b):
    return np.where(np.isnan(b), np.nan, np.where(a == 0, 0.0, a * np.log(b)))


floating("atan2", lambda a, b, attrs: np.arctan2(a, b))
floating("hypot", lambda a, b, attrs: np.hypot(a, b))
floating("copysign", lambda a, b, attrs: np.copysign(a, np.where(np.isnan(b), any_of([1.0, -1.0]), b)), EXACT)
floating("logaddexp", lambda a, b, attrs: np.logaddexp(a, b))
floating("logaddexp2", lambda a, b, attrs: np.logaddexp2(a, b))
floating("xlogy", lambda a, b, attrs: xlogy(a, b))
floating("ldexp", lambda a, b, attrs: a * np.exp2(b))
any_number("maximum", lambda a, b, attrs: larger(a, b))
any_number("minimum", lambda a, b, attrs: smaller(a, b))
any_number("fmax", lambda a, b, attrs: np.fmax(a, b))
any_number("fmin", lambda a, b, attrs: np.fmin(a, b))
any_number("heaviside", lambda a, b, attrs: np.where(a == 0, b, a > 0).astype(a.dtype))
any_number("clamp_tensor", lambda x, low, high, attrs: smaller(larger(x, low), high))
# Both ends are met exactly, with the sign of their zero.
floating("lerp", lambda a, b, w, attrs: np.where(np.abs(w) < 0.5, a + w * (b - a),
                                                 b + (b - a) * (w - 1)))
for _name, _compare in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                        "gt": np.greater, "ge": np.greater_equal}.items():
    predicate(_name, lambda a, b, attrs, f=_compare: f(a, b))
predicate("logical_and", lambda a, b, attrs: (a != 0) & (b != 0))
predicate("logical_or", lambda a, b, attrs: (a != 0) | (b != 0))
predicate("logical_xor", lambda a, b, attrs: (a != 0) ^ (b != 0))


def isclose(a, b, attrs):
    if not is_float(a):
        a, b = a.astype(np.float64), b.astype(np.float64)
    near = np.abs(a - b) <= attrs["atol"] + np.abs(attrs["rtol"] * b)
    both_nan = np.isnan(a) & np.isnan(b) & bool(attrs["equal_nan"])
    return (a == b) | (np.isfinite(a) & np.isfinite(b) & near) | both_nan


predicate("isclose", isclose)


@op("allclose")
def _allclose(tensors, attrs):
    a, b = broadcast(one_shape(tensors), dtypes.promote_all(tensors))
    return Tensor("BOOL", np.all(isclose(a, b, attrs)))


@op("equal")
def _equal(tensors, attrs):
    a, b = broadcast(one_shape(tensors), dtypes.promote_all(tensors))
    return Tensor("BOOL", np.all(a == b))


def bits(names, function, with_bool=True):
    def run(a, b, attrs):
        refuse_unless(not is_float(a), "an integer type is needed")
        refuse_unless(with_bool or not is_bool(a), "BOOL")
        return function(a, b)
    any_number(names, run)


def shift_left(a, b):
    width = 8 * a.dtype.itemsize
    inside = (b >= 0) & (b < width)
    shifted = np.left_shift(a, np.where(inside, b, 0).astype(a.dtype))
    return np.where(inside, shifted, 0).astype(a.dtype)


def shift_right(a, b):
    width = 8 * a.dtype.itemsize
    inside = (b >= 0) & (b < width)
    beyond = np.where(a < 0, -1, 0).astype(a.dtype) if a.dtype != np.uint8 else a * 0
    return np.where(inside, np.right_shift(a, np.where(inside, b, 0).astype(a.dtype)), beyond)


bits("bitwise_and", np.bitwise_and)
bits("bitwise_or", np.bitwise_or)
bits("bitwise_xor", np.bitwise_xor)
bits("bitwise_left_shift", shift_left, with_bool=False)
bits("bitwise_right_shift", shift_right, with_bool=False)
bits("gcd", special.gcd, with_bool=False)
# Of one that the dtype does not hold the bits are the multiple's or minus that.
bits("lcm", lambda a, b: any_of([special.lcm(a, b), np.abs(special.lcm(a, b)), -np.abs(special.lcm(a, b))])
     if np.any(special.lcm(a, b) < 0) else special.lcm(a, b), with_bool=False)
