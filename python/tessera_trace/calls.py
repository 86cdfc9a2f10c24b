"""Every ATen call of the running step, seen before DTensor takes it apart: an op of the table, a region, an alias or a read."""
import copy
import dataclasses
import math

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from . import aten_table, moves
from .aten_special import SPECIAL, Mapped
from .older_torch import called
from .placing import dtype_text
from .values import Value, bytes_of, local_of, tensors_in


@dataclasses.dataclass
class Frame:
    """A DTensor op that runs: redistributions below it are its own, in the order of its operands."""

    source: str
    replaced: list = dataclasses.field(default_factory=list)
    moves: list = dataclasses.field(default_factory=list)


class Below(TorchDispatchMode):
    """Sees what a DTensor op is made of: collectives that are no redistribution's, of torch's own handlers of some ops."""

    def __init__(self, recorder, frame):
        super().__init__()
        self.recorder, self.frame = recorder, frame

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented
        out = func(*args, **(kwargs or {}))
        if func.namespace in moves.NAMESPACES and not self.recorder.quiet_depth:
            given = bound(func, args, kwargs or {})
            made = moved_by(self.recorder, func, given, tensors_in(out))
            self.frame.moves += [made[0]] if made else []
        return out


class Calls(TorchDispatchMode):
    """Hands every call to the recorder. on_read(site, shape, dtype) -> what the host sees of an element."""

    def __init__(self, recorder, on_read):
        super().__init__()
        self.recorder, self.on_read = recorder, on_read

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        recorder = self.recorder
        namespace, _, name = func._schema.name.partition("::")
        overload = f"{name}.{func._overloadname}"
        if overload == "_local_scalar_dense.default":
            return self._read(args[0])
        if namespace in ("prim", "profiler") or torch.Tag.inplace_view in func.tags and not recorder.recording_ops:
            return func(*args, **kwargs)
        if not recorder.on or recorder.quiet_depth:
            out = called(func, args, kwargs)
            if overload in aten_table.ALIASES or name == "wait_tensor":
                self._alias(args[0], out)
            return out
        if overload in aten_table.ALIASES or name == "wait_tensor":
            out = func(*args, **kwargs)
            self._alias(args[0], out)
            return out
        if namespace in moves.NAMESPACES:
            return self._collective(func, name, args, kwargs)
        return self._call(func, namespace, overload, args, kwargs)

    def _alias(self, source, made):
        if isinstance(made, torch.Tensor):
            self.recorder.registry.alias(source, made)

    def _read(self, tensor):
        recorder = self.recorder
        if recorder.on:
            site, _ = recorder.sites.look(None)
            value = recorder.value(tensor)
            recorder.add({"host_read": value, "bytes": tensor.element_size(), "why": "the program reads an element"},
                         "aten._local_scalar_dense.default", region=None)
        else:
            site, _ = recorder.sites.look(None)
        seen = 1 if self.on_read is None else self.on_read(site, tuple(tensor.shape), tensor.dtype)
        return bool(seen) if tensor.dtype == torch.bool else float(seen) if tensor.is_floating_point() else int(seen)

    def _collective(self, func, name, args, kwargs):
        recorder, registry = self.recorder, self.recorder.registry
        given = bound(func, args, kwargs)
        operands = [recorder.value(t) for t in tensors_in(list(given.values()))]
        out = called(func, args, kwargs)
        written = written_by(func, given)
        made_of = [t for t in tensors_in(out) if not any(t is w for w in written)]
        collective, found, more = moves.collective_of(name), moved_by(recorder, func, given, made_of), {}
        differs = recorder.varies(operands)
        if found:
            move, axes = found
            more["moves"] = [move]
            if axes is None:
                more["warning"] = "its ranks are no slice of the whole mesh"
            elif collective in ("all_reduce", "all_gather", "broadcast"):
                differs -= set(axes)
            else:
                differs |= set(axes)
        outs = [recorder.made(t, collective or name, differs) for t in made_of]
        for value in [recorder.value(t) for t in written]:
            if value.role is None:
                value.varies = registry.in_order(differs)
        recorder.region(collective or name, operands, outs, str(func), **more)
        return out

    def _call(self, func, namespace, overload, args, kwargs):
        recorder = self.recorder
        given = bound(func, args, kwargs)
        distributed = any(isinstance(t, DTensor) for t in tensors_in(list(given.values())))
        for tensor in tensors_in(list(given.values())):
            recorder.value(tensor)
        frame = Frame(str(func))
        start = len(recorder.records)
        if distributed:
            recorder.op_frames.append(frame)
            try:
                with Below(recorder, frame):
                    out = func(*args, **kwargs)
            finally:
                recorder.op_frames.pop()
        else:
            out = func(*args, **kwargs)
        if out is NotImplemented:
            return out
        Call(self.recorder, func, given, out, frame, distributed).record(namespace, overload, start)
        return out


