"""The values of a program, and which tensor of the running step is which.

A *value* has the name, sizes and placements that the program tells; a tensor is known by its identity, a DTensor by that of its
local tensor. The registry holds tensors weakly: that something is traced must not change how long it lives.
"""
import dataclasses

import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor
from torch.utils.weak import WeakTensorKeyDictionary

from . import placing


@dataclasses.dataclass(eq=False)
class Value:
    """mesh None: a plain tensor, each rank's own. varies: axes, none of the mesh's, along which ranks hold different ones."""

    name: str
    shape: tuple
    dtype: str
    local_bytes: int
    mesh: str | None = None
    placements: list | None = None
    varies: tuple = ()
    role: str | None = None
    module: str | None = None
    # Axes along which a DTensor's own placements make ranks hold different local tensors, and the mesh's axes.
    cut_along: tuple = ()
    mesh_axes: tuple = ()

    def written(self):
        made = {"name": self.name, "shape": list(self.shape), "dtype": self.dtype, "mesh": self.mesh,
                "placements": self.placements}
        if self.role:
            made["role"] = self.role
        if self.varies:
            made["varies"] = list(self.varies)
        if self.module:
            made["module"] = self.module
        return made


class Names:
    """Each name once in a program: "mm", "mm.1", "mm.2"."""

    def __init__(self):
        self._taken, self._next = set(), {}

    def fresh(self, wanted):
        name, number = wanted, self._next.get(wanted, 0)
        while name in self._taken:
            number += 1
            name = f"{wanted}.{number}"
        self._next[wanted] = number
        self._taken.add(name)
        return name


class Registry:
    """Values by tensor. warn(text): what differs from torch goes there."""

    def __init__(self, meshes, names, warn):
        self.meshes, self._names, self._warn = meshes, names, warn
        self._warned = set()
        self.distributed, self.plain = WeakTensorKeyDictionary(), WeakTensorKeyDictionary()

    @property
    def axes(self):
        return list(self.meshes.root.axes)

    def in_order(self, axes):
        return tuple(a for a in self.axes if a in axes)

    def fresh_name(self, wanted):
        return self._names.fresh(wanted)

    def describe(self, tensor, name, varies=(), **more):
        """A new Value with a fresh name, not yet bound to the tensor."""
        name = self._names.fresh(name)
        if isinstance(tensor, DTensor):
            return self.describe_spec(tensor._local_tensor, tensor._spec, name, varies, **more)
        dtype = self._dtype(tensor.dtype, name)
        return Value(name, tuple(tensor.shape), dtype, bytes_of(tensor), varies=self.in_order(varies), **more)

    def describe_spec(self, local, spec, name, varies=(), **more):
        """The Value of a DTensor that is known by its local tensor and spec. `name` is used as it is."""
        shape = tuple(spec.shape)
        dtype = self._dtype(local.dtype, name)
        found = self.meshes.slice_of(spec.mesh)
        if found is None:
            self._warn_once(spec.mesh.mesh_dim_names, f"{name}: mesh {spec.mesh.mesh_dim_names} is no slice of the whole mesh, "
                            "outermost axis first: its placements are left out")
            return Value(name, shape, dtype, bytes_of(local), varies=self.in_order(varies), **more)
        mesh, groups = found
        texts = placing.placements_of(spec.placements, groups)
        if texts is None:
            seen = ", ".join(str(p) for p in spec.placements)
            self._warn_once(seen, f"{name}: programs cannot say ({seen}): its placements are left free")
        covered = [a for group in groups for a in group]
        cut = [a for p, group in zip(spec.placements, groups) if not p.is_replicate() for a in group]
        value = Value(name, shape, dtype, bytes_of(local), mesh, texts, role=more.pop("role", None),
                      varies=self.in_order(set(varies) - set(covered)), cut_along=tuple(cut), mesh_axes=tuple(covered), **more)
        for dim, size, parts in placing.uneven_axes(shape, spec):
            self._warn_once((size, parts), f"{name}: dim {dim} of {size} is cut unevenly over {parts} ranks, "
                            "where torch's pieces may be others than ours")
        return value

    def _warn_once(self, key, text):
        """Of many values alike the first one is named."""
        if key not in self._warned:
            self._warned.add(key)
            self._warn(text)

    def _dtype(self, dtype, name):
        text, exact = placing.dtype_text(dtype)
        if not exact:
            self._warn_once(dtype, f"{name}: {str(dtype).removeprefix('torch.')} is written as {text}, of the same size or near it")
        return text

    def bind(self, tensor, value):
        """From now on `tensor` is `value`; a DTensor by its local tensor and spec."""
        if isinstance(tensor, DTensor):
            self.bind_local(tensor._local_tensor, tensor._spec, value)
        else:
            self.plain[local_of(tensor)] = value

    def bind_local(self, local, spec, value):
        """A DTensor by its parts, where it is not there yet. One local tensor may stand for several specs."""
        self.distributed.setdefault(local_of(local), {})[_spec_key(spec)] = value

    def find(self, tensor):
        """The tensor's Value in its own sense: None where it is not known as a DTensor, or as a plain tensor."""
        if isinstance(tensor, DTensor):
            return self.find_local(tensor._local_tensor, tensor._spec)
        return self.plain.get(local_of(tensor))

    def find_local(self, local, spec):
        return self.distributed.get(local_of(local), {}).get(_spec_key(spec))

    def other_sense(self, tensor):
        """The Value that a plain tensor has as a DTensor's local one, or the other way round."""
        if isinstance(tensor, DTensor):
            return self.plain.get(local_of(tensor))
        return next(reversed(self.distributed.get(local_of(tensor), {}).values()), None)

    def alias(self, source, made):
        """`made` is the same value as `source` in both senses."""
        old, new = local_of(source), local_of(made)
        for senses in (self.distributed, self.plain):
            if old in senses and old is not new:
                senses[new] = senses[old]

    def tensors_by_value(self):
        """{id of a Value: [(local tensor, spec key, or None of a plain tensor)]} of all that is alive."""
        found = {}
        for key, held in list(self.plain.items()):
            found.setdefault(id(held), []).append((key, None))
        for key, specs in list(self.distributed.items()):
            for spec, held in specs.items():
                found.setdefault(id(held), []).append((key, spec))
        return found

    def rebind(self, tensors, value):
        """These, as tensors_by_value tells them, are `value` from now on."""
        for key, spec in tensors:
            if spec is None:
                self.plain[key] = value
            else:
                self.distributed[key][spec] = value


def _spec_key(spec):
    return tuple(spec.placements), tuple(spec.mesh.mesh_dim_names or ()), tuple(spec.shape)


def local_of(tensor):
    """What a tensor is known by: beneath DTensor and what waits for a collective."""
    if isinstance(tensor, DTensor):
        tensor = tensor._local_tensor
    while isinstance(tensor, AsyncCollectiveTensor):
        tensor = tensor.elem
    return tensor


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def tensors_in(tree):
    """Tensors of nested arguments, in order."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [t for item in tree for t in tensors_in(item)]
    if isinstance(tree, dict):
        return [t for item in tree.values() for t in tensors_in(item)]
    return []
