#!/usr/bin/env python3
"""Tokens per second of training: this engine on one rank and on eight, and plain PyTorch, in turns on one machine.

Usage: benchmarks/train_beside_torch.py [--device cpu|cuda] [--config FILE] [--dtype F32|BF16] [--rounds N] [--steps N]
                                        [--threads N] [--programs FOLDER]

Needs PyTorch (pip install torch). Each round runs every contestant in a process of its own: forward, backward, clipping
and AdamW on random tokens (PyTorch) or real text (the engine); steps that make ready are not counted. PyTorch has no distribution to pay
for, its values padded to the width of the keys (its fused attention needs that), and an allocator told to keep memory. The
table gives medians of the rounds, and ratios. On cuda both run on one card: PyTorch eager, its steps timed until the card is
done, and the engine as it is, with a bound for rows, and that captured in one graph.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def torch_model(config):
    """The mixture of experts of docs/architecture, as one writes it in PyTorch for one process."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    dim, heads = config["dim"], config["n_heads"]
    nope, rope, v_dim, rank = config["qk_nope_head_dim"], config["rope_dim"], config["v_head_dim"], config["kv_lora_rank"]

    def linear(rows_in, rows_out):
        return nn.Linear(rows_in, rows_out, bias=False)

    def rotate(x, angles):
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * angles).flatten(-2).to(x.dtype)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.wq = linear(dim, heads * (nope + rope))
            self.wkv_a = linear(dim, rank + rope)
            self.kv_norm = nn.RMSNorm(rank, eps=config["norm_eps"])
            self.wkv_b = linear(rank, heads * (nope + v_dim))
            self.wo = linear(heads * v_dim, dim)

        def forward(self, x, angles):
            batch, length, _ = x.shape
            q = self.wq(x).view(batch, length, heads, nope + rope).transpose(1, 2)
            q_nope, q_rope = q.split([nope, rope], -1)
            kv, k_rope = self.wkv_a(x).split([rank, rope], -1)
            k_rope = rotate(k_rope.unsqueeze(1), angles).expand(-1, heads, -1, -1)
            kv = self.wkv_b(self.kv_norm(kv)).view(batch, length, heads, nope + v_dim).transpose(1, 2)
            k_nope, v = kv.split([nope, v_dim], -1)
            q, k = torch.cat([q_nope, rotate(q_rope, angles)], -1), torch.cat([k_nope, k_rope], -1)
            out = F.scaled_dot_product_attention(q, k, F.pad(v, (0, nope + rope - v_dim)), is_causal=True)
            return self.wo(out[..., :v_dim].transpose(1, 2).flatten(2))

    class FeedForward(nn.Module):
        def __init__(self, hidden):
            super().__init__()
            self.w1, self.w2, self.w3 = linear(dim, hidden), linear(hidden, dim), linear(dim, hidden)

        def forward(self, x):
            return self.w2(F.silu(self.w1(x)) * self.w3(x))

    class MoE(nn.Module):
        def __init__(self):
            super().__init__()
            hidden, experts = config["moe_hidden_dim"], config["num_experts"]
            self.gate = linear(dim, experts)
            self.experts = nn.ModuleList(FeedForward(hidden) for _ in range(experts))
            self.shared = FeedForward(hidden * config["num_shared_experts"])
            self.register_buffer("bias", torch.zeros(experts))

        def forward(self, x):
            tokens = x.flatten(0, 1)
            scores = F.softmax(self.gate(tokens).float(), -1)
            top = config["router_top_k"]
            ids = (scores + self.bias).topk(top, -1).indices
            weights = scores.gather(-1, ids).flatten()
            order = ids.flatten().argsort(stable=True)
            counts = ids.flatten().bincount(minlength=len(self.experts)).tolist()
            rows = tokens[order // top].split(counts)
            done = torch.cat([expert(row) for expert, row in zip(self.experts, rows)])
            done = (done.float() * weights[order].unsqueeze(-1)).to(x.dtype)
            return self.shared(x) + torch.zeros_like(tokens).index_add(0, order // top, done).view_as(x)

    class Block(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.attention_norm = nn.RMSNorm(dim, eps=config["norm_eps"])
            self.ffn_norm = nn.RMSNorm(dim, eps=config["norm_eps"])
            self.attention = Attention()
            self.ffn = FeedForward(config["dense_hidden_dim"]) if layer < config["n_dense_layers"] else MoE()

        def forward(self, x, angles):
            x = x + self.attention(self.attention_norm(x), angles)
            return x + self.ffn(self.ffn_norm(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(config["vocab"], dim)
            self.blocks = nn.ModuleList(Block(layer) for layer in range(config["n_layers"]))
            self.norm = nn.RMSNorm(dim, eps=config["norm_eps"])
            self.head = linear(dim, config["vocab"])
            turns = config["rope_theta"] ** (-torch.arange(0, rope, 2) / rope)
            positions = torch.outer(torch.arange(config["seq"]).float(), turns)
            self.register_buffer("angles", torch.polar(torch.ones_like(positions), positions))

        def forward(self, tokens, labels):
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x, self.angles)
            return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), labels.flatten())

    torch.manual_seed(1)
    return Model()


def torch_rate(config, dtype, steps, threads, device):
    """Tokens per second of PyTorch in this process."""
    import torch
    torch.set_num_threads(threads)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    model = torch_model(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], betas=config["betas"], eps=config["eps"],
                                  weight_decay=config["weight_decay"], fused=True)
    shape = (config["batch"], config["seq"])
    seconds = []
    for _ in range(steps + 1):
        tokens = torch.randint(config["vocab"], (shape[0], shape[1] + 1), device=device)
        wait()
        start = time.perf_counter()
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "BF16"):
            loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config["max_norm"])
        optimizer.step()
        optimizer.zero_grad()
        wait()
        seconds.append(time.perf_counter() - start)
    return shape[0] * shape[1] / statistics.median(seconds[1:])


