"""Meshes, placements, and parts of which no rank knows the whole."""
import numpy as np

import dtypes
from oracle import chunk
from operands import listed

MESHES = ([1], [2], [3], [4], [2, 2], [2, 3], [2, 2, 2])
MESH_WEIGHTS = np.array([0.12, 0.3, 0.14, 0.12, 0.18, 0.08, 0.06])
KINDS = ("sum", "max", "min", "prod", "avg")


def mesh_of(rng):
    return MESHES[rng.choice(len(MESHES), p=MESH_WEIGHTS)]


def kinds_of(dtype, kinds=KINDS):
    """avg is for floating types; BOOL has its extremes."""
    own = KINDS if dtype in dtypes.FLOATING else ("max", "min") if dtype == "BOOL" else KINDS[:4]
    return [kind for kind in own if kind in kinds]


def placements_of(rng, mesh, reduced, ndim, style="any"):
    """One placement an axis. reduced: dtype and the kinds of Partial to choose from. Styles: any,
    whole (R), cut (S and R), alike (cut, and all of a shape the same), partial."""
    if style == "whole":
        return ["R"] * len(mesh)
    partial = {"any": 0.2, "cut": 0.0, "alike": 0.0, "partial": 0.7}[style]
    kinds = kinds_of(*reduced)
    kind = str(rng.choice(kinds))
    result = []
    for _ in mesh:
        draw = rng.random()
        if draw < partial:
            # Mostly one kind on all axes; two kinds reduce from the last axis on.
            own = kind if rng.random() < 0.8 else str(rng.choice(kinds))
            result.append(f"P({own})")
        elif draw < partial + (1 - partial) * 0.65 and ndim:
            result.append(f"S({int(rng.integers(ndim))})")
        else:
            result.append("R")
    return strided(rng, mesh, result) if rng.random() < 0.12 else result


def strided(rng, mesh, placements):
    """Some S(d) as SS(d,k): over the axes to its right that cut the dim, too, or in blocks."""
    if any(p.startswith("P") for p in placements):
        return placements
    cuts = [i for i, p in enumerate(placements) if p.startswith("S(")]
    if not cuts:
        return placements
    at = int(rng.choice(cuts))
    later = [mesh[i] for i in cuts if i > at and placements[i] == placements[at]]
    factor = int(np.prod(later)) if later else int(rng.integers(2, 4))
    if any(i < at and placements[i] == placements[at] for i in cuts):
        return placements
    return [f"SS({p[2:-1]},{factor})" if i == at else p for i, p in enumerate(placements)]


def entry(rng, mesh, dtype, a, placements):
    """An input of a document: by its values, or by what every rank holds."""
    if dtype in dtypes.FLOATING and np.any(np.abs(a[np.isfinite(a)]) > dtypes.LARGEST[dtype] / 16):
        # Their sum over the ranks is more than the dtype holds.
        placements = ["P(max)" if p == "P(avg)" else p for p in placements]
    result = {"shape": list(a.shape), "dtype": dtype, "placements": placements}
    plain = not any(p.startswith("SS") for p in placements)
    if any(p.startswith("P") for p in placements) and plain and rng.random() < 0.8:
        result["local"] = [listed(part) for part in parts_of(rng, mesh, dtype, a, placements)]
    else:
        result["values"] = listed(a)
    return result


def parts_of(rng, mesh, dtype, a, placements):
    """Each rank's part, ranks in row-major order of their coords."""
    if not mesh:
        return [a]
    parts, kind = mesh[0], placements[0]
    if kind.startswith("P("):
        pieces = summands(rng, kind[2:-1], dtype, a, parts)
    elif kind.startswith("S("):
        dim = int(kind[2:-1]) % a.ndim
        pieces = []
        for coord in range(parts):
            begin, end = chunk((0, a.shape[dim]), parts, coord)
            pieces.append(np.take(a, range(begin, end), dim))
    else:
        pieces = [a] * parts
    return [part for piece in pieces for part in parts_of(rng, mesh[1:], dtype, piece, placements[1:])]


def identity(kind, dtype):
    """What changes nothing under a reduction."""
    if kind in ("sum", "avg"):
        return -0.0 if dtype in dtypes.FLOATING else 0
    if kind == "prod":
        return 1
    if dtype in dtypes.FLOATING:
        return -np.inf if kind == "max" else np.inf
    low, high = dtypes.INTEGER_RANGE[dtype]
    return low if kind == "max" else high


