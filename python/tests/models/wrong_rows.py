"""One call for each of torch's rows that are known to give wrong values: what the audit has to name, line by line.

Numbers are those of the project's list of rows. Row 10 is of older releases: what this one makes of it is `build_max_dim` and
`build_clamp`. Row 11 is of other systems.
"""
import torch
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import local_map
from torch.distributed.tensor.placement_types import _StridedShard

from tessera_trace import Step


def placed(mesh, shape, placements, dtype=torch.float32):
    """A DTensor of a global shape, made of nothing: partial ones, too."""
    local = list(shape)
    for at, placement in enumerate(placements):
        if isinstance(placement, Shard):
            local[placement.dim] = -(-local[placement.dim] // mesh.size(at))
    whole = torch.empty(shape, dtype=dtype)
    return DTensor.from_local(torch.empty(local, dtype=dtype), mesh, placements, run_check=False, shape=whole.shape,
                              stride=whole.stride())


class WrongRows(nn.Module):
    def __init__(self, mesh):
        super().__init__()
        self.mesh, self.one = mesh, mesh["tp"]
        self.weight = nn.Parameter(distribute_tensor(torch.empty(8, 4), self.one, [Shard(0)]))

    def forward(self, gathered, index, scattered, source, rows):
        gather = torch.gather(gathered, 1, index)  # 1: index has 4 of 8 rows, and the rows are cut
        scatter = scattered.scatter_add(1, index, source)  # 2: source has more rows than index
        del gather, scatter
        self.partial()
        self.strided()
        self.uneven()
        return (self.weight * rows).sum().full_tensor()

    def partial(self):
        count = placed(self.one, (4,), [Partial("sum")], torch.int64)
        count + placed(self.one, (4,), [Replicate()], torch.int64)  # 3: becomes float32
        largest = placed(self.one, (8, 4), [Partial("max")])
        torch.linalg.vector_norm(largest, float("inf"))  # 4: the norm of P(max) is not P(max)'s
        torch.nn.functional.threshold(largest, 0.5, 2.0)  # 4: not monotone
        torch.fft.fft(largest)  # 4: neither
        torch.nan_to_num(largest, nan=7.0)  # 4: NaN becomes a value of its own
        summed = placed(self.one, (8, 4), [Partial("sum")])
        summed.nansum()  # 4: NaN counts where its summands are added
        torch.linalg._powsum(summed, 2)  # 4: squares each summand
        torch._foreach_powsum([summed], 2)  # 4: the same, of a list
        placed(self.one, (8, 4), [Partial("sum")], torch.int64).copy_(summed)  # 4: rounds each summand

    def strided(self):
        cut = placed(self.mesh, (8, 8), [Replicate(), Shard(0)])
        cut.redistribute(self.mesh, [Shard(0), _StridedShard(0, split_factor=2)])  # 5
        other = placed(self.mesh, (8, 8), [Replicate(), Shard(1)])
        other.redistribute(self.mesh, [_StridedShard(0, split_factor=2), _StridedShard(0, split_factor=2)])  # 5
        five = placed(self.mesh, (5, 3), [Shard(0), Shard(0)])
        five.redistribute(self.mesh, [Replicate(), Replicate()])  # 6: where the axes are flattened, row 4 is lost

    def uneven(self):
        five = placed(self.one, (5, 3), [Shard(0)])
        local_map(torch.neg, out_placements=[Shard(0)], device_mesh=self.one)(five)  # 7: ranks disagree on the shape
        ties = placed(self.mesh, (8, 8), [Shard(0), Shard(0)])
        ties.argmax()  # 8: a later index of equals
        torch.nn.functional.dropout(five, 0.5)  # 9: other values under other placements
        torch.rand_like(five)  # 9


def build(mesh):
    mesh["dp", "tp"]._flatten("dp_tp")
    one, model = mesh["tp"], WrongRows(mesh)
    gathered, index = placed(one, (8, 4), [Shard(0)]), placed(one, (4, 3), [Replicate()], torch.int64)
    scattered, source = placed(one, (4, 4), [Shard(0)]), placed(one, (8, 3), [Shard(0)])
    return Step(model, (gathered, index, scattered, source, placed(one, (8, 4), [Shard(0)])))


class OlderRow(WrongRows):
    """One call of row 10."""

    def __init__(self, mesh, call):
        super().__init__(mesh)
        self.call = call

    def forward(self, rows):
        self.call(self.one)
        return (self.weight * rows).sum().full_tensor()


def build_max_dim(mesh):
    """Gathered before it runs, so that its indices are of the whole."""
    model = OlderRow(mesh, lambda one: placed(one, (8, 4), [Shard(0)]).max(dim=0))
    return Step(model, (placed(mesh["tp"], (8, 4), [Shard(0)]),))


def build_clamp(mesh):
    """Refused: what is Partial cannot be clamped in place."""
    model = OlderRow(mesh, lambda one: placed(one, (8, 4), [Partial("sum")]).clamp_(0, 1))
    return Step(model, (placed(mesh["tp"], (8, 4), [Shard(0)]),))
