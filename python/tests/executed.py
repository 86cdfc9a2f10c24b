"""A model executed on processes of gloo, and what its step moved there, as CommDebugMode and DebugMode see it.

`python executed.py FILE:FUNCTION dp=2,tp=2` prints one JSON object: "counts" by CommDebugMode, "moves" by DebugMode's calls:
[collective, ranks, bytes received by a rank] in the order in which rank 0 called them. Bytes are those of the tensors that the
calls were given, with a ring's share. It needs torch, and as many processes as the mesh has ranks.
"""
import contextlib
import json
import math
import os
import socket
import sys

import recorded

sys.path.insert(0, os.path.dirname(recorded.HERE))


def on_ranks(program, axes):
    """What rank 0 says of its second step. Each rank is a process that runs the same."""
    import torch.multiprocessing as mp

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_rank, args=(math.prod(axes.values()), port, program, axes, queue), nprocs=math.prod(axes.values()))
    return queue.get()


def _rank(rank, ranks, port, program, axes, queue):
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    from tessera_trace.__main__ import _loaded
    from tessera_trace.step import step_from

    torch.set_num_threads(1)
    torch.manual_seed(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    path, _, function = program.rpartition(":")
    with torch.device("meta"):
        step = step_from(_loaded(os.path.join(recorded.MODELS, path), function)(mesh), function)
    _fill(step)
    optimizers = step.optimizer(list(step.model.parameters())) if step.optimizer else []
    optimizers = optimizers if isinstance(optimizers, list) else [optimizers]
    _run(step, optimizers)
    seen = _watched(lambda: _run(step, optimizers))
    if rank == 0:
        queue.put(seen)
    dist.barrier()
    dist.destroy_process_group()


def _fill(step):
    """Memory for what was built on the meta device. Indices are small: every table has so many rows."""
    import torch

    from tessera_trace.step import put_on_fake_memory

    put_on_fake_memory(step)
    with torch.no_grad():
        for tensor in [*step.model.parameters(), *step.model.buffers()]:
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            local.normal_(std=0.02) if local.is_floating_point() else local.zero_()
        for name, buffer in step.model.named_buffers():
            if name.endswith("bias"):  # of a router: each token takes four experts, as far from one another as may be
                buffer[:: len(buffer) // 4] = 1.0
        for tensor in (*step.inputs, *step.targets):
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            local.normal_() if local.is_floating_point() else local.random_(0, 8)


def _run(step, optimizers):
    with step.context() if step.context else contextlib.nullcontext():
        output = step.model(*step.inputs)
        if step.loss is not None:
            output = step.loss(output, *step.targets)
        output.backward()
    if step.after_backward is not None:
        step.after_backward(step.model)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    step.model.zero_grad(set_to_none=True)


def _watched(run):
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.utils._debug_mode import DebugMode

    from tessera_trace import moves
    from tessera_trace.calls import bound, flat_results, group_ranks, tensors_in
    from tessera_trace.values import bytes_of

    made = []

    def record(func, types, args, kwargs, result):
        if func.namespace not in moves.NAMESPACES:
            return None
        given = bound(func, args, kwargs or {})
        collective, ranks = moves.collective_of(func._schema.name.split("::")[1]), group_ranks(given)
        if not collective or not ranks or len(ranks) == 1:
            return None
        given_bytes = sum(bytes_of(t) for t in tensors_in(list(given.values())))
        made_bytes = sum(bytes_of(t) for t in flat_results(result) if t is not None)
        if func._schema.name.endswith("_"):  # the outcome is among the arguments, and of an all_reduce it is the only one
            given_bytes = given_bytes - made_bytes or given_bytes
        local = moves.input_of(collective, given_bytes, made_bytes)
        made.append([collective, len(ranks), moves.move(collective, (), len(ranks), local, 1)["bytes"]["max"]])
        return None

    with CommDebugMode() as counted, DebugMode(), DebugMode.dispatch_hooks(record_hook=record):
        run()
    counts = {str(func): count for func, count in counted.get_comm_counts().items()}
    return {"counts": counts, "moves": made}


if __name__ == "__main__":
    from tessera_trace import mesh_axes

    print(json.dumps(on_ranks(sys.argv[1], mesh_axes(sys.argv[2])), indent=1))