def run_torch(args):
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads),
                   "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:"
                                     "glibc.malloc.hugetlb=1"}
    command = [sys.executable, __file__, "--only-torch", "--device", args.device, "--config", args.config, "--dtype",
               args.dtype, "--steps", str(args.steps), "--threads", str(args.threads)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def run_engine(args, ranks, parallel, *flags):
    """Tokens per second of tessera-train: the median of its steps but those that make it ready."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "steps.jsonl"
        command = [str(pathlib.Path(args.programs) / "tessera-train"), "--config", args.config, "--parallel", parallel,
                   "--device", args.device, "--ranks", str(ranks), "--dtype", args.dtype, "--steps", str(args.steps + 2),
                   "--log", str(log), "--data", str(ROOT / "LICENSE"), *flags]
        if ranks == 1:
            command += ["--threads", str(args.threads)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        rates = [json.loads(line)["tokens_per_second"] for line in log.read_text().splitlines()]
    return statistics.median(rates[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default=str(ROOT / "configs" / "debug.json"))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--programs", help="where tessera-train lies (build/release/bin, or build/cuda/bin)")
    parser.add_argument("--dtype", choices=["F32", "BF16"], default="F32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="counted steps of a process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only-torch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    config = json.loads(pathlib.Path(args.config).read_text())
    if args.only_torch:
        print(torch_rate(config, args.dtype, args.steps, args.threads, args.device))
        return
    args.programs = args.programs or str(ROOT / "build" / ("release" if args.device == "cpu" else "cuda") / "bin")
    contestants = {
        "PyTorch": lambda: run_torch(args),
        "one rank": lambda: run_engine(args, 1, "{}"),
        "8 ranks (dp_shard 4, tp 2, ep 2)": lambda: run_engine(args, 8, '{"dp_shard":4,"tp":2,"ep":2}'),
    }
    if args.device == "cuda":
        rows = json.dumps({"rows_bound": config["batch"] * config["seq"] * config["router_top_k"]})
        contestants["one rank, rows bounded"] = lambda: run_engine(args, 1, rows)
        contestants["one rank, captured"] = lambda: run_engine(args, 1, rows, "--capture")
    rates = {name: [] for name in contestants}
    for _ in range(args.rounds):
        for name, contestant in contestants.items():
            rates[name].append(contestant())
            print(f"{name}: {rates[name][-1]:.0f}", file=sys.stderr, flush=True)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(f"{args.dtype}, {args.threads} threads, tokens/s; median of {args.rounds} rounds (least to most)")
    for name, values in rates.items():
        print(f"  {name:34} {medians[name]:7.0f}  ({min(values):.0f} to {max(values):.0f})  "
              f"{medians[name] / medians['PyTorch']:.2f}x PyTorch, {medians[name] / medians['one rank']:.2f}x one rank")


if __name__ == "__main__":
    main()
