"""A small DeepSeek-V3: latent attention, one dense layer, then one of experts with expert parallelism over ep.

The experts' tokens travel by all_to_all on plain tensors, as training codes do it; FSDP2 cuts the dense part over dp x ep and
the experts over dp. Sizes that depend on routing are those of balanced routing.
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single, all_to_all_single_autograd
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_module, distribute_tensor

from tessera_trace import Step

DIM, HEADS, NOPE, ROPE, VALUE, Q_RANK, KV_RANK = 256, 4, 32, 16, 32, 96, 64
EXPERTS, CHOSEN, HIDDEN, DENSE, VOCABULARY, LENGTH, BATCH = 16, 4, 128, 512, 2048, 64, 2


def turned(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class LatentAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq_a, self.q_norm = nn.Linear(DIM, Q_RANK, bias=False), nn.RMSNorm(Q_RANK)
        self.wq_b = nn.Linear(Q_RANK, HEADS * (NOPE + ROPE), bias=False)
        self.wkv_a, self.kv_norm = nn.Linear(DIM, KV_RANK + ROPE, bias=False), nn.RMSNorm(KV_RANK)
        self.wkv_b = nn.Linear(KV_RANK, HEADS * (NOPE + VALUE), bias=False)
        self.wo = nn.Linear(HEADS * VALUE, DIM, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(batch, length, HEADS, NOPE + ROPE).transpose(1, 2)
        q_nope, q_rope = q.split([NOPE, ROPE], dim=-1)
        latent, k_rope = self.wkv_a(x).split([KV_RANK, ROPE], dim=-1)
        k_rope = turned(k_rope.unsqueeze(1), cos, sin).expand(-1, HEADS, -1, -1)
        kv = self.wkv_b(self.kv_norm(latent)).view(batch, length, HEADS, NOPE + VALUE).transpose(1, 2)
        k_nope, v = kv.split([NOPE, VALUE], dim=-1)
        q, k = torch.cat([q_nope, turned(q_rope, cos, sin)], dim=-1), torch.cat([k_nope, k_rope], dim=-1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=(NOPE + ROPE) ** -0.5)
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.w1, self.w3 = nn.Linear(DIM, hidden, bias=False), nn.Linear(DIM, hidden, bias=False)
        self.w2 = nn.Linear(hidden, DIM, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Experts(nn.Module):
    """All experts of the layer; over ep each rank holds EXPERTS / ep of them."""

    def __init__(self):
        super().__init__()
        self.w1, self.w3 = (nn.Parameter(torch.empty(EXPERTS, HIDDEN, DIM)) for _ in range(2))
        self.w2 = nn.Parameter(torch.empty(EXPERTS, DIM, HIDDEN))

    def forward(self, tokens, counts):
        ends = counts.cumsum(0, dtype=torch.int32)
        tokens = tokens.bfloat16()
        w1, w2, w3 = (w.to_local().bfloat16().transpose(-2, -1) for w in (self.w1, self.w2, self.w3))
        hidden = F.silu(torch._grouped_mm(tokens, w1, offs=ends)) * torch._grouped_mm(tokens, w3, offs=ends)
        return torch._grouped_mm(hidden, w2, offs=ends).float()


class MixtureOfExperts(nn.Module):
    def __init__(self, ep):
        super().__init__()
        self.ep = ep
        self.gate = nn.Linear(DIM, EXPERTS, bias=False)
        self.register_buffer("bias", torch.empty(EXPERTS))
        self.experts, self.shared = Experts(), FeedForward(HIDDEN)

    def route(self, x):
        scores = torch.sigmoid(self.gate(x).float())
        _, chosen = torch.topk(scores + self.bias, CHOSEN, dim=-1)
        weights = scores.gather(1, chosen)
        return weights / weights.sum(dim=-1, keepdim=True), chosen

    def forward(self, x):
        shape, x = x.shape, x.view(-1, DIM)
        weights, chosen = self.route(x)
        counts = torch.histc(chosen.view(-1).float(), bins=EXPERTS, min=0, max=EXPERTS).long()
        order = torch.argsort(chosen.view(-1), stable=True)
        routed = x[order // CHOSEN] * weights.view(-1)[order].unsqueeze(-1)
        out = self.travelled(routed, counts)
        mixed = torch.zeros_like(x).index_add(0, order // CHOSEN, out)
        return (mixed + self.shared(x)).view(shape)

    def travelled(self, routed, counts):
        """To the ranks that hold the experts, through them, and back."""
        ranks, group = self.ep.size(), self.ep.get_group()
        theirs = all_to_all_single(counts, None, None, group)
        sent = counts.view(ranks, -1).sum(dim=1).tolist()
        got = theirs.view(ranks, -1).sum(dim=1).tolist()
        tokens = all_to_all_single_autograd(routed, got, sent, group)
        local = torch.arange(EXPERTS // ranks, device=counts.device).repeat(ranks)
        owner = torch.repeat_interleave(local, theirs, output_size=sum(got))
        by_expert = torch.argsort(owner, stable=True)
        done = self.experts(tokens[by_expert], theirs.view(ranks, -1).sum(dim=0))
        back = torch.zeros_like(tokens).index_copy(0, by_expert, done)
        return all_to_all_single_autograd(back, sent, got, group)


class Block(nn.Module):
    def __init__(self, ep):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.attention = LatentAttention()
        self.feed_forward = FeedForward(DENSE) if ep is None else MixtureOfExperts(ep)

    def forward(self, x, cos, sin):
        h = x + self.attention(self.attention_norm(x), cos, sin)
        return h + self.feed_forward(self.ffn_norm(h))


class DeepSeek(nn.Module):
    def __init__(self, ep):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, DIM)
        self.layers = nn.ModuleDict({"0": Block(None), "1": Block(ep)})
        self.norm, self.output = nn.RMSNorm(DIM), nn.Linear(DIM, VOCABULARY, bias=False)
        self.register_buffer("cos", torch.empty(LENGTH, ROPE), persistent=False)
        self.register_buffer("sin", torch.empty(LENGTH, ROPE), persistent=False)

    def forward(self, x):
        h = self.tok_embeddings(x)
        for layer in self.layers.values():
            h = layer(h, self.cos, self.sin)
        return self.output(self.norm(h))


def loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def build(mesh):
    ep = mesh["ep"]
    model = DeepSeek(ep)
    dense = mesh["dp", "ep"]._flatten("dp_ep")
    for layer in model.layers.values():
        moe = layer.feed_forward
        if isinstance(moe, MixtureOfExperts):
            for name in ("w1", "w2", "w3"):
                cut = distribute_tensor(getattr(moe.experts, name).data, ep, [Shard(0)])
                setattr(moe.experts, name, nn.Parameter(cut))
            distribute_module(moe.experts, ep)
            fully_shard(moe.experts, mesh=mesh["dp"])
        fully_shard(layer, mesh=dense)
    fully_shard(model, mesh=dense)
    tokens = torch.empty(BATCH, LENGTH, dtype=torch.int64)
    each = BATCH * LENGTH * CHOSEN // ep.size()
    return Step(model, (tokens,), loss, (torch.empty_like(tokens),), optimizers, batch_axes=("dp", "ep"),
                on_read=lambda site, shape, dtype: each, scenario="balanced")


def optimizers(parameters):
    """One for each mesh: torch does not step parameters of two meshes in one call."""
    by_mesh = {}
    for parameter in parameters:
        by_mesh.setdefault(parameter.device_mesh, []).append(parameter)
    return [torch.optim.AdamW(group, lr=3e-4, fused=True) for group in by_mesh.values()]
