#!/usr/bin/env python3
"""Golden values of the image transforms, made with PIL, torchvision and OpenCV: `python data_transforms.py`.

Writes into crates/covmatch/tests/goldens:
  data_resize.safetensors      8-bit results of the test transform (torchvision Resize, bicubic, on PIL images), by size
  data_operations.safetensors  8-bit results of every operation of RandAugment with given parameters, of whole train
                               transforms, the boxes of RandomResizedCrop for given uniform numbers, and normalised
                               colours
Inputs are `picture(width, height)`: integers only, so the test makes the same pixels. Warps are OpenCV's warpAffine, as
the protocol calls it; contrast, equalisation, brightness and sharpness are PIL's.
"""

import pathlib
from unittest import mock

import cv2
import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from safetensors.numpy import save_file
from torchvision import transforms
from torchvision.transforms import functional as F
from torchvision.transforms.functional import InterpolationMode

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "crates/covmatch/tests/goldens"
FILL = (128, 128, 128)
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))


def picture(width, height):
    """Gradients, a disc, stripes and some grain, [h, w, 3]."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    value = 40 + (x * 120) // width + (y * (30 + 20 * c)) // height
    dx, dy = 2 * x - width, 2 * y - height
    disc = dx * dx + dy * dy < (min(width, height) * 6 // 10) ** 2
    value = np.where(disc, 230 - 60 * c + (x * 20) // width, value)
    stripes = (x // 7 + y // 5) % 4 == 0
    value = np.where(stripes & ~disc, value - 30 + 15 * c, value)
    grain = (x * 7919 + y * 104729 + c * 1299709 + x * y * 31) % 17
    return np.clip(value + grain - 8, 0, 255).astype(np.uint8)


def pil(width, height):
    return Image.fromarray(picture(width, height))


# The protocol's warps.
def warp(img, matrix):
    h, w = img.shape[:2]
    return cv2.warpAffine(img, np.float32(matrix), (w, h), borderValue=FILL, flags=cv2.INTER_LINEAR).astype(np.uint8)


def rotate(img, degree):
    h, w = img.shape[:2]
    return cv2.warpAffine(img, cv2.getRotationMatrix2D((w / 2, h / 2), degree, 1), (w, h), borderValue=FILL)


OPERATIONS = {
    "auto_contrast": lambda img, _: np.asarray(ImageOps.autocontrast(Image.fromarray(img))),
    "equalize": lambda img, _: np.asarray(ImageOps.equalize(Image.fromarray(img))),
    "brightness": lambda img, factor: np.asarray(ImageEnhance.Brightness(Image.fromarray(img)).enhance(factor)),
    "sharpness": lambda img, factor: np.asarray(ImageEnhance.Sharpness(Image.fromarray(img)).enhance(factor)),
    "shear_x": lambda img, factor: warp(img, [[1, factor, 0], [0, 1, 0]]),
    "shear_y": lambda img, factor: warp(img, [[1, 0, 0], [factor, 1, 0]]),
    "translate_x": lambda img, offset: warp(img, [[1, 0, -offset], [0, 1, 0]]),
    "translate_y": lambda img, offset: warp(img, [[1, 0, 0], [0, 1, -offset]]),
    "rotate": rotate,
}
PARAMETERS = {
    "auto_contrast": [0],
    "equalize": [0],
    "brightness": [0.7, 1.4],
    "sharpness": [0.25, 1.75],
    "shear_x": [0.15, -0.15],
    "shear_y": [0.15, -0.15],
    "translate_x": [5, -5],
    "translate_y": [5, -5],
    "rotate": [15, -15],
}


def operations(size=64):
    img = picture(size, size)
    return {f"op.{name}.{p:g}": OPERATIONS[name](img, p) for name, params in PARAMETERS.items() for p in params}


def train(name, source, box, size, flip, ops):
    """The train transform with everything random given; box is (left, top, width, height)."""
    left, top, width, height = box
    img = F.resized_crop(pil(*source), top, left, height, width, [size, size], InterpolationMode.BICUBIC)
    img = np.asarray(F.hflip(img) if flip else img)
    for op, parameter in ops:
        img = OPERATIONS[op](img, parameter)
    return {f"train.{name}": img}


def crops():
    """RandomResizedCrop.get_params with its random numbers replaced by given ones: rows of what came out."""
    rng = np.random.default_rng(0)
    cases, boxes = [], []
    for width, height in [(500, 375), (375, 500), (128, 128), (640, 427), (1000, 100), (60, 700), (3, 2), (1, 1)] * 3:
        numbers = np.round(rng.random(40) * 2**24) / 2**24 * (1 - 2**-24)
        left = iter(numbers)

        def uniform_(tensor, low, high):
            return tensor.fill_(low + (high - low) * next(left))

        def randint(low, high, size):
            return torch.tensor([low + int((high - low) * next(left))])

        empty = torch.empty

        def empty64(*size):
            return empty(*size, dtype=torch.float64)

        with (
            mock.patch.object(torch.Tensor, "uniform_", uniform_),
            mock.patch.object(torch, "randint", randint),
            mock.patch.object(torch, "empty", empty64),
        ):
            top, x, h, w = transforms.RandomResizedCrop.get_params(
                Image.new("RGB", (width, height)), scale=[0.5, 1.0], ratio=[3 / 4, 4 / 3]
            )
        cases.append([width, height, *numbers])
        boxes.append([x, top, w, h])
    return {"crop.cases": np.array(cases), "crop.boxes": np.array(boxes, dtype=np.int64)}


def normalised():
    """All 256 colours: red ascending, green descending, blue shuffled, as a picture of 16 x 16."""
    values = np.arange(256)
    img = np.stack([values, 255 - values, values * 37 % 256], -1).reshape(16, 16, 3).astype(np.uint8)
    tensor = transforms.ToTensor()(img)
    bgr = torch.from_numpy(img[:, :, ::-1].astype(np.float32)).permute(2, 0, 1)
    caffe = bgr - torch.tensor([103.939, 116.779, 123.68])[:, None, None]
    return {
        "normalize.clip": transforms.Normalize(*CLIP)(tensor).numpy(),
        "normalize.caffe": caffe.contiguous().numpy(),
    }


def write(name, entries):
    path = GOLDENS / f"{name}.safetensors"
    save_file({key: np.ascontiguousarray(value) for key, value in entries.items()}, path)
    print(f"{path.name}: {len(entries)} entries, {path.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    sizes = [(500, 375, 224), (60, 90, 64), (37, 200, 64), (64, 64, 64), (1, 1, 16), (900, 40, 48)]
    resized = {
        f"test.{w}.{h}.{size}": np.asarray(
            transforms.Resize((size, size), interpolation=InterpolationMode.BICUBIC)(pil(w, h))
        )
        for w, h, size in sizes
    }
    write("data_resize", resized)
    mixed = operations() | crops() | normalised()
    mixed |= train("shear", (500, 375), (31, 17, 411, 320), 64, True, [("shear_x", 0.15), ("equalize", 0)])
    mixed |= train("rotate", (120, 160), (0, 40, 101, 103), 64, False, [("auto_contrast", 0), ("rotate", -15)])
    write("data_operations", mixed)
