#!/usr/bin/env python3
"""How much of the cross-covariance of a real batch is noise: what CovMatch sees of its target in a step.

    python python/covariance_noise.py --image-weights models/efficientnet_lite0/model.pth --text-weights models/minilm-l6 \
        --annotations flickr8k/dataset_flickr8k.json --images flickr8k/images.tar

Features of the pretrained encoders, mean-pooled captions, one caption an image, not augmented. Prints, for batches of n pairs
of the train split, ||C_n||^2, the part of it that is not the covariance C of the whole split, and the cosine of C_n and C.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from train_on_pairs import clean, image_encoder, read_image
from transformers import AutoModel, PreTrainedTokenizerFast


@torch.no_grad()
def features(args):
    """[n, d_v] and [n, d_l] of the train split."""
    entries = [e for e in json.loads(Path(args.annotations).read_text())["images"] if e["split"] == "train"]
    net = image_encoder(args, args.image_encoder).eval()
    text = AutoModel.from_pretrained(args.text_weights, dtype=torch.float32).eval()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=f"{args.text_weights}/tokenizer.json", pad_token="[PAD]")
    tokenizer.backend_tokenizer.no_padding()
    h_v, h_l = [], []
    for first in range(0, len(entries), 100):
        part = entries[first : first + 100]
        pixels = np.stack([read_image(args.images, e).resize((args.size, args.size), Image.BICUBIC) for e in part])
        pixels = (torch.from_numpy(pixels).float() - 127) / 128
        h_v.append(net(pixels.permute(0, 3, 1, 2)))
        captions = [clean(e["sentences"][0]["raw"]) for e in part]
        tokens = tokenizer(captions, padding=True, return_tensors="pt")
        hidden = text(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]).last_hidden_state
        mask = tokens["attention_mask"][..., None].float()
        h_l.append((hidden * mask).sum(1) / mask.sum(1))
    return torch.cat(h_v), torch.cat(h_l)


def covariance(h_v, h_l):
    return (h_v - h_v.mean(0)).T @ (h_l - h_l.mean(0)) / (len(h_v) - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image-encoder", default="efficientnet_lite0")
    parser.add_argument("--image-model", help="its name in timm, if that is another")
    parser.add_argument("--image-weights", required=True)
    parser.add_argument("--text-weights", required=True)
    parser.add_argument("--annotations", required=True)
    parser.add_argument("--images", required=True)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batches", type=int, default=20)
    args = parser.parse_args()
    h_v, h_l = features(args)
    whole = covariance(h_v, h_l)
    draw = np.random.default_rng(0)
    print(f"whole split ({len(h_v)} pairs): ||C||^2 = {whole.square().sum():.0f}\n")
    print("| n | \\|\\|C_n\\|\\|^2 | \\|\\|C_n - C\\|\\|^2 | cosine |\n|--:|--:|--:|--:|")
    for n in [100, 128, 256, 512, 1024]:
        seen = []
        for _ in range(args.batches):
            rows = draw.choice(len(h_v), n, replace=False)
            c = covariance(h_v[rows], h_l[rows])
            seen.append([c.square().sum(), (c - whole).square().sum(), (c * whole).sum() / c.norm() / whole.norm()])
        size, noise, cosine = np.mean(seen, axis=0)
        print(f"| {n} | {size:.0f} | {noise:.0f} | {cosine:.2f} |")


if __name__ == "__main__":
    main()
