"""Weights from a formula, the twin of crates/covmatch/src/encoders/weights/generated.rs, and what golden files need.

    seed = fnv1a64(key);  z_i = splitmix64(seed + (i + 1) * 0x9e3779b97f4a7c15);  u_i = (z_i >> 40) / 2^23 - 1

A golden file holds, made in float64 and stored as float32:
    features          the network's output
    grad.input        d sum(features * c) / d input, where c is uniform("cotangent")
    grad.KEY          the same for the weight KEY, at most 512 elements at flat indices floor(j * numel / 512)
    norm.KEY          the L2 norm of that whole gradient (also norm.input)
`python formula.py` prints the numbers that the Rust test of the formula expects.
"""

from pathlib import Path

import numpy as np

GOLDENS = Path(__file__).resolve().parents[2] / "crates" / "covmatch" / "tests" / "goldens"
SAMPLES = 512


def fnv1a64(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def u(key, n):
    """The n numbers u_i of a key, float64 (each exact in float32)."""
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a64(key)) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 8388608.0 - 1.0


def values(key, shape):
    """The values of the parameter `key`, float32. The rules are listed in generated.rs."""
    x = u(key, int(np.prod(shape, dtype=np.int64)))
    matrix = len(shape) >= 2
    if key.endswith("running_var"):
        x = 1.0 + 0.5 * np.abs(x)
    elif key.endswith("running_mean"):
        x = 0.1 * x
    elif matrix and key.endswith("gain"):
        x = 1.0 + 0.1 * x
    elif matrix and "embed" in key and "patch_embed" not in key:
        x = 0.5 * x
    elif matrix:
        x = np.sqrt(3.0 / np.prod(shape[1:], dtype=np.int64)) * x
    elif key.endswith("weight"):
        x = 1.0 + 0.1 * x
    else:
        x = 0.1 * x
    return x.astype(np.float32).reshape(shape)


def fill(module):
    """Fills a PyTorch module with the formula's values and turns it to float64, in evaluation mode."""
    import torch

    module = module.double().eval()
    with torch.no_grad():
        for key, tensor in module.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_(torch.from_numpy(values(key, tuple(tensor.shape))))
    return module


def uniform(key, shape):
    """u_i of a key as a float64 tensor: inputs and cotangents."""
    import torch

    return torch.from_numpy(u(key, int(np.prod(shape, dtype=np.int64))).reshape(shape))


def sampled(tensor, count=SAMPLES):
    """At most `count` elements, at flat indices floor(j * numel / count)."""
    flat = tensor.detach().reshape(-1)
    if flat.numel() <= count:
        return flat
    import torch

    return flat[torch.arange(count) * flat.numel() // count]


def gradients(features, targets, retain_graph=False):
    """The entries grad.KEY and norm.KEY of d sum(features * c) for `targets`, a dict of name to leaf tensor."""
    import torch

    loss = (features * uniform("cotangent", tuple(features.shape))).sum()
    grads = torch.autograd.grad(loss, list(targets.values()), retain_graph=retain_graph)
    entries = {}
    for name, grad in zip(targets, grads):
        entries[f"grad.{name}"] = sampled(grad)
        entries[f"norm.{name}"] = grad.norm().reshape(1)
    return entries


def write(name, entries):
    """Writes the golden file NAME.safetensors (float32; integers stay int32; bytes stay bytes)."""
    import torch
    from safetensors.torch import save_file

    def stored(t):
        t = torch.as_tensor(t).detach()
        if t.is_floating_point():
            return t.float().contiguous()
        return (t if t.dtype == torch.uint8 else t.int()).contiguous()

    GOLDENS.mkdir(parents=True, exist_ok=True)
    path = GOLDENS / f"{name}.safetensors"
    save_file({key: stored(t) for key, t in entries.items()}, str(path))
    path.chmod(0o644)  # save_file makes it private
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    rows = [
        ("INPUT", u("input", 3).astype(np.float32)),
        ("CONV", values("conv.weight", (2, 3, 1, 1))),
        ("VARIANCE", values("bn.running_var", (4,))),
        ("MEAN", values("bn.running_mean", (4,))),
        ("SCALE", values("bn.weight", (4,))),
        ("BIAS", values("bn.bias", (4,))),
        ("GAIN", values("conv.gain", (4, 1, 1, 1))),
        ("EMBEDDING", values("word_embeddings.weight", (4, 2))),
        ("PATCH", values("patch_embed.proj.weight", (1, 3, 2, 2))),
    ]
    for name, x in rows:
        print(f"    const {name}: [f32; 3] = [{', '.join(str(v) for v in x.reshape(-1)[:3])}];")
