"""The steps of a program while they run: what was called, on which values, by which module and line, in which phase."""
import bisect
import contextlib
import dataclasses

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.experimental import _func_map

from .placing import placements_of
from .values import local_of
from . import moves

_LOCAL_MAP = getattr(_func_map, "_local_map_wrapped", None)
_LOCAL_MAP_CODE = _LOCAL_MAP.__code__ if _LOCAL_MAP else None

# Ops whose result is the operand's storage.
_VIEWS = {"t", "transpose", "view", "permute", "expand", "unsqueeze", "squeeze", "select", "slice"}
_WRAPPERS = {"_checkpoint_wrapped_module", "_orig_mod", "_fsdp_wrapped_module"}


class Recorder:
    """Collects records of one step: dicts as in the program, with Values where that has names.

    quiet: ops are not recorded (the inside of something that is a record itself).
    """

    def __init__(self, registry, sites, warn):
        self.registry, self.sites, self.warn = registry, sites, warn
        self.records, self.origins = [], []
        self.phase, self.stage, self.on = "forward", None, False
        self.quiet_depth, self.op_frames, self.modules = 0, [], []
        self.paths, self.outside, self.again, self.views = {}, [], [], {}
        self.counts = {"ops": 0, "mapped": 0, "unmapped": {}}
        self._serial, self._mark = 0, None

    def begin(self, stage, paths):
        """From here on a step is recorded, of a model whose modules have these paths by id."""
        self.on, self.stage, self.phase, self.paths, self.origins = True, stage, "forward", paths, []

    @staticmethod
    def clean(path):
        """A module's path without what wrappers put into it."""
        return ".".join(part for part in path.split(".") if part not in _WRAPPERS)

    @contextlib.contextmanager
    def quiet(self):
        self.quiet_depth += 1
        try:
            yield
        finally:
            self.quiet_depth -= 1

    @property
    def recording_ops(self):
        return self.on and not self.quiet_depth

    # Where a record stands.

    def common(self, source):
        """Phase, module, site and region of what runs now."""
        site, mark = self.sites.look(_LOCAL_MAP_CODE)
        region = self._region(mark)
        module = self.modules[-1] if self.modules else ""
        phase = self.phase
        if phase == "backward":
            node = torch._C._current_autograd_node()
            if torch.is_grad_enabled() and self.modules:
                phase = "recompute"
            elif node is not None:
                module, at, key = self._origin(node._sequence_nr(), module, site)
                site = site or at
                region = region or (key and ("backward", *key))
        if phase in ("forward", "recompute"):
            self.origins.append((torch._C._autograd._get_sequence_nr() - 1, module, site, region))
        made = {"module": module, "site": site, "phase": phase, "stage": self.stage, "from": source}
        return made, region

    def _region(self, mark):
        if mark is None:
            self._mark = None
            return None
        if self._mark is None or self._mark[0] is not mark:
            self._serial += 1
            function = mark.f_locals.get("func")
            self._mark = (mark, (self._serial, getattr(function, "__qualname__", "function").replace(".<locals>.", ".")))
        return self._mark[1]

    def _origin(self, sequence, module, site):
        at = bisect.bisect_left(self.origins, sequence, key=lambda origin: origin[0])
        if at == len(self.origins) or sequence >= 1 << 62:
            return module, site, None
        return self.origins[at][1:]

    # Values of tensors.

    def value(self, tensor):
        """The tensor's Value; made known where it is not, as a step from its other sense or as a value from outside."""
        found = self.registry.find(tensor)
        if found is not None:
            return found
        other = self.registry.other_sense(tensor)
        if other is not None:
            if isinstance(tensor, DTensor):
                return self.from_local(other, tensor)
            return self.to_local(other, tensor)
        value = self.registry.describe(tensor, "outside", role="buffer")
        self.registry.bind(tensor, value)
        self.outside.append(value)
        return value

    def operand(self, given):
        """An argument as programs have it: a Value, a number, None, or a list of these."""
        if isinstance(given, torch.Tensor):
            return self.value(given)
        if isinstance(given, (list, tuple)):
            return [self.operand(each) for each in given]
        return given

    def made(self, tensor, name, varies, **more):
        value = self.registry.describe(tensor, name, varies, **more)
        self.registry.bind(tensor, value)
        return value

    @staticmethod
    def varies(values):
        """Axes along which something made of these local tensors may differ."""
        return {axis for value in values for axis in (*value.varies, *value.cut_along)}

    @staticmethod
    def varies_outside(values):
        """The same of a DTensor's op: what placements say stays theirs."""
        return {axis for value in values for axis in value.varies}

    # Records.

    def add(self, record, source, region="here"):
        common, found = self.common(source)
        record.update({key: each for key, each in common.items() if each not in (None, "")})
        record["_region"] = found if region == "here" else region
        self.records.append(record)
        if record.get("op") in _VIEWS:
            self.views.setdefault(id(record["args"][0]), []).append(record)
        return record

    def region(self, name, args, outs, source=None, **more):
        """A region of Values; bytes are those that one rank reads and writes."""
        size = sum(v.local_bytes for v in values_in(args)) + sum(v.local_bytes for v in outs if v)
        record = {"region": name, "args": args, "out": outs}
        if more.get("flops"):
            record["flops"] = more["flops"]
        record["bytes"] = size
        for key in ("moves", "warning"):
            if more.get(key):
                record[key] = more[key]
        return self.add(record, source)

    def to_local(self, value, tensor, source="DTensor.to_local"):
        made = self.made(tensor, f"{stem(value.name)}.local", self.varies([value]))
        self.region("to_local", [value], [made], source)
        return made

    def from_local(self, value, tensor, source="DTensor.from_local"):
        made = self.made(tensor, f"{stem(value.name)}.global", self.varies([value]))
        return self._from_local(value, made, source)

    def _from_local(self, value, made, source):
        lost = [a for a in self.registry.in_order(self.varies([value])) if a in made.mesh_axes and a not in made.cut_along]
        warning = None
        if lost:
            warning = (f"{value.name} may differ along {', '.join(lost)} and is declared R there: a reduction is missing, "
                       "or its placement is another")
        self.region("from_local", [value], [made], source, warning=warning)
        return made

    def redistributed(self, local, current, target, result, source):
        """One redistribution, spec to spec. Within an op it is that op's: implicit, and the op's operand from then on."""
        registry = self.registry
        value = registry.find_local(local, current)
        if value is None:
            plain = registry.plain.get(local_of(local))
            name = registry.fresh_name("outside" if plain is None else f"{stem(plain.name)}.global")
            value = registry.describe_spec(local, current, name, self.varies([plain]) if plain else ())
            registry.bind_local(local, current, value)
            if plain is None:
                value.role = "buffer"
                self.outside.append(value)
            else:
                self._from_local(plain, value, "DTensor.from_local")
        name = registry.fresh_name(f"{stem(value.name)}.moved")
        made = registry.describe_spec(result, target, name, self.varies_outside([value]))
        record = {"redistribute": value, "to": made.placements, "out": made}
        implicit = bool(self.op_frames) or source == "_FromTorchTensor.backward"
        if implicit:
            record["implicit"] = True
        found = registry.meshes.slice_of(current.mesh)
        if found and placements_of(target.placements, found[1]) is None:
            record = {"region": "redistribute", "args": [value], "out": [made], "warning": "its placements cannot be said"}
        if found:
            between = moves.moves_between(current, target, found[1], local.element_size(), registry.meshes.root.ranks_alike)
            if between is not None:
                record["moves"] = between
        registry.bind_local(result, target, made)
        frame = self.op_frames[-1] if self.op_frames else None
        self.add(record, frame.source if frame else source)
        if frame:
            frame.replaced.append((value, made, record))

    def see_again(self):
        """What was gathered anew is read through the views that were made of it before: they are views of the new one."""
        views = [(record, new) for old, new in self.again for record in self.views.pop(id(old), ())]
        alive = self.registry.tensors_by_value() if views else {}
        for record, new in views:
            view = record["out"][0]
            if id(view) in alive:
                made = dataclasses.replace(view, name=self.registry.fresh_name(view.name.partition(".")[0]))
                self.registry.rebind(alive[id(view)], made)
                self.add(record | {"args": [new, *record["args"][1:]], "out": [made]}, record["from"], region=None)
        self.again = []


def stem(name):
    """A value's name before it was moved, or taken into or out of a DTensor."""
    parts = name.split(".")
    while len(parts) > 1 and parts[-1].isdigit() and any(part in _TURNS for part in parts[:-1]):
        parts.pop()
    while len(parts) > 1 and parts[-1] in _TURNS:
        parts.pop()
    return ".".join(parts)


_TURNS = ("moved", "local", "global")


def values_in(args):
    """Values of nested operands, in order."""
    if isinstance(args, (list, tuple)):
        return [value for item in args for value in values_in(item)]
    return [args] if hasattr(args, "local_bytes") else []

