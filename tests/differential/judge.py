"""Whether an answer is right: exactly where nothing rounds, else within what rounding explains."""
import numpy as np

import dtypes
import oracle

# Why an element may differ from the oracle's, in units of the disturbance that the noisy worlds
# show at it (see oracle.py). One unit is one rounding of every operand and of the result, so a
# compensated or blocked sum lies within one, a plain sum of n terms within about sqrt(n), and
# functions of several steps (a softmax, a norm) within a few. Where 16-bit types are summed over
# ranks each rank's part is rounded once more.
UNITS = {"F64": 64.0, "F32": 64.0, "BF16": 16.0, "F16": 16.0}
# Beside that: functions that the kernels approximate to a few units of the last place, and numbers
# below the smallest normal one, which they may lose.
LAST_PLACES = {"F64": 16.0, "F32": 16.0, "BF16": 2.0, "F16": 2.0}
TINY = {"F64": 2.0**-1022, "F32": 2.0**-126, "BF16": 2.0**-126, "F16": 2.0**-14}
FIRST_WORLDS, ALL_WORLDS = 2, 12


class Finding(Exception):
    def __init__(self, kind, text):
        super().__init__(text)
        self.kind, self.text = kind, text


class Expected:
    """The oracle's answer, and noisy worlds as they are asked for."""

    def __init__(self, document, table, seed):
        self.document, self.table = document, table
        self.rng = np.random.default_rng(seed)
        self.plain = oracle.run(document, table)
        self.worlds = []

    def room(self, name, worlds):
        return Room(self.plain.tensors[name], [w.tensors[name] for w in self.noisy(worlds)])

    def noisy(self, count):
        if not (self.plain.free or self.plain.averages):
            return []
        while len(self.worlds) < count:
            try:
                self.worlds.append(oracle.run(self.document, self.table, self.rng, turn=len(self.worlds)))
            except (oracle.Refused, oracle.Unsure):
                # Rounding decides whether the call is valid at all.
                raise oracle.Unsure("rounding decides") from None
        return self.worlds[:count]


class Room:
    """What noisy worlds leave open of one result, per element."""

    def __init__(self, expected, others):
        plain = expected.a
        self.rounded = bool(others)
        self.spread = np.zeros(plain.shape)
        self.open = np.zeros(plain.shape, bool)       # nothing can be asked
        self.either_zero = np.zeros(plain.shape, bool)
        for other in others:
            if other.dtype != expected.dtype or other.shape != expected.shape:
                raise oracle.Unsure("rounding decides about a shape")
            self.add(plain, other.a, expected.floating)

    def add(self, plain, other, floating):
        with np.errstate(all="ignore"):
            moved = np.abs(other.astype(np.float64) - plain.astype(np.float64))
            same = (other == plain) | ((other != other) & (plain != plain))
        if not floating:
            self.open |= ~same
            return
        both = np.isfinite(other) & np.isfinite(plain)
        self.spread = np.maximum(self.spread, np.where(both, moved, 0))
        self.open |= ~both & ~same
        self.either_zero |= (other != 0) | (np.signbit(other) != np.signbit(plain))

    def allowed(self, dtype, plain):
        """How far off a floating element may be."""
        if not self.rounded:
            return 0.0
        moves = self.spread > 0
        if moves.sum() > moves.size / 2:
            moves = np.ones_like(moves)  # the roundings of an element may undo each other in every world
        units = UNITS[dtype] * self.spread + LAST_PLACES[dtype] * dtypes.EPSILON[dtype] * np.abs(plain)
        return np.where(moves, units, 0) + np.where(moves | (np.abs(plain) < TINY[dtype]), TINY[dtype], 0)


def wrong_elements(got, expected, room, zero_signs):
    """Where `got` is not what the oracle has."""
    plain = expected.a
    with np.errstate(all="ignore"):
        same = (got == plain) | ((got != got) & (plain != plain))
        if not expected.floating:
            return ~same & ~room.open
        near = np.isfinite(got) & np.isfinite(plain) & (np.abs(got - plain) <= room.allowed(expected.dtype, plain))
        signed = (got == 0) & (plain == 0) & (np.signbit(got) != np.signbit(plain)) & ~room.either_zero
        return (~(same | near) | (signed & zero_signs)) & ~room.open


def compare(name, got, expected, room, zero_signs=True):
    """Raises Finding where the result `name` is wrong. got: (dtype, carrier)."""
    dtype, a = got
    if dtype != expected.dtype:
        raise Finding("dtype", f"{name}: dtype is {dtype}, expected {expected.dtype}")
    if a.shape != expected.shape:
        raise Finding("shape", f"{name}: shape is {list(a.shape)}, expected {list(expected.shape)}")
    wrong = wrong_elements(a, expected, room, zero_signs)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Finding("value", f"{name}: element {list(at)} is {plain(a[at])}, expected {plain(expected.a[at])}")


def plain(value):
    value = value.item()
    return repr(value).lower() if isinstance(value, bool) else repr(value)


def open_zero_signs(document, placements):
    """Summands whose sum is 0 may add up to either zero, and so may extremes of zeros of both signs.
    placements: of results."""
    texts = [p for own in placements.values() for p in own]
    texts += [p for entry in document["inputs"].values() for p in entry["placements"]]
    texts += [p for step in document["program"] for p in step.get("to", [])]
    return any(p.startswith("P") for p in texts)


def check_values(expected, outcome):
    """Every result of a program that ran. Raises Finding."""
    zero_signs = not open_zero_signs(expected.document, outcome.placements)
    for name, got in outcome.results.items():
        if name.startswith("grad."):
            continue
        tensor = expected.plain.tensors[name]
        try:
            compare(name, got, tensor, expected.room(name, FIRST_WORLDS), zero_signs)
        except Finding:
            compare(name, got, tensor, expected.room(name, ALL_WORLDS), zero_signs)
