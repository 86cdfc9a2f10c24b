"""What a user's build function hands over: a Step, its parts put on fake memory, and the errors that name them."""
import dataclasses
from collections.abc import Callable

import torch
from torch.distributed.tensor import DTensor


class TraceError(Exception):
    """What a build function handed over, or a mesh, cannot be traced: where, what was seen, what is allowed."""


class BuildFailed(Exception):
    """User code raised. `part` says what of ours called it; the cause is the user's exception."""

    def __init__(self, part, called_at):
        super().__init__(f"{part} failed (called at {called_at})")
        self.part, self.called_at = part, called_at


@dataclasses.dataclass
class Step:
    """One training step of one model, or of one pipeline stage of it.

    model         the module, sharded as it will run: parallelize_module, fully_shard, distribute_tensor; on the meta device
    inputs        tensors for model(*inputs): what one rank is given
    loss          loss(output, *targets) -> a scalar. Left out, the output is the loss where it is a scalar (DTensor or
                  plain), and else a later stage takes the output and sends a gradient back
    targets       further tensors for the loss
    optimizer     optimizer(parameters) -> a torch.optim.Optimizer, or a list of them; left out, there is no such phase
    batch_axes    mesh axes along which ranks are given different inputs and targets
    input_axes    where inputs differ along other axes than targets, a tuple of axes for each input: a later stage's input may
                  be cut over tp, too
    after_backward  after_backward(model), between backward and optimizer: clipping of gradients, say
    context       context() -> what `with` takes, around forward, loss and backward: loss_parallel
    on_read       on_read(site, shape, dtype) -> number that the host sees where the program reads one element of a tensor;
                  left out, 1. Sizes that depend on data follow from it
    scenario      what on_read assumes of routing, in one word: "balanced", "worst"
    """

    model: torch.nn.Module
    inputs: tuple = ()
    loss: Callable | None = None
    targets: tuple = ()
    optimizer: Callable | None = None
    batch_axes: tuple = ()
    input_axes: tuple | None = None
    after_backward: Callable | None = None
    context: Callable | None = None
    on_read: Callable | None = None
    scenario: str | None = None


def step_from(built, where):
    """A Step from what build returned: a Step, a dict of its fields, or (model, inputs[, loss[, optimizer]])."""
    if isinstance(built, Step):
        step = built
    elif isinstance(built, dict):
        allowed = [field.name for field in dataclasses.fields(Step)]
        unknown = sorted(str(key) for key in built if key not in allowed)
        if unknown or "model" not in built:
            seen = f"unknown key {unknown[0]!r}" if unknown else "no key 'model'"
            raise TraceError(f"{where} returned a dict with {seen}; allowed: {', '.join(allowed)}")
        step = Step(**built)
    elif isinstance(built, tuple) and 2 <= len(built) <= 4:
        model, inputs, loss, optimizer = (*built, None, None)[:4]
        step = Step(model, inputs, loss, optimizer=optimizer)
    else:
        raise TraceError(f"{where} returned {described(built)}; allowed: a Step, a dict of its fields, "
                         "(model, inputs, loss, optimizer), or a list of one of these for each pipeline stage")
    return checked(step, where)


def checked(step, where):
    """The step with its tuples made tuples. Errors: TraceError names the field."""
    if not isinstance(step.model, torch.nn.Module):
        raise TraceError(f"{where}: model is {described(step.model)}; allowed: a torch.nn.Module")
    for name, module in step.model.named_modules():
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            raise TraceError(f"{where}: module {name!r} is DistributedDataParallel, whose reductions are made where no trace sees "
                             "them; allowed: fully_shard, or its mesh of replicas (HSDP)")
    for field in ("inputs", "targets"):
        given = getattr(step, field)
        given = (given,) if isinstance(given, torch.Tensor) else given
        if not isinstance(given, (tuple, list)):
            raise TraceError(f"{where}: {field} is {described(given)}; allowed: a tensor, or a tuple of arguments")
        setattr(step, field, tuple(given))
    for field in ("loss", "optimizer", "after_backward", "context", "on_read"):
        given = getattr(step, field)
        if given is not None and not callable(given):
            raise TraceError(f"{where}: {field} is {described(given)}; allowed: a function, or None")
    axes = step.batch_axes
    step.batch_axes = (axes,) if isinstance(axes, str) else tuple(axes)
    if step.input_axes is None:
        step.input_axes = (step.batch_axes,) * len(step.inputs)
    if len(step.input_axes) != len(step.inputs):
        raise TraceError(f"{where}: input_axes has {len(step.input_axes)} entries; allowed: one for each of the "
                         f"{len(step.inputs)} inputs, a tuple of axes")
    return step


def described(thing):
    if isinstance(thing, (tuple, list)):
        return f"a {type(thing).__name__} of {len(thing)}"
    name = type(thing).__name__
    return "None" if thing is None else f"a{'n' if name[0] in 'aeiouAEIOU' else ''} {name}"


def put_on_fake_memory(step):
    """Meta tensors of the model, its plain attributes, inputs and targets become fake ones on the CPU, under the mode."""
    step.model.to_empty(device="cpu")
    for module in step.model.modules():
        for name, held in list(vars(module).items()):
            if isinstance(held, torch.Tensor) and held.is_meta:
                setattr(module, name, fake_of(held))
    step.inputs = tuple(fake_of(each) for each in step.inputs)
    step.targets = tuple(fake_of(each) for each in step.targets)


def fake_of(given):
    if not isinstance(given, torch.Tensor):
        return given
    if isinstance(given, DTensor):
        local = torch.empty(given._local_tensor.shape, dtype=given.dtype, device="cpu")
        made = DTensor.from_local(local, given.device_mesh, given.placements, run_check=False,
                                  shape=given.shape, stride=given.stride())
        made = made.detach()
    else:
        made = torch.empty_strided(given.shape, given.stride(), dtype=given.dtype, device="cpu")
    return made.requires_grad_(given.requires_grad)
