"""A small decoder that knows nothing of ranks: what placement-audit solve is to place. `build` traces it whole on every rank."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, distribute_module

from tessera_trace import Step

DIM, HEADS, HIDDEN, VOCABULARY, LENGTH, BATCH, LAYERS = 16, 4, 32, 64, 2, 4, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).view(BATCH, LENGTH, HEADS, DIM // HEADS).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        scores = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * (DIM // HEADS) ** -0.5, -1)
        return self.wo(torch.matmul(scores, v).transpose(1, 2).reshape(BATCH, LENGTH, DIM))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Linear(DIM, HIDDEN, bias=False), nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.attention, self.feed_forward = Attention(), FeedForward()

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(DIM)
        self.output = nn.Linear(DIM, VOCABULARY, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))


def loss(output, target):
    return (output - target).pow(2).mean()


def whole(tensor, mesh):
    return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)


def build(mesh):
    model = distribute_module(Decoder(), mesh)
    tokens = whole(torch.empty(BATCH, LENGTH, dtype=torch.int64), mesh)
    return Step(model, (tokens,), loss, (whole(torch.empty(BATCH, LENGTH, VOCABULARY), mesh),))
