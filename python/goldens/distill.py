"""Golden values of the distillation, made with plain PyTorch, timm and transformers: `python distill.py [NAME ...]`.

A pair of encoders with two heads of width 64, all filled by formula.py under the keys `visual.KEY`, `text.KEY`,
`image_head.KEY` and `text_head.KEY`. Everything is in evaluation mode: no dropout, batch norms keep their statistics
while their scale and shift are trained. The kernels of EfficientNet are 1.5 times the formula's, without which its
features hardly depend on the pixels. Images are 32 x 32; pixels and embedded captions of a batch B are
uniform("B.pixels") and uniform("B.text"), B being `synthetic`, `real.STEP`, `online.STEP`.

Writes crates/covmatch/tests/goldens/distill_NAME_*.safetensors, made in float64 and stored as float32:
    match      one matching step: losses [3] (L_cov, L_feat_v, L_feat_l), grad.pixels and grad.text of
               L = L_cov + lambda (L_feat_v + L_feat_l)
    steps      STEPS steps, each of them a matching step with SGD on the pairs and a step of InfoNCE with SGD on the
               model: losses [STEPS, 4] (the three, InfoNCE), moved.pixels and moved.text: after less before
    rows       the same, each step matching the pairs rows [STEPS, 4] only, the others moving on with their momentum
    waypoint   what a waypoint of WayMatch asks of the pairs: losses [5] (real pairs under fitted heads, covariance, L_feat_v,
               L_feat_l, InfoNCE of the pairs), grad.pixels and grad.text of their sum weighted by WEIGHTS
    info_nce   loss of the batch `online.0`, grad.KEY and norm.KEY of the heads, as formula.py lists
Of pixels and text (grad and moved), 4096 elements at flat indices floor(j * numel / 4096), and norm.* of each pair.
Each file has what the test needs to repeat it: masks, learning rates, rho and lambda.

Float32 is computed too, and its deviation from float64 printed: what the tolerance of the test has to leave room for.
"""

import copy
import functools
import sys

import timm
import torch
from torch import nn
from torch.nn import functional as F

import formula
import text
from projection import Head

SIZE, WIDTH, STEPS, SAMPLES = 32, 64, 10, 4096
RHO, LAMBDA, TAU = 2.0, 0.1, 0.07
SYNTHETIC = [9, 5, 7, 9, 6, 8]  # tokens of each caption; the rest is padding
REAL = [7, 8, 5, 6, 8, 5, 7, 8]
# Rows of each step: pair 5 waits until the sixth, pair 0 rests from the third to the fifth.
ROWS = [[0, 1, 2, 3], [3, 0, 4, 1], [1, 2, 3, 4], [4, 3, 2, 1], [2, 1, 4, 3],
        [5, 0, 1, 2], [0, 5, 3, 4], [5, 4, 3, 2], [1, 5, 0, 2], [0, 2, 4, 5]]

# name: (image encoder of timm, factor of its kernels, text encoder of text.py, pooling)
CASES = {
    "efficientnet_lite0": ("tf_efficientnet_lite0", 1.5, "minilm-l3", "cls"),
    "nfnet_l0": ("nfnet_l0", 1.0, "minilm-l6", "mean"),
}
# name: the files. ReLU6 has kinks: probably, over ten steps some activations of EfficientNet come so close to one that
# rounding to float32 pushes them over, and gradients jump. PyTorch in float32 is then up to 1e-1 from PyTorch in float64, or
# 3e-4 with another number of threads. Many steps are therefore followed with the smooth NFNet only.
KINDS = {
    "efficientnet_lite0": ["match", "waypoint", "info_nce"],
    "nfnet_l0": ["match", "steps", "rows", "waypoint", "info_nce"],
}
LR_IMG, LR_TXT = 0.007, 0.01  # of the pairs
WEIGHTS = [1.0, 0.5, 0.1, 0.1, 0.3]  # of the terms of a waypoint
RIDGE = 0.7  # of the heads that are fitted to the pairs


def info_nce(z_v, z_l):
    logits, target = F.normalize(z_v, dim=1) @ F.normalize(z_l, dim=1).t() / TAU, torch.arange(len(z_v))
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2


