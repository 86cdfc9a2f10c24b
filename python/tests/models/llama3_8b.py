"""LLaMA-3 8B as one device runs it, for the solver to lay over many."""
import torch

import llama
from tessera_trace import Step

llama.LAYERS, llama.DIM, llama.HEADS, llama.KV_HEADS = 32, 4096, 32, 8
llama.HIDDEN, llama.VOCABULARY, llama.LENGTH = 14336, 128256, 8192
BATCH = 64


def loss(logits, labels):
    """A cross-entropy of ops that may run on a cut vocabulary."""
    return -logits.float().log_softmax(-1).gather(-1, labels.unsqueeze(-1)).mean()


def build(mesh):
    model = llama.Llama(layers=range(llama.LAYERS)).to(torch.bfloat16)
    tokens = torch.empty(BATCH, llama.LENGTH, dtype=torch.int64)
    return Step(model, (tokens,), loss, (torch.empty_like(tokens),), llama.adamw)
