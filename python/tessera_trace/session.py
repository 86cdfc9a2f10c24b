"""Runs a user's build function and the step that it gives, on no device: a fake process group, fake tensors, each stage once.

The step that is recorded is the second one, so that sharded parameters are set up and an optimizer has its state.
"""
import contextlib
import dataclasses
import inspect
import logging
import math
import os
import warnings

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from . import moves, program
from .calls import Calls
from .hooks import installed
from .placing import Meshes, Root
from .recorder import Recorder
from .sites import Sites
from .step import BuildFailed, Step, TraceError, put_on_fake_memory, step_from
from .values import Names, Registry, bytes_of

LARGEST_WORLD = 1 << 20


@dataclasses.dataclass
class Trace:
    """text: the program as JSON. counts: {"ops", "mapped", "unmapped": {ATen name: calls}}. records: steps written."""

    text: str
    counts: dict
    records: int
    warnings: list

    @property
    def mapped_share(self):
        return self.counts["mapped"] / self.counts["ops"] if self.counts["ops"] else 1.0


def mesh_axes(given):
    """{"dp": 64, "tp": 8} of that, or of "dp=64,tp=8". Errors: TraceError."""
    if isinstance(given, str):
        pairs = [item.partition("=") for item in given.split(",")]
        given = {}
        for name, _, size in pairs:
            if name in given:
                raise TraceError(f"mesh: axis {name!r} is given twice")
            given[name] = int(size) if size.isascii() and size.isdigit() else size or "nothing"
    for name, size in dict(given).items():
        if not (isinstance(name, str) and name.isidentifier() and type(size) is int and size > 0):
            raise TraceError(f"mesh: axis {name!r} has size {size!r}; allowed: name=size,name=size with whole numbers from 1 on")
    if not given or math.prod(given.values()) > LARGEST_WORLD:
        raise TraceError(f"mesh: {len(given)} axes of {math.prod(given.values())} ranks; allowed: 1 to {LARGEST_WORLD} ranks")
    return dict(given)


def trace(build, mesh, *, name=None, command=None, root=None, pipeline_axis="pp"):
    """The program of one training step of what `build(mesh)` returns.

    build          build(mesh) or build(mesh, stage=0) -> a Step (see there), or a list of one for each pipeline stage. It
                   runs with the meta device as default; `mesh` is a torch DeviceMesh with the axes asked for
    mesh           {"dp": 64, "tp": 8}, or "dp=64,tp=8": outermost axis first
    name, command  what the program says of itself
    root           the folder that source lines are told from; left out, the current one
    pipeline_axis  the axis of stages; where the mesh has it, each stage is traced by a rank of its own
    Errors: TraceError, BuildFailed.
    """
    axes = mesh_axes(mesh)
    if dist.is_available() and dist.is_initialized():
        raise TraceError("a process group is there already; tessera_trace makes its own: call it in a process of its own")
    session = _Session(build, axes, pipeline_axis if pipeline_axis in axes else None, root or os.getcwd())
    log = logging.getLogger("torch")
    level = log.level
    log.setLevel(logging.ERROR)  # what the fake group does in place of a collective is not what is recorded
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session.run()
    finally:
        log.setLevel(level)
    label = name or getattr(build, "__name__", "program")
    source = {"kind": "torch", "by": "tessera_trace 1", "command": command or label}
    return session.trace({"name": label[:program.LIMIT_OF_NAME], "source": source})


