"""How torch's meshes, placements and dtypes read in a program: slices of one mesh, texts, and what differs.

A *root* mesh holds all ranks, with the axes that were asked for. Every mesh of the user's program is a slice of it along some
of its axes; an axis that torch flattened from several is written as these.
"""
import math

import torch
from torch.distributed.tensor.placement_types import Partial, Replicate, Shard

try:
    from torch.distributed.tensor.placement_types import _StridedShard
except ImportError:  # moved in a later release: then strided shards are not known, and free
    _StridedShard = ()

DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16",
          torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL"}
# A dtype that programs lack stands as one of its size, with a warning.
_STANDS_FOR = {1: "U8", 2: "F16", 4: "I32", 8: "F64", 16: "F64"}
_REDUCES = {"sum": "sum", "avg": "avg", "max": "max", "min": "min", "product": "prod", "prod": "prod"}


class Root:
    """The mesh of all ranks, seen by one rank.

    axes: {name: size}, outermost first. rank: whose view it is. stage_axis: the pipeline's, which no value lies along.
    """

    def __init__(self, axes, rank, stage_axis=None):
        self.axes, self.rank, self.stage_axis = dict(axes), rank, stage_axis
        self.size = math.prod(axes.values())
        strides, step = {}, self.size
        for name, size in axes.items():
            step //= size
            strides[name] = step
        self._strides = strides

    @property
    def ranks_alike(self):
        """How many ranks run what this one runs: all, or those of its stage."""
        return self.size // (self.axes[self.stage_axis] if self.stage_axis else 1)

    def coordinate(self, axis):
        return self.rank // self._strides[axis] % self.axes[axis]

    def slice_ranks(self, axes):
        """Ranks of the slice along `axes` through this rank, row by row."""
        ranks = [self.rank - sum(self.coordinate(a) * self._strides[a] for a in axes)]
        for axis in axes:
            ranks = [r + c * self._strides[axis] for r in ranks for c in range(self.axes[axis])]
        return ranks

    def axes_of_ranks(self, ranks):
        """The root's axes, outermost first, along which these ranks are a slice through this rank; None where they are none."""
        ranks = list(ranks)
        if len(ranks) == 1:
            return ()
        first = ranks[0]
        if self.rank not in ranks:
            return None
        axes = tuple(a for a in self.axes if self.axes[a] > 1 and any(
            r // self._strides[a] % self.axes[a] != first // self._strides[a] % self.axes[a] for r in ranks))
        return axes if self.slice_ranks(axes) == ranks else None


class Meshes:
    """The meshes of one program by name, and for each of torch's meshes how it is a slice of the root.

    stages: how many pipeline stages there are. Errors: none; what is no slice is None.
    """

    def __init__(self):
        self.written, self._known = {}, {}

    def begin(self, root, stage):
        self.root, self.stage, self._known = root, stage, {}
        if stage is None:
            self.written.setdefault("world", {"shape": list(root.axes.values()), "axes": list(root.axes)})

    def slice_of(self, mesh):
        """(name, for each of torch's axes the root's axes that it covers), or None."""
        key = id(mesh)
        if key not in self._known:
            self._known[key] = (self._find(mesh), mesh)  # the mesh is kept, so that its id is not used again
        return self._known[key][0]

    def _find(self, mesh):
        groups = []
        for at in range(mesh.ndim):
            ranks = torch.distributed.get_process_group_ranks(mesh.get_group(at))
            axes = self.root.axes_of_ranks(ranks)
            if axes is None:
                return None
            name = mesh.mesh_dim_names[at] if mesh.mesh_dim_names else None
            # An axis of one rank is no slice to be seen by its ranks, but by its name.
            groups.append((name,) if not axes and name in self.root.axes else axes)
        covered = [a for group in groups for a in group]
        order = [a for a in self.root.axes if a in covered]
        if covered != order or len(set(covered)) != len(covered):
            return None
        return self._name(order), groups

    def _name(self, axes):
        root, whole = self.root, [a for a in self.root.axes if a != self.root.stage_axis]
        if self.stage is None and axes == list(root.axes):
            return "world"
        name = "_".join(axes) if axes else "one"
        name = name if self.stage is None else f"stage{self.stage}" + ("" if axes == whole else f".{name}")
        if name not in self.written:
            ranks = root.slice_ranks(axes)
            self.written[name] = {"shape": [root.axes[a] for a in axes] or [1], "axes": axes or ["one"]}
            if axes != whole:
                self.written.setdefault("world", {"shape": list(root.axes.values()), "axes": list(root.axes)})
                self.written[name]["of"] = "world"
            if ranks[0]:
                self.written[name]["first_rank"] = ranks[0]
            if self.stage is not None:
                self.written[name]["stage"] = self.stage
        return name


def placements_of(placements, groups):
    """Texts, one for each of the root's axes that the mesh covers; None where programs cannot say one of them."""
    texts = []
    for placement, group in zip(placements, groups):
        text = text_of(placement)
        if text is None or len(group) > 1 and text.startswith("SS"):
            return None
        texts += [text] * max(1, len(group))
    return texts


def text_of(placement):
    """One placement as a text, "S(0)"; None for one that programs do not have (a partial 2-norm)."""
    if _StridedShard and isinstance(placement, _StridedShard):
        return f"SS({placement.dim},{placement.split_factor})"
    if isinstance(placement, Shard):
        return f"S({placement.dim})"
    if isinstance(placement, Replicate):
        return "R"
    if isinstance(placement, Partial):
        norm = getattr(placement, "norm_type", None)
        if norm is not None:
            return {float("inf"): "P(max)", float("-inf"): "P(min)", 1: "P(sum)"}.get(norm)
        reduce = _REDUCES.get(str(placement.reduce_op))
        return f"P({reduce})" if reduce else None
    return None


def uneven_axes(shape, spec):
    """[(dim, size, parts)] of the dims that torch cuts unevenly."""
    parts = {}
    for at, placement in enumerate(spec.placements):
        dim = getattr(placement, "dim", None)
        if dim is not None and dim < len(shape):
            parts[dim] = parts.get(dim, 1) * spec.mesh.size(at)
    return [(dim, shape[dim], count) for dim, count in sorted(parts.items()) if shape[dim] % count]


def dtype_text(dtype):
    """(text, exact): the dtype's name, or that of one of its size."""
    if dtype in DTYPES:
        return DTYPES[dtype], True
    return _STANDS_FOR.get(dtype.itemsize, "U8"), False
