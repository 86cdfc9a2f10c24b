"""Where torch itself says what we record: its functions, wrapped while a step is traced and put back after it.

Redistributions are taken spec to spec, not as the collectives beneath them. FSDP2's gathers and reductions become one region a
group of parameters. Nothing here changes what torch does.
"""
import contextlib
import functools
import inspect
import sys

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import _api, _dispatch, _redistribute, _utils
from torch.utils._python_dispatch import _disable_current_modes

from . import moves
from .step import TraceError
from .values import bytes_of

# Functions of torch that only pass a redistribution on.
_PASSING = ("_redistribute_backward", "Redistribute.forward", "NestedRedistribute.forward", "redistribute_local_args", "apply",
            "NestedRedistribute.apply", "DTensor.redistribute", "Redistribute.apply", "Function.apply", "redistribute",
            "DTensor.full_tensor", "wrapper", "inner", "_fn")


def _put(undo, owner, name, made):
    """Replaces owner.name, and notes how to put it back. Errors: TraceError where this torch has no such thing."""
    if name not in vars(owner):
        seen = getattr(owner, "__name__", owner)
        raise TraceError(f"torch {torch.__version__}: {seen}.{name} is not there; tessera_trace knows torch 2.9 to 2.15")
    undo.callback(setattr, owner, name, vars(owner)[name])
    setattr(owner, name, made)


@contextlib.contextmanager
def installed(recorder):
    """All hooks, for the length of a `with`."""
    with contextlib.ExitStack() as undo:
        _install_modules(undo, recorder)
        _install_redistribute(undo, recorder)
        _install_local(undo, recorder)
        _install_fsdp(undo, recorder)
        _install_offsets(undo)
        yield


def _install_offsets(undo):
    """Meshes, and where a shard begins, are reckoned with tensors that torch reads: they must not be fake."""
    for owner, name in ((_utils, "_compute_local_shape_and_global_offset"), (DeviceMesh, "__init__"), (DeviceMesh, "__getitem__")):
        if name in vars(owner):  # else an earlier torch, which reckons with numbers
            _put(undo, owner, name, _not_fake(vars(owner)[name]))


def _not_fake(original):
    @functools.wraps(original)
    def reckon(*args, **kwargs):
        with _disable_current_modes():
            return original(*args, **kwargs)
    return reckon


def _install_modules(undo, recorder):
    original = torch.nn.Module.__call__

    @functools.wraps(original)
    def call(module, *args, **kwargs):
        path = recorder.paths.get(id(module))
        if path is None:
            return original(module, *args, **kwargs)
        recorder.modules.append(path)
        try:
            return original(module, *args, **kwargs)
        finally:
            recorder.modules.pop()

    _put(undo, torch.nn.Module, "__call__", call)


def _asked_by():
    """Which function of torch's (or the user) asked for a redistribution."""
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        name = code.co_qualname
        if not code.co_filename.startswith(_OWN) and name not in _PASSING:
            return name if code.co_filename.startswith(_TORCH) else "DTensor.redistribute"
        frame = frame.f_back
    return "DTensor.redistribute"


_OWN = __file__.rsplit("/", 1)[0]
_TORCH = torch.__file__.rsplit("/", 1)[0]


def _install_redistribute(undo, recorder):
    original = _redistribute.redistribute_local_tensor

    @functools.wraps(original)
    def redistribute(local, current, target, *args, **kwargs):
        if not recorder.on:
            return original(local, current, target, *args, **kwargs)
        with recorder.quiet():
            result = original(local, current, target, *args, **kwargs)
        if any(type(placement).__name__ == "_MaskPartial" for placement in target.placements):
            pass  # how torch tells an embedding which ids are a rank's own: the ids stay what they are
        elif current.placements != target.placements:
            recorder.redistributed(local, current, target, result, _asked_by())
        return result

    for module in (_redistribute, _dispatch, _api):
        _put(undo, module, "redistribute_local_tensor", redistribute)


def _install_local(undo, recorder):
    to_local, from_local = _api._ToTorchTensor.forward, _api._FromTorchTensor.forward

    def told(original, tell, name):
        def call(ctx, given, *args):
            if not recorder.on or recorder.op_frames:
                return original(ctx, given, *args)
            value = recorder.value(given)
            with recorder.quiet():
                result = original(ctx, given, *args)
            tell(value, result, _asked_by_local(name))
            return result

        return staticmethod(call)

    _put(undo, _api._ToTorchTensor, "forward", told(to_local, recorder.to_local, "DTensor.to_local"))
    _put(undo, _api._FromTorchTensor, "forward", told(from_local, recorder.from_local, "DTensor.from_local"))


def _asked_by_local(default):
    """ "_ToTorchTensor.backward" where autograd asked, a parallel style's function where that did, else the default."""
    frame = sys._getframe(2)
    for _ in range(12):
        if frame is None:
            break
        code = frame.f_code
        if code.co_filename.startswith(_TORCH):
            name = code.co_qualname
            if name.endswith(".backward") or "/parallel/" in code.co_filename or "/fsdp/" in code.co_filename:
                return name
        elif not code.co_filename.startswith(_OWN):
            break
        frame = frame.f_back
    return default


