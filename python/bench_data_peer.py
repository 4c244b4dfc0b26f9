#!/usr/bin/env python3
"""Images per second of the train transform in PyTorch: DataLoader, PIL, torchvision, and OpenCV for the warps.

    python python/bench_data_peer.py PICTURES --workers 2 --size 224 --batch 32 --seconds 4

The protocol is that of crates/covmatch/examples/data_bench.rs: RandomResizedCrop (0.5 to 1, bicubic), horizontal flip,
RandomAugment (two operations at level 5, each skipped with probability 1/2), CLIP's mean and standard deviation.
`RandomAugment` is written as in BLIP and its descendants. Needs torch, torchvision and opencv-python-headless; prints
one JSON object with the keys of data_bench.
"""

import argparse
import json
import pathlib
import time

import cv2
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms.functional import InterpolationMode

FILL = (128, 128, 128)
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def identity(img):
    return img


def autocontrast(img):
    def tune(channel):
        high, low = int(channel.max()), int(channel.min())
        if high <= low:
            return channel
        scale = 255 / (high - low)
        return (np.arange(256) * scale - low * scale).clip(0, 255).astype(np.uint8)[channel]

    return cv2.merge([tune(channel) for channel in cv2.split(img)])


def equalize(img):
    def tune(channel):
        histogram = cv2.calcHist([channel], [0], None, [256], [0, 256])
        step = np.sum(histogram[histogram != 0].reshape(-1)[:-1]) // 255
        if step == 0:
            return channel
        n = np.empty_like(histogram)
        n[0] = step // 2
        n[1:] = histogram[:-1]
        return (np.cumsum(n) // step).clip(0, 255).astype(np.uint8)[channel]

    return cv2.merge([tune(channel) for channel in cv2.split(img)])


def affine(img, matrix):
    h, w = img.shape[:2]
    return cv2.warpAffine(img, np.float32(matrix), (w, h), borderValue=FILL, flags=cv2.INTER_LINEAR)


def rotate(img, degree):
    h, w = img.shape[:2]
    return cv2.warpAffine(img, cv2.getRotationMatrix2D((w / 2, h / 2), degree, 1), (w, h), borderValue=FILL)


def brightness(img, factor):
    return (np.arange(256, dtype=np.float32) * factor).clip(0, 255).astype(np.uint8)[img]


def sharpness(img, factor):
    if factor == 1.0:  # level 5; the original smooths first and then returns the picture
        return img
    raise NotImplementedError


def sign(value):
    return -value if np.random.random() > 0.5 else value


OPERATIONS = [
    identity,
    autocontrast,
    equalize,
    lambda img: brightness(img, 1.0),
    lambda img: sharpness(img, 1.0),
    lambda img: affine(img, [[1, sign(0.15), 0], [0, 1, 0]]),
    lambda img: affine(img, [[1, 0, 0], [sign(0.15), 1, 0]]),
    lambda img: affine(img, [[1, 0, -sign(5)], [0, 1, 0]]),
    lambda img: affine(img, [[1, 0, 0], [0, 1, -sign(5)]]),
    lambda img: rotate(img, sign(15)),
]


class RandomAugment:
    def __call__(self, img):
        img = np.array(img)
        for op in np.random.choice(len(OPERATIONS), 2):
            if np.random.random() <= 0.5:
                img = OPERATIONS[op](img)
        return img


class Pictures(Dataset):
    def __init__(self, folder, size):
        self.files = sorted(pathlib.Path(folder).glob("*.jpg"))
        self.transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(size, scale=(0.5, 1.0), interpolation=InterpolationMode.BICUBIC),
                transforms.RandomHorizontalFlip(),
                RandomAugment(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __len__(self):
        return 1_000_000  # no pause between epochs: workers start once

    def __getitem__(self, index):
        image = Image.open(self.files[index % len(self.files)]).convert("RGB")
        return self.transform(image), "Two men and one dog running in the park ."


def start_worker(_):
    cv2.setNumThreads(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pictures")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=4)
    args = parser.parse_args()
    loader = DataLoader(
        Pictures(args.pictures, args.size),
        batch_size=args.batch,
        shuffle=False,
        num_workers=args.workers,
        worker_init_fn=start_worker,
    )
    batches = iter(loader)
    for _ in range(3 * args.workers):
        next(batches)
    start, images = time.perf_counter(), 0
    while time.perf_counter() - start < args.seconds:
        images += next(batches)[0].shape[0]
    print(json.dumps({"images_per_second": round(images / (time.perf_counter() - start), 1), "images": images}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