class Call:
    """One call that has run: its arguments by ATen's names, its results, and what was redistributed for it."""

    def __init__(self, recorder, func, given, out, frame, distributed):
        self.recorder, self.func, self.given, self.frame, self.distributed = recorder, func, given, frame, distributed
        written = written_by(func, given)
        self.in_place = bool(written)
        self.written = written
        self.results = [] if written else [t for t in flat_results(out)]
        self.replaced = list(frame.replaced)
        operands = [recorder.value(t) for t in tensors_in(list(given.values()))]
        self.differs = recorder.varies_outside(operands) if distributed else recorder.varies(operands)

    # What special rows ask.

    @staticmethod
    def is_tensor(thing):
        return isinstance(thing, torch.Tensor)

    def made(self, like, name, swap_last=False, insert=None):
        """A Value made on the way, of `like`'s kind: with its last two dims swapped, or with a dim of 1 more."""
        value = self.recorder.registry.describe(like, name, self.differs)
        shape, moved = list(value.shape), {}
        if swap_last:
            shape[-1], shape[-2] = shape[-2], shape[-1]
            moved = {len(shape) - 1: len(shape) - 2, len(shape) - 2: len(shape) - 1}
        if insert is not None:
            moved = {dim: dim + 1 for dim in range(insert, len(shape))}
            shape.insert(insert, 1)
        value.shape = tuple(shape)
        if value.placements and moved:
            value.placements = [f"S({moved.get(int(p[2:-1]), p[2:-1])})" if p.startswith("S(") else p for p in value.placements]
        return value

    def result_without_last_dim(self, at, name):
        """A result that torch gives a last dim of 1, and the engine's op none."""
        value = self.recorder.made(self.results[at], name, self.differs)
        value.shape = value.shape[:-1]
        return value

    def wanted_of(self, op, like):
        """Results by number; those that torch left out before the last that it made have the shape of the argument named for them."""
        wanted = [at for at, result in enumerate(self.results) if result is not None]
        return [at if self.results[at] is not None else self.made(self.given[like[at]], f"{op}.unused")
                for at in range(1 + max(wanted, default=-1))]

    def summed(self, offsets):
        """The Value whose cumulative sums are `offsets`, through casts; None where they are not known to be sums."""
        value = self.recorder.value(offsets) if self.is_tensor(offsets) else None
        for record in reversed(self.recorder.records):
            if value is not None and value in (record.get("out") or ()) and "op" in record:
                if record["op"] == "cumsum":
                    return record["args"][0]
                if record["op"] not in ("to", "clone", "view"):
                    return None
                value = record["args"][0]
        return None

    # Recording.

    def record(self, namespace, overload, start):
        counts = self.recorder.counts
        foreach = overload.startswith("_foreach_")
        if namespace == "aten" and overload in aten_table.MAKERS and not tensors_in(list(self.given.values())):
            outs = [self.recorder.made(t, overload.split(".")[0], ()) for t in self.results]
            self.recorder.region("constant", [], outs, str(self.func))
            return
        mapped = self._mapped(overload) if namespace == "aten" and not foreach else None
        if foreach and namespace == "aten":
            mapped = self._taken_apart(overload)
        if namespace != "aten":
            self._record_region()
            return self._spread()
        if mapped is not None and any(endless(step.args) for step in mapped):
            mapped = None  # an operand that is an infinite number has no form in a program
        counts["ops"] += max(1, len(mapped) if foreach and mapped else 1)
        if mapped is None:
            counts["unmapped"][str(self.func)] = counts["unmapped"].get(str(self.func), 0) + 1
            self._record_region()
        else:
            counts["mapped"] += max(1, len(mapped) if foreach else 1)
            for step in mapped:
                self._record_op(step)
        return self._spread()

    def _spread(self):
        """What was written in place differs along the axes that its operands do."""
        for tensor in self.written:
            value = self.recorder.value(tensor)
            if value.role is None:  # what is there before the step is told as it was then
                value.varies = self.recorder.registry.in_order((set(value.varies) | self.differs) - set(value.mesh_axes))

    def _mapped(self, overload):
        row = aten_table.row_of(overload)
        tensors = tensors_in(list(self.given.values())) + tensors_in(self.results)
        if row is None or any(t.dtype.is_complex for t in tensors):
            return None
        if row.startswith("@"):
            return SPECIAL[row[1:]](self)
        return [self._by_names(row, self.given)]

    def _by_names(self, row, given):
        op, operands, attributes = aten_table.parse(row)
        attrs = {}
        for ours, theirs, constant in attributes:
            value = constant if theirs is None else given[theirs]
            if value is not None:
                attrs[ours] = dtype_text(value)[0] if isinstance(value, torch.dtype) else value
        args = [given[theirs] for _, theirs in operands]
        while args and args[-1] is None:
            args.pop()
        return Mapped(op, args, attrs, [] if self.in_place else None)

    def _taken_apart(self, overload):
        """A list op, a tensor at a time; None where the single op is not in the table."""
        single = overload.removeprefix("_foreach_")
        name, _, kind = single.partition(".")
        kind = aten_table.FOREACH.get(kind)
        row = aten_table.FOREACH_ROWS.get(single)
        if row is None and kind:
            row = aten_table.row_of(f"{name}.{kind}") or aten_table.row_of(f"{name}.default")
        if not row or row.startswith("@") and row != "@add_in_place":
            return None
        lists = {key: each for key, each in self.given.items() if isinstance(each, (list, tuple))}
        count = max((len(each) for each in lists.values()), default=0)
        if any(len(each) != count for each in lists.values()):
            return None
        rename = {"other": "other", "scalar": "other", "scalars": "other", "tensors1": "end", "tensor1": "tensor1",
                  "tensor2": "tensor2", "weight": "weight", "weights": "weight", "exponent": "exponent", "src": "src"}
        made = []
        for at in range(count):
            given = {"alpha": 1, "value": 1}
            for key, each in self.given.items():
                given[rename.get(key, key)] = each[at] if key in lists else each
            if "addc" in name and "other" in given:
                given["value"] = given["other"]
            if row == "@add_in_place":
                single = copy.copy(self)
                single.given = given
                made += SPECIAL["add_in_place"](single)
                continue
            try:
                step = self._by_names(row, given)
            except KeyError:  # a list op that has no such argument
                return None
            step.outs = [] if self.in_place else [at]
            made.append(step)
        return made

    def _record_op(self, step):
        recorder = self.recorder
        args = self._operands(step.args, names_of(self.func, self.given), step.op)
        while args and args[-1] is None:
            args.pop()
        record = {"op": step.op, "args": args}
        if step.attrs:
            record["attrs"] = step.attrs
        outs = step.outs
        if outs is None:
            outs = list(range(len(self.results)))
        made = [self._result(each, step.op) if isinstance(each, int) else each for each in outs]
        while made and made[-1] is None:
            made.pop()
        record["out"] = [each or self._unused(step.op) for each in made]
        if self.frame.moves:
            record["moves"], self.frame.moves = self.frame.moves, []
        recorder.add(record, str(self.func))
        if record["_region"] and self._flops():
            record["_flops"] = self._flops()

    def _unused(self, op):
        """A result that nobody wants, before one that is wanted: torch made none."""
        return Value(self.recorder.registry.fresh_name(f"{op}.unused"), (0,), "F32", 0)

    def _result(self, at, name):
        tensor = self.results[at]
        return None if tensor is None else self.recorder.made(tensor, name.rstrip("_"), self.differs)

    def _operands(self, args, names, op):
        """Values of the operands, those in their place that were redistributed for this call."""
        made = []
        for given in args:
            if isinstance(given, (list, tuple)):
                made.append(self._operands(given, names, op))
            elif self.is_tensor(given):
                made.append(self._placed(self.recorder.value(given), given, names, op))
            else:
                made.append(given)
        return made

    def _placed(self, value, tensor, names, op):
        for at, (old, new, record) in enumerate(self.replaced):
            if old is value:
                name = next((name for name, each in names if each is tensor), None)
                if name:
                    record["for"] = f"{op}.{name}"
                # A tensor that is twice an operand was moved twice: each takes its own.
                if sum(1 for o, _, _ in self.replaced if o is value) > 1:
                    del self.replaced[at]
                return new
        return value

    def _record_region(self):
        recorder, name = self.recorder, str(self.func)
        names = names_of(self.func, self.given)
        args = self._operands(tensors_in(list(self.given.values())), names, name)
        short = self.func._schema.name.split("::")[1]
        outs = [None if t is None else recorder.made(t, short, self.differs) for t in self.results]
        known = self.func.namespace != "aten"
        warning = None if known else f"{name} is no op of the engine: what it needs of placements is not known"
        recorder.region(name, args, [v for v in outs if v is not None], name, warning=warning, flops=self._flops(),
                        moves=self.frame.moves)

    def _flops(self):
        formula = flop_registry.get(self.func._overloadpacket)
        if formula is None:
            return None
        local = lambda t: local_of(t) if isinstance(t, torch.Tensor) else t  # noqa: E731
        out = [local(t) for t in self.results]
        try:
            return int(formula(*[local(each) for each in self.given.values()], out_val=out[0] if len(out) == 1 else tuple(out)))
        except (AssertionError, TypeError, ValueError, IndexError):  # a formula that was not made for this form of the call
            return None


