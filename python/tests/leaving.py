"""PyTorch code that placement-audit wrote, run: on processes of gloo beside the model on one rank, or under a fake group.

`python leaving.py PLAN.py…` runs the model of models/whole.py under each plan, on as many processes as their meshes have ranks, and
prints a JSON list: the largest differences of output and gradients, and where parameters lie. `python leaving.py fake PLAN.py` runs
rank 0 alone and prints the local shapes of its parameters.
"""
import importlib.util
import json
import math
import os
import socket
import sys

import recorded

sys.path.insert(0, os.path.dirname(recorded.HERE))
sys.path.insert(0, recorded.MODELS)


def loaded(path):
    spec = importlib.util.spec_from_file_location("plan", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_ranks(paths):
    """What rank 0 found under each plan."""
    import torch.multiprocessing as mp

    ranks = math.prod(loaded(paths[0]).MESH.values())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_rank, args=(ranks, port, paths, queue), nprocs=ranks)
    return queue.get()


def _rank(rank, ranks, port, paths, queue):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    found = [compared(loaded(path)) for path in paths]
    if rank == 0:
        queue.put(found)
    dist.barrier()
    dist.destroy_process_group()


def made():
    """The model in 64 bits with its inputs, the same on every rank."""
    import torch
    import whole

    torch.manual_seed(7)
    model = whole.Decoder().double()
    tokens = torch.randint(whole.VOCABULARY, (whole.BATCH, whole.LENGTH))
    return model, tokens, torch.randn(whole.BATCH, whole.LENGTH, whole.VOCABULARY, dtype=torch.float64)


def stepped(model, tokens, target):
    import whole

    output = model(tokens)
    whole.loss(output, target).backward()
    return output


def compared(plan):
    model, tokens, target = made()
    expected = stepped(model, tokens, target)
    cut = made()[0]
    mesh = plan.device_mesh("cpu")
    plan.parallelize(cut, mesh)
    output = stepped(cut, *plan.distribute_inputs(mesh, tokens, target))
    gradients = dict(model.named_parameters())
    worst = max((parameter.grad.full_tensor() - gradients[name].grad).abs().max().item() for name, parameter in cut.named_parameters())
    return {"output": (output.full_tensor() - expected).abs().max().item(), "gradients": worst, "largest": expected.abs().max().item(),
            "parameters": {name: str(tuple(each.placements)) for name, each in cut.named_parameters()}}


def under_fake_group(path):
    """The local shapes of the parameters of rank 0 where no other rank is there; forward and backward run."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    plan = loaded(path)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=math.prod(plan.MESH.values()))
    model, tokens, target = made()
    mesh = plan.device_mesh("cpu")
    plan.parallelize(model, mesh)
    stepped(model, *plan.distribute_inputs(mesh, tokens, target))
    return {name: list(each.to_local().shape) for name, each in model.named_parameters()}


if __name__ == "__main__":
    print(json.dumps(under_fake_group(sys.argv[2]) if sys.argv[1] == "fake" else on_ranks(sys.argv[1:]), indent=1))