class _Session:
    def __init__(self, build, axes, stage_axis, root):
        self.build, self.axes, self.stage_axis = build, axes, stage_axis
        self.sites, self.names, self.meshes = Sites(root), Names(), Meshes()
        self.warnings, self.values, self.scenarios = {}, [], []
        self.recorder = None

    def warn(self, text):
        self.warnings.setdefault(text)

    def run(self):
        stages = self.axes[self.stage_axis] if self.stage_axis else 1
        listed = None
        for stage in range(stages):
            if listed is not None and stage >= len(listed):
                break
            listed = self._run_stage(stage, stages, listed)

    def _run_stage(self, stage, stages, listed):
        """Traces one stage in a world of its own; the list that build returned, where it is one."""
        stride = math.prod(list(self.axes.values())[list(self.axes).index(self.stage_axis) + 1:]) if self.stage_axis else 0
        rank = stage * stride
        dist.init_process_group("fake", rank=rank, world_size=math.prod(self.axes.values()), store=FakeStore())
        try:
            mesh = init_device_mesh("cpu", tuple(self.axes.values()), mesh_dim_names=tuple(self.axes))
            self.meshes.begin(Root(self.axes, rank, self.stage_axis), stage if self.stage_axis else None)
            built = self._built(mesh, stage)
            if isinstance(built, list):
                if len(built) != stages:
                    raise TraceError(f"{self._where()} returned {len(built)} stages; the mesh has {stages} "
                                     f"along {self.stage_axis or 'no axis of stages'}")
                listed, built = built, built[stage]
            step = step_from(built, self._where())
            for field, given in (("batch_axes", step.batch_axes), ("input_axes", [a for each in step.input_axes for a in each])):
                unknown = [a for a in given if a not in self.axes]
                if unknown:
                    raise TraceError(f"{self._where()}: {field} has {unknown[0]!r}; allowed: {', '.join(self.axes)}")
            self._record(step, stage if self.stage_axis else None, stage == stages - 1)
            return listed
        finally:
            dist.destroy_process_group()
            _forget_meshes()

    def _where(self):
        code = getattr(self.build, "__code__", None)
        return f"{self.build.__name__} ({self.sites.file_name(code.co_filename)}:{code.co_firstlineno})" if code else "build"

    def _built(self, mesh, stage):
        try:
            takes_stage = "stage" in inspect.signature(self.build).parameters
        except (TypeError, ValueError):
            takes_stage = False
        with _user_code(f"{self._where()}, called as build(mesh{', stage=%d' % stage if takes_stage else ''}),"):
            with torch.device("meta"):
                return self.build(mesh, stage=stage) if takes_stage else self.build(mesh)

    def _record(self, step, stage, last):
        registry = Registry(self.meshes, self.names, self.warn)
        recorder = Recorder(registry, self.sites, self.warn)
        if self.recorder:
            recorder.records, recorder.counts = self.recorder.records, self.recorder.counts
        recorder.outside = self.values
        self.recorder = recorder
        if step.scenario:
            self.scenarios.append(step.scenario)
        with FakeTensorMode(allow_non_fake_inputs=True), installed(recorder):
            with _user_code("putting the model on fake memory"):
                put_on_fake_memory(step)
            optimizers = self._optimizers(step)
            runner = _Runner(step, optimizers, recorder, last)
            with Calls(recorder, step.on_read):
                runner.run()
                self._declare(step, optimizers)
                paths = {id(module): recorder.clean(path) for path, module in step.model.named_modules()}
                recorder.begin(stage, paths)
                runner.run()
                recorder.on = False

    def _optimizers(self, step):
        if step.optimizer is None:
            return []
        with _user_code("optimizer(parameters)"):
            made = step.optimizer(list(step.model.parameters()))
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        for each in made:
            if not isinstance(each, torch.optim.Optimizer):
                raise TraceError(f"{self._where()}: optimizer returned a {type(each).__name__}; "
                                 "allowed: a torch.optim.Optimizer, or a list of them")
        return made

    def _declare(self, step, optimizers):
        """What is there before the step: parameters, buffers, the optimizer's state, inputs and targets."""
        clean = Recorder.clean
        names = {}
        for role, named in (("parameter", step.model.named_parameters()), ("buffer", step.model.named_buffers())):
            for name, tensor in named:
                names[id(tensor)] = clean(name)
                self._declare_one(tensor, clean(name), role, clean(name).rpartition(".")[0])
        for module_name, module in step.model.named_modules():
            for name, tensor in vars(module).items():
                if isinstance(tensor, torch.Tensor):
                    self._declare_one(tensor, clean(f"{module_name}.{name}".lstrip(".")), "buffer", clean(module_name))
        for optimizer in optimizers:
            for parameter, state in optimizer.state.items():
                name = names.get(id(parameter), "parameter")
                for key, tensor in state.items():
                    if isinstance(tensor, torch.Tensor):
                        self._declare_one(tensor, f"{name}.{key}", "state", name.rpartition(".")[0])
        prefix = f"stage{self.meshes.stage}." if self.stage_axis else ""
        received = bool(self.meshes.stage)  # by a region of its own
        given = [] if received else list(zip(step.inputs, step.input_axes))
        for kind, given in (("input", given), ("target", [(target, step.batch_axes) for target in step.targets])):
            for at, (tensor, axes) in enumerate(given):
                if isinstance(tensor, torch.Tensor):
                    self._declare_one(tensor, f"{prefix}{kind}.{at}", "input", None, axes)

    def _declare_one(self, tensor, name, role, module, varies=()):
        registry = self.recorder.registry
        if registry.find(tensor) is None:
            value = registry.describe(tensor, name, varies, role=role, module=module or None)
            registry.bind(tensor, value)
            self.values.append(value)

    def trace(self, head):
        records = program.fold_regions(self.recorder.records)
        if self.scenarios:
            head["scenario"] = {"routing": self.scenarios[0]}
        head["ranks"] = math.prod(self.axes.values())
        text = program.written(head, self.meshes.written, self.values, records, list(self.warnings))
        return Trace(text, self.recorder.counts, len(records), list(self.warnings))