def endless(args):
    """Whether a number among the operands is infinite or none."""
    return any(endless(each) if isinstance(each, (list, tuple)) else isinstance(each, float) and not math.isfinite(each)
               for each in args)


def bound(func, args, kwargs):
    """Arguments by the schema's names, defaults filled in."""
    given = {}
    for at, argument in enumerate(func._schema.arguments):
        if at < len(args) and not argument.kwarg_only:
            given[argument.name] = args[at]
        elif argument.name in kwargs:
            given[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            given[argument.name] = argument.default_value
        else:
            given[argument.name] = None
    return given


def names_of(func, given):
    """[(argument's name, tensor)]; those of a list are name.0, name.1."""
    named = []
    for name, each in given.items():
        if isinstance(each, torch.Tensor):
            named.append((name, each))
        elif isinstance(each, (list, tuple)):
            named += [(f"{name}.{at}", item) for at, item in enumerate(each) if isinstance(item, torch.Tensor)]
    return named


def written_by(func, given):
    """The tensors that the call writes in place."""
    return [t for argument in func._schema.arguments if argument.alias_info is not None and argument.alias_info.is_write
            for t in tensors_in(given[argument.name])]


def flat_results(out):
    """Tensors and Nones of a call's results, in order."""
    if isinstance(out, torch.Tensor) or out is None:
        return [out]
    if isinstance(out, (list, tuple)):
        return [t for item in out for t in flat_results(item)]
    return []


def moved_by(recorder, func, given, results):
    """(move, axes or None) of a collective on plain tensors that has run; None where nothing moves that is known."""
    collective, ranks = moves.collective_of(func._schema.name.split("::")[1]), group_ranks(given)
    if not collective or not ranks or len(ranks) == 1:
        return None
    root, written = recorder.registry.meshes.root, written_by(func, given)
    results = [t for t in results if not any(t is w for w in written)]
    size = sum(bytes_of(local_of(t)) for t in tensors_in(list(given.values())))
    outs_bytes = sum(bytes_of(local_of(t)) for t in results or written)
    local_bytes = moves.input_of(collective, size if results else size - outs_bytes or size, outs_bytes)
    axes = root.axes_of_ranks(ranks)
    return moves.move(collective, axes or (), len(ranks), local_bytes, root.ranks_alike), axes


def group_ranks(given):
    """Global ranks of the group that a collective's arguments name; None where they name none."""
    for name, each in given.items():
        if name == "group_name" and isinstance(each, str):
            return dist.get_process_group_ranks(dist.distributed_c10d._resolve_process_group(each))
        if name in ("process_group", "group") and each is not None:
            group = each if isinstance(each, dist.ProcessGroup) else dist.ProcessGroup.unbox(each)
            return dist.get_process_group_ranks(group)
    return None