class Model(nn.Module):
    def __init__(self, image_encoder, text_encoder, pooling):
        super().__init__()
        self.visual = timm.create_model(image_encoder, num_classes=0)
        self.text = text.CASES[text_encoder][0]()
        self.image_head = Head(2, self.visual.num_features, WIDTH)
        self.text_head = Head(2, self.text.config.hidden_size, WIDTH)
        self.text.embeddings.requires_grad_(False)
        self.pooling = pooling

    def features(self, pixels, embedded, mask):
        bias = (1.0 - mask)[:, None, None, :] * torch.finfo(mask.dtype).min
        hidden = self.text.encoder(embedded, attention_mask=bias).last_hidden_state
        weights = mask[:, :, None]
        pooled = hidden[:, 0] if self.pooling == "cls" else (hidden * weights).sum(1) / weights.sum(1)
        return self.visual(pixels), pooled

    def info_nce(self, batch):
        h_v, h_l = self.features(*batch)
        return info_nce(self.image_head(h_v), self.text_head(h_l))

    def optimizer(self):
        encoders = [p for part in (self.visual, self.text) for p in part.parameters() if p.requires_grad]
        heads = [*self.image_head.parameters(), *self.text_head.parameters()]
        groups = [{"params": encoders, "lr": 0.01}, {"params": heads, "lr": 0.1}]
        return torch.optim.SGD(groups, momentum=0.9, weight_decay=5e-4)


@functools.cache
def filled(case):
    image_encoder, factor, text_encoder, pooling = CASES[case]
    model = formula.fill(Model(image_encoder, text_encoder, pooling))
    with torch.no_grad():
        for weight in model.visual.parameters():
            if weight.dim() == 4:
                weight.copy_(factor * weight.float())  # rounded to float32
    return model


def mask_of(lengths):
    return torch.tensor([[1.0] * n + [0.0] * (max(lengths) - n) for n in lengths], dtype=torch.float64)


def batch(name, lengths, width, dtype):
    """Pixels, embedded captions and mask of the batch `name`."""
    pixels = formula.uniform(f"{name}.pixels", (len(lengths), 3, SIZE, SIZE))
    embedded = formula.uniform(f"{name}.text", (len(lengths), max(lengths), width))
    return [t.to(dtype) for t in (pixels, embedded, mask_of(lengths))]


def cross_covariance(h_v, h_l):
    return (h_v - h_v.mean(0)).t() @ (h_l - h_l.mean(0)) / (len(h_v) - 1)


def matching_losses(model, real, synthetic):
    """L_cov, L_feat_v, L_feat_l."""
    with torch.no_grad():
        t_v, t_l = model.features(*real)
        c_t, m_v, m_l = cross_covariance(t_v, t_l), model.image_head(t_v).mean(0), model.text_head(t_l).mean(0)
    s_v, s_l = model.features(*synthetic)
    cov = (RHO * c_t - cross_covariance(s_v, s_l)).square().sum()
    feat_v = (m_v - model.image_head(s_v).mean(0)).square().sum()
    feat_l = (m_l - model.text_head(s_l).mean(0)).square().sum()
    return torch.stack([cov, feat_v, feat_l])


def fitted(s, t):
    """What the heads that ridge regression fits to the number of each pair, of features `s`, say of the features `t`."""
    x, n = s - s.mean(0), len(s)
    ridge = RIDGE * x.square().sum() / n**2 * torch.eye(x.shape[1], dtype=x.dtype)
    heads = torch.linalg.solve(x.t() @ x / n + ridge, x.t())  # [d, n]
    return (t - t.mean(0)) @ heads


def waypoint_losses(model, real, synthetic):
    """The terms of a waypoint whose data is the batch `real`."""
    with torch.no_grad():
        t_v, t_l = model.features(*real)
        c_t, m_v, m_l = cross_covariance(t_v, t_l), model.image_head(t_v).mean(0), model.text_head(t_l).mean(0)
    s_v, s_l = model.features(*synthetic)
    return torch.stack([
        info_nce(fitted(s_v, t_v), fitted(s_l, t_l)),
        (RHO * c_t - cross_covariance(s_v, s_l)).square().sum() / c_t.square().sum(),
        (m_v - model.image_head(s_v).mean(0)).square().sum(),
        (m_l - model.text_head(s_l).mean(0)).square().sum(),
        model.info_nce(synthetic),
    ])


