"""Golden values of trajectory matching, made with PyTorch's double backward: `python trajectory.py [NAME ...]`.

The model is, unless said otherwise, `nfnet_l0` of distill.py (NFNet-L0, MiniLM-L6 with mean pooling, two heads of width 64, all filled by
formula.py), without dropout. A student starts at the formula's weights and takes STEPS steps on ROWS of the pairs
`synthetic`; the expert is at w + DISTANCE rms(w) uniform("target.KEY") for each trained weight w = KEY.

NAME is
    mtt       InfoNCE, gradients through all steps; the text encoder is frozen
    mtt_both  the same with a trained text encoder (its transformer layers)
    lors      weighted binary cross-entropy against a similarity of rank 2 (a = 1 + uniform("a") / 4, L = uniform("L"),
              R = uniform("R") / 2), each step alone; captions are sentence features uniform("synthetic.features")
    lors_merged  the same with one denominator for both sides
    mtt_relu6, lors_relu6  mtt and lors with `efficientnet_lite0` of distill.py (EfficientNet-Lite0, MiniLM-L3, CLS), whose
              ReLU6 has kinks: double backward differentiates the piece that each unit is on
    way, way_relu6  what WayMatch says of the way to the expert, a cosine for each encoder and head, on all pairs with InfoNCE
              and a trained text encoder: loss [1], cosines [4] (image encoder, image head, text encoder, text head), and
              gradients as below

Writes crates/covmatch/tests/goldens/trajectory_NAME.safetensors, made in float64 and stored as float32: loss [2] of
the image and of the text side, grad.rates [2], grad.pixels and grad.text (4096 elements at flat indices
floor(j * numel / 4096)), norm.pixels and norm.text of each pair, grad.a, grad.L, grad.R, and the settings.
"""

import copy
import sys

import torch
from torch.func import functional_call
from torch.nn import functional as F

import distill
import formula

STEPS, DISTANCE, TAU, ALPHA, RANK = 3, 2e-3, 0.07, 3.0, 2
ROWS = [[0, 3, 5, 1], [4, 2, 1, 0], [5, 3, 2, 4]]
RATES = {"image": 0.01, "text": 0.002}
CASES = ["mtt", "mtt_both", "lors", "lors_merged", "mtt_relu6", "lors_relu6", "way", "way_relu6"]


def side(key):
    return "image" if key.startswith(("visual.", "image_head.")) else "text"


def trained(model, case):
    frozen = ("text.embeddings.",) if case == "mtt_both" or case.startswith("way") else ("text.",)
    unused = ("text.pooler.",)
    return {k: p for k, p in model.named_parameters() if p.requires_grad and not k.startswith(frozen + unused)}


def expert(weights):
    """Where the student is to arrive."""
    return {k: w + DISTANCE * w.square().mean().sqrt() * formula.uniform(f"target.{k}", w.shape).to(w) for k, w in weights.items()}


class Student(torch.nn.Module):
    """The loss of some pairs as a function of the weights."""

    def __init__(self, model, case):
        super().__init__()
        self.model, self.case = model, case

    def forward(self, pixels, text, mask, similarity):
        model = self.model
        if self.case.startswith("lors"):
            h_v, h_l = model.visual(pixels), text
        else:
            h_v, h_l = model.features(pixels, text, mask)
        z_v, z_l = F.normalize(model.image_head(h_v), dim=1), F.normalize(model.text_head(h_l), dim=1)
        logits = z_v @ z_l.t() / TAU
        if similarity is None:
            target = torch.arange(len(logits))
            return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
        p = torch.sigmoid(logits)
        losses = -similarity * torch.log(p + 1e-6) - (1 - similarity) * torch.log(1 - p + 1e-6)
        positive = (similarity > 0.5).detach().to(losses)
        mean = lambda chosen: (losses * chosen).sum() / (chosen.sum() + 1e-6)
        return (mean(positive) + mean(1 - positive)) / 2


def squares(vector):
    return {s: sum(v.square().sum() for k, v in vector.items() if side(k) == s) for s in RATES}


