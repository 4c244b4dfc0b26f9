"""Golden values of the video encoders, made with torchvision: `python video.py`.

Writes crates/covmatch/tests/goldens/video_NAME.safetensors; the entries are those of image.py.
"""

import torch
import torchvision

import formula
from image import check_margin, multiply_adds

KEYS = ["stem.0.weight", "stem.1.weight", "layer2.0.conv1.0.weight", "layer2.0.downsample.0.weight",
        "layer3.1.conv2.1.bias", "layer4.1.conv2.0.weight", "layer4.1.conv2.1.weight"]

# name: (n, channels, t, height, width)
CASES = {"r3d_18": (2, 3, 4, 24, 32), "r3d_18_odd": (1, 3, 9, 19, 29)}


def golden(name, shape):
    model = torchvision.models.video.r3d_18()
    model.fc = torch.nn.Identity()
    model = formula.fill(model)
    x = formula.uniform("input", shape).requires_grad_()
    check_margin(name, model, x)
    features = model(x)
    params = dict(model.named_parameters())
    entries = {
        "features": features,
        "num_params": torch.tensor([sum(p.numel() for p in params.values())]),
        "input_shape": torch.tensor(shape),
        "macs": torch.tensor([multiply_adds(model, x)]),
    }
    entries |= formula.gradients(features, {"input": x} | {key: params[key] for key in KEYS})
    formula.write(f"video_{name}", entries)


if __name__ == "__main__":
    for name, shape in CASES.items():
        golden(name, shape)