class _Runner:
    """One step of a model: forward, backward, optimizer."""

    def __init__(self, step, optimizers, recorder, last):
        self.step, self.optimizers, self.recorder, self.last = step, optimizers, recorder, last

    def run(self):
        step, recorder = self.step, self.recorder
        for tensor in step.inputs:
            if isinstance(tensor, torch.Tensor) and tensor.is_leaf:
                tensor.grad = None
        with step.context() if step.context else contextlib.nullcontext():
            self._backward(self._forward())
        self._name_gradients()
        recorder.phase = "optimizer"
        if step.after_backward is not None:
            with _user_code("after_backward(model)"):
                step.after_backward(step.model)
        for optimizer in self.optimizers:
            with _user_code("optimizer.step()"):
                optimizer.step()
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        step.model.zero_grad(set_to_none=True)

    def _forward(self):
        step, recorder = self.step, self.recorder
        recorder.phase = "forward"
        if recorder.stage:  # a stage after the first is sent its inputs
            self._receive([(t, axes) for t, axes in zip(step.inputs, step.input_axes) if isinstance(t, torch.Tensor)], "input")
        with _user_code("model(*inputs)"):
            output = step.model(*step.inputs)
        if step.loss is not None:
            with _user_code("loss(output, *targets)"):
                output = step.loss(output, *step.targets)
        return output

    def _backward(self, output):
        recorder = self.recorder
        recorder.phase = "backward"
        outputs = [t for t in (output if isinstance(output, (tuple, list)) else [output]) if isinstance(t, torch.Tensor)]
        outputs = [t for t in outputs if t.requires_grad]
        if not outputs:
            return
        scalar = len(outputs) == 1 and outputs[0].numel() == 1
        if not scalar and (self.last or self.step.loss is not None):
            seen = ", ".join(str(list(t.shape)) for t in outputs)
            raise TraceError(f"the step's output has shape {seen}; allowed: a loss of one element, or a loss function "
                             "that makes it")
        gradients = None
        if not scalar:
            recorder.phase = "forward"
            self._send(outputs)
            recorder.phase = "backward"
            with recorder.quiet():
                gradients = [torch.empty_like(t) for t in outputs]
            self._receive([(made, self._varies(t)) for made, t in zip(gradients, outputs)], "output_grad")
        with _user_code("backward"):
            torch.autograd.backward(outputs, gradients)
        if recorder.stage:
            self._send([t.grad for t in self.step.inputs if isinstance(t, torch.Tensor) and t.grad is not None])

    def _send(self, tensors):
        if self.recorder.on and tensors:
            self.recorder.region("stage_send", [self.recorder.value(t) for t in tensors], [], moves=self._passed("send", tensors))

    def _varies(self, tensor):
        recorder = self.recorder
        return recorder.varies([recorder.value(tensor)]) if recorder.on else ()

    def _receive(self, pairs, kind):
        """What another stage sends is made here: (tensor, axes along which ranks are sent different ones)."""
        recorder = self.recorder
        if recorder.on and pairs:
            outs = [recorder.made(t, f"stage{recorder.stage}.{kind}", axes) for t, axes in pairs]
            recorder.region("stage_receive", [], outs, moves=self._passed("receive", [t for t, _ in pairs]))

    def _passed(self, kind, tensors):
        root = self.recorder.registry.meshes.root
        size = sum(bytes_of(t._local_tensor if isinstance(t, DTensor) else t) for t in tensors)
        return [moves.move(kind, [root.stage_axis] if root.stage_axis else [], 2, size, root.ranks_alike)]

    def _name_gradients(self):
        recorder = self.recorder
        if not recorder.on:
            return
        named = [(recorder.clean(name), each) for name, each in self.step.model.named_parameters()]
        for name, parameter in named:
            if parameter.grad is None:
                continue
            value = recorder.value(parameter.grad)
            if not value.name.startswith("grad.") and value.role is None:
                value.name = recorder.registry.fresh_name(f"grad.{name}")
                own = recorder.value(parameter)
                lost = [a for a in value.varies if a not in own.varies]
                if lost:
                    recorder.warn(f"{value.name} may differ along {', '.join(lost)}, where the parameter does not: "
                                  "a reduction is missing")


def _forget_meshes():
    """What torch keeps of sharding decisions holds meshes, whose groups end with their world."""
    from torch.distributed.tensor import _redistribute, _sharding_prop, debug

    for owner in (_redistribute, _sharding_prop, _sharding_prop.ShardingPropagator):
        for held in list(vars(owner).values()):
            if not isinstance(held, type) and callable(getattr(held, "cache_clear", None)):
                held.cache_clear()
    getattr(debug, "_clear_sharding_prop_cache", lambda: None)()
    getattr(_redistribute, "clear_redistribute_planner_cache", lambda: None)()


@contextlib.contextmanager
def _user_code(part):
    """What a user's function raises is told with its own traceback and our line that called it."""
    try:
        yield
    except (TraceError, BuildFailed):
        raise
    except Exception as error:  # whatever a user's function may raise
        caller = inspect.currentframe().f_back.f_back
        at = f"tessera_trace/{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"
        raise BuildFailed(part, at) from error


__all__ = ["Step", "Trace", "TraceError", "BuildFailed", "mesh_axes", "trace"]