def golden(case, unroll=None):
    """All values; `unroll` overrides how far gradients reach."""
    unroll = unroll or ("constant" if case.startswith("lors") else "full")
    network = "efficientnet_lite0" if case.endswith("relu6") else "nfnet_l0"
    model = copy.deepcopy(distill.filled(network)).double().eval()
    student = Student(model, case)
    pixels, text, mask = distill.batch("synthetic", distill.SYNTHETIC, model.text.config.hidden_size, torch.float64)
    n, learned = len(pixels), {"pixels": pixels}
    if case.startswith("lors"):
        text = formula.uniform("synthetic.features", (n, model.text.config.hidden_size)).double()
        learned["a"] = 1 + formula.uniform("a", (n,)).double() / 4
        learned["L"] = formula.uniform("L", (n, RANK)).double()
        learned["R"] = formula.uniform("R", (n, RANK)).double() / 2
    learned["text"] = text
    learned["rates"] = torch.tensor(list(RATES.values()), dtype=torch.float64)
    for tensor in learned.values():
        tensor.requires_grad_()
    eta = dict(zip(RATES, learned["rates"]))

    def loss_at(theta, rows):
        similarity = None
        if "a" in learned:
            low_rank = ALPHA / RANK * learned["L"][rows] @ learned["R"][rows].t()
            similarity = torch.diag(learned["a"][rows]) + low_rank
        arguments = learned["pixels"][rows], learned["text"][rows], mask[rows], similarity
        return functional_call(student, {f"model.{k}": w for k, w in theta.items()}, arguments)

    start = {k: p.detach().clone().requires_grad_() for k, p in trained(model, case).items()}
    target, theta = {k: w.detach() for k, w in expert(start).items()}, start
    end = dict(start)
    for rows in ROWS:
        here = theta if unroll == "full" else {k: w.detach().requires_grad_() for k, w in theta.items()}
        gradients = torch.autograd.grad(loss_at(here, rows), list(here.values()), create_graph=True)
        move = {k: eta[side(k)] * g for (k, g) in zip(here, gradients)}
        end = {k: end[k] - move[k] for k in end}
        theta = end
    way, missing = squares({k: start[k].detach() - target[k] for k in start}), squares({k: end[k] - target[k] for k in end})
    both = sum(way.values())
    loss = {s: missing[s] / (both if case == "lors_merged" else way[s]) for s in RATES}
    gradients = dict(zip(learned, torch.autograd.grad(sum(loss.values()), list(learned.values()), retain_graph=True)))
    if case == "lors_merged":  # rates are judged by their own side
        own = sum(missing[s] / way[s] for s in RATES)
        gradients["rates"] = torch.autograd.grad(own, learned["rates"])[0]
    entries = {"loss": torch.stack([loss[s] for s in RATES]).detach()}
    for name, gradient in gradients.items():
        if name in ("pixels", "text"):
            entries[f"norm.{name}"] = gradient.flatten(1).norm(dim=1)
            entries[f"grad.{name}"] = formula.sampled(gradient, distill.SAMPLES) if gradient.numel() > distill.SAMPLES else gradient.flatten()
        else:
            entries[f"grad.{name}"] = gradient.flatten()
    return entries


def way_golden(case):
    """The cosines of the gradient with the way to the expert, and the gradients of their mean distance from 1."""
    model = copy.deepcopy(distill.filled("efficientnet_lite0" if case.endswith("relu6") else "nfnet_l0")).double().eval()
    pixels, text, mask = distill.batch("synthetic", distill.SYNTHETIC, model.text.config.hidden_size, torch.float64)
    pixels.requires_grad_(), text.requires_grad_()
    start = {k: p.detach().clone().requires_grad_() for k, p in trained(model, case).items()}
    target = expert(start)
    weights = {f"model.{k}": w for k, w in start.items()}
    loss = functional_call(Student(model, case), weights, (pixels, text, mask, None))
    gradients = dict(zip(start, torch.autograd.grad(loss, list(start.values()), create_graph=True)))
    cosines = []
    for part in ("visual.", "image_head.", "text.", "text_head."):
        keys = [k for k in start if k.startswith(part)]
        v = torch.cat([(target[k] - start[k]).detach().flatten() for k in keys])
        cosines.append(F.cosine_similarity(-torch.cat([gradients[k].flatten() for k in keys]), v, dim=0))
    loss = 1 - torch.stack(cosines).mean()
    entries = {"loss": loss.detach().reshape(1), "cosines": torch.stack(cosines).detach()}
    for name, gradient in zip(("pixels", "text"), torch.autograd.grad(loss, [pixels, text])):
        entries[f"grad.{name}"] = formula.sampled(gradient, distill.SAMPLES)
        entries[f"norm.{name}"] = gradient.flatten(1).norm(dim=1)
    return entries


def cosine(a, b):
    return (a @ b / a.norm() / b.norm()).item()


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        if name.startswith("way"):
            entries = way_golden(name)
            print(name, "loss", entries["loss"].item(), "cosines", entries["cosines"].tolist())
            settings = {"mask": distill.mask_of(distill.SYNTHETIC), "constants": torch.tensor([DISTANCE, TAU])}
            formula.write(f"trajectory_{name}", entries | settings)
            continue
        entries = golden(name)
        print(name, "loss", entries["loss"].tolist(), "rates", entries["grad.rates"].tolist())
        if name.startswith("mtt") and name != "mtt_both":  # the two unrolls can be told apart
            other = golden(name, "constant")
            print("    cosine with each step alone:", *(f"{k} {cosine(entries[k], other[k]):.4f}" for k in ("grad.pixels", "grad.text")))
        settings = {
            "mask": distill.mask_of(distill.SYNTHETIC),
            "rows": torch.tensor(ROWS),
            "eta": torch.tensor(list(RATES.values())),
            "constants": torch.tensor([DISTANCE, TAU, ALPHA]),
        }
        formula.write(f"trajectory_{name}", entries | settings)
