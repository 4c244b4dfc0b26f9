#!/usr/bin/env python3
"""How much of the cross-covariance of a real batch is noise: what CovMatch sees of its target in a step.

    python python/covariance_noise.py --image-weights models/efficientnet_lite0/model.pth --text-weights models/minilm-l6 \
        --annotations flickr8k/dataset_flickr8k.json --images flickr8k/images.tar

Features of the pretrained encoders, mean-pooled captions, one caption an image, not augmented. Prints, for batches of n pairs
of the train split, ||C_n||^2, the part of it that is not the covariance C of the whole split, and the cosine of C_n and C.
"""

import argparse

import numpy as np
import torch
from train_on_pairs import Split, image_encoder
from transformers import AutoModel


@torch.no_grad()
def features(args):
    """[n, d_v] and [n, d_l] of the train split."""
    split = Split(args, "train", {"channels": args.channels, "mean": args.mean, "std": args.std}, args.size)
    net = image_encoder(args, args.image_encoder).eval()
    text = AutoModel.from_pretrained(args.text_weights, dtype=torch.float32).eval()
    first = torch.searchsorted(split.owners, torch.arange(len(split.pixels)))  # the first caption of each image
    h_v = [net(pixels) for pixels in split.pixels.split(100)]
    h_l = []
    for ids, mask in zip(split.ids[first].split(100), split.mask[first].split(100)):
        longest = int(mask.sum(1).max())
        ids, mask = ids[:, :longest], mask[:, :longest]
        hidden = text(input_ids=ids, attention_mask=mask).last_hidden_state
        h_l.append((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))
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
    parser.add_argument("--channels", choices=["rgb", "bgr"], default="rgb")
    parser.add_argument("--mean", default=str([127 / 255] * 3), help="of pixels between 0 and 1; default: EfficientNet-Lite's")
    parser.add_argument("--std", default=str([128 / 255] * 3), help="likewise")
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
