#!/usr/bin/env python3
"""What `covmatch bench encoder` measures, on PyTorch.

    python python/bench_peer.py nfnet_l0 --batch 8 --size 224 --threads 2
    python python/bench_peer.py nfnet_l0 --batch 8 --size 224 --threads 2 --channels-last
    python python/bench_peer.py bert-base-uncased --batch 16 --tokens 32 --threads 2 --attention sdpa

Needs torch, timm, torchvision and transformers. Prints one JSON object with the keys of `covmatch bench encoder --json`:
median seconds of the forward pass (`forward`, no autograd), of forward and backward to the input with frozen weights
(`backward_input`), and of forward and backward to the weights with an untracked input (`backward_weights`). `peak_mb`
is the peak of the process, `base_mb` what the interpreter and the libraries hold before the network is built.

Weights are random, the networks are in eval mode (no dropout; batch norm uses its running statistics, while its scale
and shift are trained). Text encoders are the transformer layers: the input is already embedded, every token is
attended to, and the feature is the first token's output.
"""

import argparse
import importlib
import json
import statistics
import sys
import time

import torch

PHASES = ("forward", "backward_input", "backward_weights")

# name -> (library, the library's name, default image size)
IMAGE = {
    "nfnet_l0": ("timm", "nfnet_l0", 224),
    "nf_resnet50": ("timm", "nf_resnet50", 256),
    "nf_regnet_b1": ("timm", "nf_regnet_b1", 256),
    "vit_base_patch16_224": ("timm", "vit_base_patch16_224", 224),
    "vit_tiny_patch16_224": ("timm", "vit_tiny_patch16_224", 224),
    "efficientnet_lite0": ("timm", "tf_efficientnet_lite0", 224),
    "efficientnet_lite1": ("timm", "tf_efficientnet_lite1", 240),
    "efficientnet_lite2": ("timm", "tf_efficientnet_lite2", 260),
    "mobilenetv2_100": ("torchvision", "mobilenet_v2", 224),
    "squeezenet1_1": ("torchvision", "squeezenet1_1", 224),
}

# name -> the fields of its BertConfig that differ from bert-base
MINILM = dict(hidden_size=384, num_attention_heads=12, intermediate_size=1536)
TEXT = {
    "bert-base-uncased": {},
    "distilbert-base-uncased": dict(num_hidden_layers=6),  # the same layers as BERT's, six of them
    "minilm-l6": dict(num_hidden_layers=6, **MINILM),
    "minilm-l3": dict(num_hidden_layers=3, **MINILM),
    "bert_scenes": dict(num_hidden_layers=2, hidden_size=128, num_attention_heads=4, intermediate_size=512),
}


class Pooled(torch.nn.Module):
    """The features of a torchvision classifier: global average of the last feature map."""

    def __init__(self, features):
        super().__init__()
        self.features = features

    def forward(self, pixels):
        return self.features(pixels).mean((2, 3))


class Transformer(torch.nn.Module):
    """The layers of a BERT, embedded input to the first token's output."""

    def __init__(self, overrides, attention):
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(attn_implementation=attention, **overrides)
        self.layers = BertModel(config, add_pooling_layer=False).encoder

    def forward(self, embedded):
        # No mask is what transformers itself passes when every token is attended to.
        return self.layers(embedded).last_hidden_state[:, 0]


