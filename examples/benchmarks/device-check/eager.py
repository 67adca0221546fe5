"""Times PyTorch's eager training steps for the models of the device check.

python3 eager.py DEVICE SIZE, with DEVICE cuda or cpu and SIZE full or small: one line of JSON per
model and precision, with the milliseconds of a step.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

DEVICE, SIZE = sys.argv[1], sys.argv[2]
FULL = SIZE == "full"


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(64)
        self.fc1 = nn.Linear(64 * 7 * 7, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.out = nn.Linear(4 * width, width)

    def forward(self, x):
        n, tokens, width = x.shape
        parts = self.qkv(self.ln1(x)).view(n, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(n, tokens, width))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, vocab, context, width, heads, layers):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.ln_f(self.blocks(x)))


def cnn():
    rows = 512 if FULL else 8
    return Cnn(), torch.randn(rows, 1, 28, 28), torch.arange(rows) % 10


def gpt():
    vocab, shape = (8192, (16, 256)) if FULL else (64, (2, 16))
    model = Gpt(8192, 256, 768, 12, 12) if FULL else Gpt(64, 16, 32, 4, 2)
    tokens = (torch.arange(shape[0] * shape[1]) % vocab).view(shape)
    return model, tokens, tokens


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def measure(make, half):
    model, x, y = make()
    model, x, y = model.to(DEVICE), x.to(DEVICE), y.to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=half):
            output = model(x)
        output = output.float()
        F.cross_entropy(output.flatten(0, -2), y.flatten()).backward()
        optimizer.step()

    steps = 50 if FULL and DEVICE == "cuda" else 3
    for _ in range(steps // 3 + 1):
        step()
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    wait()
    return (time.perf_counter() - start) * 1000 / steps


for name, make in (("cnn", cnn), ("gpt", gpt)):
    for precision in ("none", "bf16"):
        milliseconds = measure(make, precision == "bf16")
        print(
            json.dumps(
                {
                    "torch": torch.__version__,
                    "model": name,
                    "precision": precision,
                    "milliseconds": milliseconds,
                }
            ),
            flush=True,
        )