class Distillation:
    """The model and the synthetic pairs at the beginning, in `dtype`."""

    def __init__(self, case, dtype):
        self.model = copy.deepcopy(filled(case)).to(dtype)
        self.width, self.dtype = self.model.text.config.hidden_size, dtype
        self.pixels, self.text, self.mask = self.batch("synthetic", SYNTHETIC)
        self.initial = self.pixels.clone(), self.text.clone()
        self.pixels.requires_grad_(), self.text.requires_grad_()

    def batch(self, name, lengths=REAL):
        return batch(name, lengths, self.width, self.dtype)

    def match(self, step, rows=slice(None)):
        """Losses of a step and the gradients of pixels and text; rows that take no part have gradient zero."""
        synthetic = self.pixels[rows], self.text[rows], self.mask[rows]
        losses = matching_losses(self.model, self.batch(f"real.{step}"), synthetic)
        total = losses[0] + LAMBDA * (losses[1] + losses[2])
        return losses.detach(), torch.autograd.grad(total, [self.pixels, self.text])

    def at_waypoint(self):
        """Losses of a step of WayMatch and the gradients of pixels and text."""
        losses = waypoint_losses(self.model, self.batch("real.0"), (self.pixels, self.text, self.mask))
        total = sum(weight * loss for weight, loss in zip(WEIGHTS, losses))
        return losses.detach(), torch.autograd.grad(total, [self.pixels, self.text])

    def run(self, rows=None):
        """Losses of all steps, and by how much pixels and text moved."""
        groups = [{"params": [self.pixels], "lr": LR_IMG}, {"params": [self.text], "lr": LR_TXT}]
        pairs, online = torch.optim.SGD(groups, momentum=0.5), self.model.optimizer()
        history = []
        for step in range(STEPS):
            losses, gradients = self.match(step, rows[step] if rows else slice(None))
            self.pixels.grad, self.text.grad = gradients
            pairs.step()
            online.zero_grad()
            info_nce = self.model.info_nce(self.batch(f"online.{step}"))
            info_nce.backward()
            online.step()
            history.append([*losses.tolist(), info_nce.item()])
        moved = (self.pixels.detach() - self.initial[0], self.text.detach() - self.initial[1])
        return torch.tensor(history, dtype=torch.float64), moved

    def info_nce(self):
        """Loss of the batch `online.0` and the gradients of the heads by key."""
        heads = {k: p for k, p in self.model.named_parameters() if k.split(".")[0].endswith("_head")}
        loss = self.model.info_nce(self.batch("online.0"))
        return loss.detach().reshape(1), dict(zip(heads, torch.autograd.grad(loss, list(heads.values()))))


def of_pairs(kind, tensors):
    """The entries KIND.* and norm.* of pixels and text."""
    entries = {}
    for name, tensor in zip(("pixels", "text"), tensors):
        entries[f"{kind}.{name}"] = formula.sampled(tensor, SAMPLES)
        entries[f"norm.{name}"] = tensor.flatten(1).norm(dim=1)
    return entries


def of_weights(gradients):
    samples = {f"grad.{key}": formula.sampled(grad) for key, grad in gradients.items()}
    return samples | {f"norm.{key}": grad.norm().reshape(1) for key, grad in gradients.items()}


def entries(case, kind, dtype):
    distillation = Distillation(case, dtype)
    if kind == "info_nce":
        loss, gradients = distillation.info_nce()
        return {"loss": loss} | of_weights(gradients)
    if kind == "match":
        losses, gradients = distillation.match(0)
        return {"losses": losses} | of_pairs("grad", gradients)
    if kind == "waypoint":
        losses, gradients = distillation.at_waypoint()
        return {"losses": losses} | of_pairs("grad", gradients)
    losses, moved = distillation.run(ROWS if kind == "rows" else None)
    return {"losses": losses} | of_pairs("moved", moved)


def deviation(key, found, expected):
    """The largest difference as the test measures it: losses each by themselves, the rest by the largest element."""
    difference, size = (found.double() - expected).abs(), expected.abs()
    return (difference / size).max() if key.startswith("loss") else difference.max() / size.max()


def golden(case):
    settings = {
        "synthetic_mask": mask_of(SYNTHETIC),
        "real_mask": mask_of(REAL),
        "pair_rates": torch.tensor([LR_IMG, LR_TXT]),
        "objective": torch.tensor([RHO, LAMBDA]),
    }
    for kind in KINDS[case]:
        exact, single = entries(case, kind, torch.float64), entries(case, kind, torch.float32)
        print(f"{case} {kind}: float32 deviates by")
        print("   ", ", ".join(f"{key} {deviation(key, single[key], exact[key]):.0e}" for key in exact))
        if "losses" in exact:
            print("    losses\n", exact["losses"].reshape(-1, exact["losses"].shape[-1]))
        if kind in ("steps", "rows"):
            largest = [f"{exact[f'moved.{name}'].abs().max():.2g}" for name in ("pixels", "text")]
            print("    pixels and text moved by at most", *largest)
        rows = {"rows": torch.tensor(ROWS)} if kind == "rows" else {}
        weights = {"weights": torch.tensor(WEIGHTS), "ridge": torch.tensor([RIDGE])} if kind == "waypoint" else {}
        formula.write(f"distill_{case}_{kind}", exact | settings | rows | weights)


if __name__ == "__main__":
    torch.set_printoptions(sci_mode=False, precision=5, linewidth=120)
    for name in sys.argv[1:] or CASES:
        golden(name)
