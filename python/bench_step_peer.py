#!/usr/bin/env python3
"""What `covmatch bench step` measures, on PyTorch: one step of CovMatch in plain autograd.

    python python/bench_step_peer.py --image-encoder nfnet_l0 --text-encoder bert-base-uncased --real 16 --synthetic 12 \
        --size 224 --tokens 32 --channels-last --autocast

Needs torch, timm and transformers. Random weights and batches. Prints one JSON object: median seconds of the matching
step (`match_s`: real forward without autograd, synthetic forward and backward, SGD on the pairs), of the online InfoNCE
step (`online_s`, dropout on) and of both (`step_s`), and the process's peak memory (`peak_mb`).
"""

import argparse
import dataclasses
import functools
import json
import resource
import statistics
import sys
import time

import timm
import torch
from timm.models import nfnet
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel

from bench_peer import IMAGE, TEXT


class Head(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.projection, self.fc = nn.Linear(inputs, width), nn.Linear(width, width)
        self.layer_norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, x):
        p = self.projection(x)
        return self.layer_norm(p + self.dropout(self.fc(F.gelu(p))))


class FrozenBatchNorm(nn.Module):
    """Running statistics folded into a trainable scale and shift, then the activation that timm puts into the norm."""

    def __init__(self, norm):
        super().__init__()
        scale = (norm.running_var + norm.eps).rsqrt()
        self.weight = nn.Parameter(norm.weight.data * scale)
        self.bias = nn.Parameter(norm.bias.data - norm.running_mean * norm.weight.data * scale)
        self.act = getattr(norm, "act", nn.Identity())

    def forward(self, x):
        return self.act(x * self.weight[:, None, None] + self.bias[:, None, None])


def freeze_batch_norm(net):
    for name, child in net.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(net, name, FrozenBatchNorm(child))
        else:
            freeze_batch_norm(child)
    return net


def image_network(name):
    if name == "nfnet_scenes":  # timm's network in the size of the demo's
        size = dict(depths=(1, 1, 2, 1), channels=(64, 128, 256, 256), stem_chs=64, group_size=16, num_features=256)
        return nfnet.NormFreeNet(dataclasses.replace(nfnet.model_cfgs["nfnet_l0"], **size), num_classes=0)
    return freeze_batch_norm(timm.create_model(IMAGE[name][1], num_classes=0))


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.image = image_network(args.image_encoder)
        if args.channels_last:
            self.image = self.image.to(memory_format=torch.channels_last)
        config = BertConfig(attn_implementation=args.attention, **TEXT[args.text_encoder])
        self.text = BertModel(config, add_pooling_layer=False).encoder
        self.width = config.hidden_size
        self.image_head = Head(self.image.num_features, args.width)
        self.text_head = Head(self.width, args.width)
        if args.compile:
            self.compile_networks()

    def features(self, pixels, embedded):
        return self.image(pixels), self.text(embedded).last_hidden_state[:, 0]

    def project(self, h_v, h_l):
        return self.image_head(h_v), self.text_head(h_l)

    def compile_networks(self):
        self.image, self.text = torch.compile(self.image), torch.compile(self.text)


def cross_covariance(h_v, h_l):
    return (h_v - h_v.mean(0)).t() @ (h_l - h_l.mean(0)) / (len(h_v) - 1)


def match(model, real, pairs, optimizer, precision):
    model.eval().requires_grad_(False)
    with precision():
        with torch.no_grad():
            h = model.features(*real)
            c_real, means = cross_covariance(*h), [z.mean(0) for z in model.project(*h)]
        h = model.features(*pairs)
        loss = (2.0 * c_real - cross_covariance(*h)).square().sum()
        loss = loss + 0.1 * sum((m - z.mean(0)).square().sum() for m, z in zip(means, model.project(*h)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def online(model, batch, optimizer, precision):
    model.train().requires_grad_(True)
    with precision():
        z_v, z_l = (F.normalize(z, dim=1) for z in model.project(*model.features(*batch)))
        logits, labels = z_v @ z_l.t() / 0.07, torch.arange(len(z_v))
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image-encoder", default="efficientnet_lite0")
    parser.add_argument("--text-encoder", default="minilm-l6", choices=TEXT)
    numbers = dict(real=128, synthetic=100, size=96, tokens=24, width=2304, iterations=3, warmup=1, threads=2)
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--attention", default="eager", choices=["eager", "sdpa"])
    parser.add_argument("--autocast", action="store_true", help="forward passes and losses under autocast to bf16")
    parser.add_argument("--compile", action="store_true", help="both networks by torch.compile")
    parser.add_argument("--serve", action="store_true", help="measure once for every line on stdin")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    model = Model(args)
    precision = functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16, enabled=args.autocast)
    layout = torch.channels_last if args.channels_last else torch.contiguous_format

    def batch(n):
        pixels = torch.randn(n, 3, args.size, args.size).contiguous(memory_format=layout)
        return pixels, torch.randn(n, args.tokens, model.width)

    real, other, pairs = batch(args.real), batch(args.real), [x.requires_grad_() for x in batch(args.synthetic)]
    of_pairs = torch.optim.SGD(pairs, lr=1e-9, momentum=0.5)
    of_model = torch.optim.SGD(model.parameters(), lr=1e-9, momentum=0.9, weight_decay=5e-4)
    for _ in sys.stdin if args.serve else [None]:
        times = []
        for _ in range(args.warmup + args.iterations):
            start = time.perf_counter()
            match(model, real, pairs, of_pairs, precision)
            middle = time.perf_counter()
            online(model, other, of_model, precision)
            times.append((middle - start, time.perf_counter() - middle))
        match_s, online_s = (statistics.median(column) for column in zip(*times[args.warmup :]))
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        report = dict(step_s=match_s + online_s, match_s=match_s, online_s=online_s, peak_mb=peak_mb)
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
