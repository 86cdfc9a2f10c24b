"""A decoder's layer under FSDP2, tensor and sequence parallelism, whose plan leaves RowwiseParallel as it comes: it sums where half of
that would do. `build` has the mistake, `build_mended` the plan that is meant."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

from tessera_trace import Step

DIM, HEADS, HIDDEN, LENGTH, BATCH = 256, 8, 768, 512, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (-1, DIM // HEADS)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(DIM, HIDDEN, bias=False) for _ in range(2))
        self.w2 = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.attention, self.feed_forward = Attention(), FeedForward()

    def forward(self, x):
        attended = self.attention(self.attention_norm(x))
        h = x + attended  # x is cut by its positions
        forwarded = self.feed_forward(self.ffn_norm(h))
        return h + forwarded


def _layer(mesh, **after):
    model = Layer()
    gathered = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
    parallelize_module(model, mesh["tp"], {
        "attention_norm": SequenceParallel(),
        "attention": PrepareModuleInput(**gathered),
        "attention.wq": ColwiseParallel(),
        "attention.wk": ColwiseParallel(),
        "attention.wv": ColwiseParallel(),
        "attention.wo": RowwiseParallel(use_local_output=False, **after),
        "ffn_norm": SequenceParallel(),
        "feed_forward": PrepareModuleInput(**gathered),
        "feed_forward.w1": ColwiseParallel(),
        "feed_forward.w2": RowwiseParallel(use_local_output=False, **after),
        "feed_forward.w3": ColwiseParallel(),
    })
    fully_shard(model, mesh=mesh["dp"])
    x = DTensor.from_local(torch.empty(BATCH, LENGTH // mesh["tp"].size(), DIM), mesh["tp"], [Shard(1)])
    return Step(model, (x,), lambda y: y.square().mean().full_tensor(), optimizer=lambda p: torch.optim.AdamW(p, fused=True),
                batch_axes=("dp",))


def build(mesh):
    return _layer(mesh)


def build_mended(mesh):
    return _layer(mesh, output_layouts=Shard(1))