class Autocast(torch.nn.Module):
    """A network under autocast to bf16."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.network(x)


def library(name):
    """The library that has the encoder."""
    if name in TEXT:
        return "transformers.models.bert.modeling_bert"
    return "torchvision" if name == "r3d_18" else IMAGE[name][0]


def build(args):
    """The network in eval mode and its input."""
    if args.name in TEXT:
        model = Transformer(TEXT[args.name], args.attention)
        width = TEXT[args.name].get("hidden_size", 768)
        return model.eval(), torch.rand(args.batch, args.tokens, width) * 2 - 1
    if args.name == "r3d_18":
        from torchvision.models.video import r3d_18

        model = r3d_18(weights=None)
        model.fc = torch.nn.Identity()
        pixels = torch.rand(args.batch, 3, args.frames, args.size, args.size) * 2 - 1
        layout = torch.channels_last_3d
    else:
        library, name, _ = IMAGE[args.name]
        if library == "timm":
            import timm

            sized = dict(img_size=args.size) if name.startswith("vit") else {}
            model = timm.create_model(name, pretrained=False, num_classes=0, **sized)
        else:
            import torchvision

            model = Pooled(getattr(torchvision.models, name)(weights=None).features)
        pixels = torch.rand(args.batch, 3, args.size, args.size) * 2 - 1
        layout = torch.channels_last
    if args.channels_last:
        model, pixels = model.to(memory_format=layout), pixels.to(memory_format=layout)
    return model.eval(), pixels


def runner(phase, model, x):
    """A function that runs one iteration of `phase` and leaves no gradient behind."""
    if phase == "forward":
        model.requires_grad_(False)

        @torch.no_grad()
        def run():
            model(x)

        return run

    model.requires_grad_(phase == "backward_weights")
    x = x.clone(memory_format=torch.preserve_format).requires_grad_(phase == "backward_input")
    with torch.no_grad():
        cotangent = torch.rand_like(model(x)) * 2 - 1

    def run():
        model(x).backward(cotangent)
        x.grad = None
        model.zero_grad(set_to_none=True)

    return run


def median_seconds(run, warmup, iterations):
    times = []
    for i in range(warmup + iterations):
        start = time.perf_counter()
        run()
        if i >= warmup:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def status_mb(field):
    """A memory field of this process in MB (10^6 bytes)."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit(f"error: /proc/self/status has no {field}; this script needs Linux")


def forward_flops(model, x):
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(x)
    return counter.get_total_flops()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*IMAGE, "r3d_18", *TEXT])
    parser.add_argument("--batch", type=int)
    parser.add_argument("--size", type=int, help="side of the images in pixels")
    parser.add_argument("--frames", type=int, default=16, help="frames of a clip")
    parser.add_argument("--tokens", type=int, default=32, help="length of the captions")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=PHASES, help="measure one phase, so that peak_mb is the phase's own")
    parser.add_argument("--channels-last", action="store_true", help="image encoders: channels-last weights and pixels")
    parser.add_argument("--attention", choices=("eager", "sdpa"), default="sdpa", help="text encoders")
    parser.add_argument("--autocast", action="store_true", help="under autocast to bf16")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--serve", action="store_true", help="measure once for every line on stdin")
    args = parser.parse_args()
    text = args.name in TEXT
    args.batch = args.batch or (16 if text else 8)
    args.size = args.size or (112 if args.name == "r3d_18" else IMAGE.get(args.name, (0, 0, 224))[2])

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    importlib.import_module(library(args.name))
    base_mb = status_mb("VmRSS")
    model, x = build(args)
    report = dict(name=args.name, batch=args.batch, threads=torch.get_num_threads(), torch=torch.__version__)
    if text:
        report.update(tokens=args.tokens, variant=args.attention)
    else:
        report.update(size=args.size, variant="channels_last" if args.channels_last else "eager")
    report.update(autocast=args.autocast, compiled=args.compile)
    flops = forward_flops(model, x)
    model = Autocast(model) if args.autocast else model
    model = torch.compile(model) if args.compile else model
    runners = {phase: runner(phase, model, x) for phase in PHASES if args.only in (None, phase)}
    for _ in sys.stdin if args.serve else [None]:
        for phase, run in runners.items():
            report[phase] = median_seconds(run, args.warmup, args.iterations)
        report.update(peak_mb=status_mb("VmHWM"), base_mb=base_mb)
        if "forward" in report:
            report["gflops"] = flops / report["forward"] / 1e9
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