def summands(rng, kind, dtype, a, parts):
    """`parts` arrays that reduce to `a` in any order, to the last bit."""
    if parts == 1:
        return [a]
    whole = {"sum": _sum_parts, "avg": _avg_parts, "prod": _prod_parts, "max": _max_parts,
             "min": _max_parts}[kind]
    with np.errstate(all="ignore"):
        pieces = whole(rng, kind, dtype, a, parts)
    return [np.asarray(p, a.dtype) for p in pieces]


def _owner(rng, shape, parts):
    return rng.integers(parts, size=shape)


def _held_by_one(rng, kind, dtype, a, parts):
    """Each element on one rank, what changes nothing on the others."""
    owner, none = _owner(rng, a.shape, parts), identity(kind, dtype)
    return [np.where(owner == i, a, np.array(none).astype(a.dtype)) for i in range(parts)]


def _small(rng, dtype, shape):
    if dtype in dtypes.FLOATING:
        return rng.integers(-8, 9, shape) / 4
    return rng.integers(0 if dtype == "U8" else -5, 6, shape)


def _sum_parts(rng, kind, dtype, a, parts):
    pieces = _held_by_one(rng, kind, dtype, a, parts)
    if rng.random() < 0.25:
        return pieces
    # Multiples of 1/8 of small size move between ranks without rounding; others stay where they are.
    movable = np.ones(a.shape, bool)
    if dtype in dtypes.FLOATING:
        movable = np.isfinite(a) & (np.abs(a) < 8) & (a * 8 == np.trunc(a * 8)) & (a != 0)
    pieces = [p.copy() for p in pieces]
    for _ in range(parts):
        give, take = rng.choice(parts, 2, replace=False)
        moved = np.where(movable, _small(rng, dtype, a.shape), 0).astype(a.dtype)
        pieces[give] = np.where(movable, pieces[give] - moved, pieces[give])
        pieces[take] = np.where(movable, pieces[take] + moved, pieces[take])
    return pieces


def _avg_parts(rng, kind, dtype, a, parts):
    exact = (a * parts) / parts
    fits = (exact == a) & (np.abs(a * parts) <= dtypes.LARGEST[dtype])
    spread = _sum_parts(rng, kind, dtype, np.where(fits, dtypes.round_to(dtype, a * parts), 0.0), parts)
    # What cannot be multiplied without rounding every rank holds as it is.
    good = fits & (dtypes.round_to(dtype, a * parts) == a * parts)
    return [np.where(good, p, a) for p in spread]


def _prod_parts(rng, kind, dtype, a, parts):
    pieces = _held_by_one(rng, kind, dtype, a, parts)
    if dtype not in dtypes.FLOATING or rng.random() < 0.4:
        return pieces
    movable = np.isfinite(a) & (np.abs(a) < 64) & (np.abs(a) > 1 / 64) & (a != 1)
    give, take = rng.choice(parts, 2, replace=False)
    factor = np.where(movable, rng.choice([0.5, 2.0, -1.0, -2.0], a.shape), 1.0)
    pieces[give] = pieces[give] / factor
    pieces[take] = pieces[take] * factor
    return pieces


def _max_parts(rng, kind, dtype, a, parts):
    """The extreme on one rank, on the others something that it beats, or the identity."""
    if rng.random() < 0.5 or dtype == "BOOL":
        return _held_by_one(rng, kind, dtype, a, parts)
    owner = _owner(rng, a.shape, parts)
    sign = -1 if kind == "max" else 1
    pieces = []
    for i in range(parts):
        if dtype in dtypes.FLOATING:
            other = a + sign * np.abs(_small(rng, dtype, a.shape))
            other = np.where(np.isnan(a), 1.0, dtypes.round_to(dtype, other))
        else:
            low, high = dtypes.INTEGER_RANGE[dtype]
            step = np.abs(_small(rng, dtype, a.shape)).astype(a.dtype)
            room = a - np.array(low, a.dtype) if kind == "max" else np.array(high, a.dtype) - a
            # Room that wraps is room enough.
            step = np.where((room >= 0) & (room < step), 0, step).astype(a.dtype)
            other = a - step if kind == "max" else a + step
        pieces.append(np.where(owner == i, a, other))
    return pieces
