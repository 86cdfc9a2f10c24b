"""A small Llama as training codes write it: FSDP2 over dp, tensor and sequence parallelism over tp, its layers checkpointed."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.utils.checkpoint import checkpoint

from tessera_trace import Step

LAYERS, DIM, HEADS, KV_HEADS, HIDDEN, VOCABULARY, LENGTH, BATCH = 2, 256, 8, 4, 768, 2048, 128, 2


def turned(x, cos, sin):
    """Rotary positions: the halves of each head turn about one another."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = DIM // HEADS
        self.wq = nn.Linear(DIM, DIM, bias=False)
        self.wk = nn.Linear(DIM, KV_HEADS * self.width, bias=False)
        self.wv = nn.Linear(DIM, KV_HEADS * self.width, bias=False)
        self.wo = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = (w(x).view(batch, length, -1, self.width).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        k, v = (each.repeat_interleave(HEADS // KV_HEADS, dim=1) for each in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(DIM, HIDDEN, bias=False)
        self.w2 = nn.Linear(HIDDEN, DIM, bias=False)
        self.w3 = nn.Linear(DIM, HIDDEN, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, checkpointed):
        super().__init__()
        self.checkpointed = checkpointed
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(DIM), nn.RMSNorm(DIM)

    def run(self, x, cos, sin):
        h = x + self.attention(self.attention_norm(x), cos, sin)
        return h + self.feed_forward(self.ffn_norm(h))

    def forward(self, x, cos, sin):
        if self.checkpointed:
            return checkpoint(self.run, x, cos, sin, use_reentrant=False)
        return self.run(x, cos, sin)


class Llama(nn.Module):
    def __init__(self, first=True, last=True, layers=range(LAYERS), checkpointed=False):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, DIM) if first else None
        self.layers = nn.ModuleDict({str(at): Block(checkpointed) for at in layers})
        self.norm = nn.RMSNorm(DIM) if last else None
        self.output = nn.Linear(DIM, VOCABULARY, bias=False) if last else None
        width = DIM // HEADS
        angles = torch.outer(torch.arange(LENGTH), 1e4 ** -(torch.arange(0, width, 2) / width)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x):
        h = self.tok_embeddings(x) if self.tok_embeddings is not None else x
        for layer in self.layers.values():
            h = layer(h, self.cos, self.sin)
        return h if self.output is None else self.output(self.norm(h))


def with_tensor_parallelism(model, tp, planted=False):
    """The usual plan. planted: wo says that its input is whole, where it is cut by heads."""
    if model.tok_embeddings is not None:
        parallelize_module(model, tp, {"tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))})
    if model.output is not None:
        parallelize_module(model, tp, {"norm": SequenceParallel(),
                                       "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    for layer in model.layers.values():
        whole = {"input_layouts": (Shard(1), None, None), "desired_input_layouts": (Replicate(), None, None)}
        parallelize_module(layer, tp, {
            "attention_norm": SequenceParallel(),
            "attention": PrepareModuleInput(**whole),
            "attention.wq": ColwiseParallel(use_local_output=not planted),
            "attention.wk": ColwiseParallel(use_local_output=not planted),
            "attention.wv": ColwiseParallel(use_local_output=not planted),
            "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
            "ffn_norm": SequenceParallel(),
            "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "feed_forward.w1": ColwiseParallel(),
            "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
            "feed_forward.w3": ColwiseParallel(),
        })
    return model


def sharded(model, mesh):
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh["dp"])
    return fully_shard(model, mesh=mesh["dp"])


def loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=3e-4, fused=True)


def build(mesh):
    """FSDP2, tensor and sequence parallelism, layers run again in the backward pass."""
    model = sharded(with_tensor_parallelism(Llama(checkpointed=True), mesh["tp"]), mesh)
    tokens = torch.empty(BATCH, LENGTH, dtype=torch.int64)
    return Step(model, (tokens,), loss, (torch.empty_like(tokens),), adamw, batch_axes=("dp",))


def build_stage(mesh, stage):
    """Two pipeline stages of one layer each."""
    model = sharded(with_tensor_parallelism(Llama(stage == 0, stage == 1, [stage]), mesh["tp"]), mesh)
    tokens = torch.empty(BATCH, LENGTH, dtype=torch.int64)
    if stage == 0:
        return Step(model, (tokens,), optimizer=adamw, batch_axes=("dp",))
    hidden = torch.empty(BATCH, LENGTH // mesh["tp"].size(), DIM, requires_grad=True)
    return Step(model, (hidden,), loss, (tokens,), adamw, batch_axes=("dp",), input_axes=(("dp", "tp"),))
