"""Mistakes put into small models on purpose: what the audit has to name, with its line."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.experimental import local_map
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tessera_trace import Step

DIM, HIDDEN, EXPERTS, TOKENS = 128, 512, 8, 64


class Gathering(nn.Module):
    """Gate and up are one weight, cut along its rows: no rank has both halves of anything, so that chunk gathers them."""

    def __init__(self):
        super().__init__()
        self.gate_up = nn.Linear(DIM, 2 * HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x):
        both = self.gate_up(x.mean(dim=0, keepdim=True))
        gate, up = both.chunk(2, dim=-1)  # gathers `both`
        return self.down(F.silu(gate) * up)


def build_implicit_gather(mesh):
    model = Gathering()
    parallelize_module(model, mesh["tp"], {"gate_up": ColwiseParallel(use_local_output=False),
                                           "down": RowwiseParallel(use_local_output=False)})
    x = DTensor.from_local(torch.empty(TOKENS, DIM), mesh["tp"], [Replicate()])
    return Step(model, (x,), lambda y: y.square().sum().full_tensor(), optimizer=lambda p: torch.optim.SGD(p, lr=0.1))


class Router(nn.Module):
    """Tokens are cut over tp; the gate is used on local tokens, and its gradient, a sum over tp's ranks, is never reduced."""

    def __init__(self, mesh):
        super().__init__()
        self.mesh = mesh
        self.gate = nn.Linear(DIM, EXPERTS, bias=False)
        self.experts = nn.Parameter(torch.empty(EXPERTS, DIM))

    def forward(self, x):
        tokens = x.to_local()
        scores = F.softmax(self.gate(tokens), dim=-1)  # the gradient of gate.weight is one of these tokens alone
        mixed = tokens * (scores @ self.experts.to_local())
        return DTensor.from_local(mixed, self.mesh, [Shard(0)])


def build_router(mesh):
    model = Router(mesh["tp"])
    model.experts = nn.Parameter(distribute_tensor(model.experts.data, mesh["tp"], [Replicate()]))
    fully_shard(model, mesh=mesh["dp"], ignored_params={model.experts})
    x = DTensor.from_local(torch.empty(TOKENS, DIM), mesh["tp"], [Shard(0)])
    return Step(model, (x,), lambda y: y.square().sum().full_tensor(), optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
                batch_axes=("dp",))


class Region(nn.Module):
    """local_map around what is not written for DTensor, and a custom op."""

    def __init__(self, mesh):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(DIM, DIM))
        self.mesh = mesh

    def forward(self, x):
        y = local_map(mixed, out_placements=[Shard(0)], in_placements=([Shard(0)], [Replicate()]),
                      in_grad_placements=([Shard(0)], [Replicate()]), device_mesh=self.mesh)(x, self.weight)
        return torch.ops.tessera_models.doubled(y.to_local())


def mixed(x, weight):
    return torch.tanh(x @ weight) + x


@torch.library.custom_op("tessera_models::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


doubled.register_autograd(lambda ctx, grad: grad * 2)


def build_regions(mesh):
    model = Region(mesh["tp"])
    distribute_module(model, mesh["tp"])
    x = DTensor.from_local(torch.empty(TOKENS, DIM), mesh["tp"], [Shard(0)])
    return Step(model, (x,), lambda y: y.sum(), optimizer=lambda p: torch.optim.SGD(p, lr=0.1))