def _install_fsdp(undo, recorder):
    try:
        from torch.distributed.fsdp._fully_shard import _fsdp_param_group
    except ImportError as error:
        raise TraceError(f"torch {torch.__version__} has no fully_shard: tessera_trace knows torch 2.9 to 2.15") from error
    group_class = _fsdp_param_group.FSDPParamGroup
    wait, reduce = group_class.wait_for_unshard, _fsdp_param_group.foreach_reduce
    signature = inspect.signature(reduce)

    def quietly(original):
        @functools.wraps(original)
        def call(*args, **kwargs):
            with recorder.quiet():
                return original(*args, **kwargs)
        return call

    def wait_for_unshard(group):
        gathered = group._all_gather_result
        size = bytes_of(gathered.all_gather_output) if gathered and hasattr(gathered, "all_gather_output") else 0
        with recorder.quiet():
            wait(group)
        if gathered and recorder.on:
            _gathered(recorder, group, size)

    def foreach_reduce(*args, **kwargs):
        if not recorder.on:
            return reduce(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        params, grads = list(given["fsdp_params"]), list(given["unsharded_grads"])
        values = [_grad_value(recorder, param, grad) for param, grad in zip(params, grads)]
        sizes = [list(grad.shape) for grad in grads]
        del grads
        with recorder.quiet():
            result = reduce(*args, **kwargs)
        _reduced(recorder, params, values, sizes, given)
        return result

    for name in ("unshard", "reshard", "finalize_backward"):
        _put(undo, group_class, name, quietly(vars(group_class)[name]))
    _put(undo, group_class, "wait_for_unshard", wait_for_unshard)
    _put(undo, _fsdp_param_group, "foreach_reduce", foreach_reduce)


def _module_of(names):
    """The module that all these parameters are in: what fully_shard was called on, or a part of it."""
    paths = [name.split(".")[:-1] for name in names]
    shared = []
    for parts in zip(*paths):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)


def _in_module(record, names):
    path = _module_of(names)
    if path:
        record["module"] = path
    else:
        record.pop("module", None)


def _gathered(recorder, group, size):
    registry = recorder.registry
    sources = [recorder.value(param.sharded_param) for param in group.fsdp_params]
    ranks, axes = _slice(recorder, group.mesh_info.shard_process_group)
    outs = []
    for param, source in zip(group.fsdp_params, sources):
        old = registry.find(param.unsharded_param)
        made = recorder.made(param.unsharded_param, f"{source.name}.gathered", set(source.varies) - set(axes))
        outs.append(made)
        if old is not None:
            recorder.again.append((old, made))
    moved = [moves.move("all_gather", axes, ranks, size, registry.meshes.root.ranks_alike)] if ranks > 1 else None
    record = recorder.region("fsdp_all_gather", sources, outs, "FSDPParamGroup.unshard", moves=moved)
    _in_module(record, [source.name for source in sources])
    recorder.see_again()


def _grad_value(recorder, param, grad):
    """FSDP hands over local gradients: of a DTensor, where the parameter is one beneath FSDP."""
    registry = recorder.registry
    found = registry.plain.get(grad)
    return found if found is not None else registry.other_sense(grad) or recorder.value(grad)


def _reduced(recorder, params, values, sizes, given):
    registry = recorder.registry
    ranks, axes = _slice(recorder, given["reduce_scatter_group"])
    replicas, more_axes = _slice(recorder, given.get("all_reduce_group"))
    itemsize = given["reduce_dtype"].itemsize if given.get("reduce_dtype") else 4
    size = 0
    for shape in sizes:
        count = 1
        for at, length in enumerate(shape):
            count *= -(-length // ranks) * ranks if at == 0 else length
        size += count * itemsize
    moved = []
    if ranks > 1:
        moved.append(moves.move("reduce_scatter", axes, ranks, size, registry.meshes.root.ranks_alike))
    if replicas > 1:
        moved.append(moves.move("all_reduce", more_axes, replicas, size // ranks, registry.meshes.root.ranks_alike))
    outs, lost = [], []
    for param, value in zip(params, values):
        name = recorder.value(param.sharded_param).name
        left = recorder.varies([value]) - set(axes) - set(more_axes)
        grad = param.sharded_param.grad
        if grad is None:
            continue
        made = recorder.made(grad, f"grad.{name}", left)
        outs.append(made)
        if made.varies:
            lost.append(f"the gradient of {name} may differ along {', '.join(made.varies)}, where the parameter does not: "
                        "a reduction is missing")
    record = recorder.region("fsdp_reduce_scatter", values, outs, "foreach_reduce", moves=moved, warning="; ".join(lost) or None)
    _in_module(record, [made.name.removeprefix("grad.") for made in outs])


def _slice(recorder, group):
    """(ranks, the root's axes) of a process group."""
    if group is None:
        return 1, ()
    ranks = torch.distributed.get_process_group_ranks(group)
    return len(ranks), recorder.registry.meshes.root.axes_of_ranks(ranks) or ()


__all__ = ["installed"]
