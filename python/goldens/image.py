"""Golden values of the image encoders, made with timm and torchvision: `python image.py [NAME ...]`.

Writes crates/covmatch/tests/goldens/image_NAME.safetensors with what formula.py lists, and
    num_params        the number of parameters upstream, running statistics not counted
    input_shape       shape of the input, whose values are uniform("input")
    macs              multiply-adds of the forward pass
Image sizes are small, often odd and rarely square, so that a swapped height and width or a wrong border shows. They are
also such that no activation comes so close to a kink (of ReLU, ReLU6, max pooling) that rounding to float32 could push it
over: gradients jump there, and a comparison would say nothing. `kink_margin` checks that.
"""

import sys

import timm
import torch
import torchvision
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import formula


class SqueezeNetFeatures(torch.nn.Module):
    """torchvision's SqueezeNet up to its classifier, average-pooled."""

    def __init__(self):
        super().__init__()
        self.features = torchvision.models.squeezenet1_1().features

    def forward(self, x):
        return self.features(x).mean((2, 3))


def mobilenet_v2():
    model = torchvision.models.mobilenet_v2()
    model.classifier = torch.nn.Identity()
    return model


def resnet18():
    model = torchvision.models.resnet18()
    model.fc = torch.nn.Identity()
    return model


def headless(name):
    return lambda: timm.create_model(name, num_classes=0)


def classifying(name):
    return lambda: timm.create_model(name)


VIT = ["cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.norm1.weight", "blocks.6.attn.qkv.weight",
       "blocks.6.mlp.fc1.bias", "blocks.11.mlp.fc2.weight", "norm.bias"]
EFFICIENTNET_LITE = ["conv_stem.weight", "bn1.weight", "blocks.3.1.conv_dw.weight", "blocks.3.1.bn2.bias",
                     "blocks.3.1.conv_pwl.weight", "conv_head.weight", "bn2.weight"]
NF_RESNET = ["stem.conv.weight", "stages.0.0.downsample.conv.weight", "stages.2.3.conv2.weight",
             "stages.2.3.conv3.bias", "stages.3.2.conv3.weight"]
NF_REGNET = ["stem.conv.weight", "stages.1.0.downsample.conv.weight", "stages.2.3.conv2.weight",
             "stages.2.3.attn.fc1.weight", "stages.2.3.conv3.bias", "final_conv.weight"]

# name: (network, (height, width), keys of the gradients)
CASES = {
    "nfnet_l0": (headless("nfnet_l0"), (64, 80), [
        "stem.conv1.weight", "stem.conv4.gain", "stages.0.0.downsample.conv.weight", "stages.2.3.conv2.weight",
        "stages.2.3.attn_last.fc1.weight", "stages.2.3.conv3.bias", "final_conv.weight"]),
    "nfnet_l0_odd": (headless("nfnet_l0"), (57, 65), ["stem.conv1.weight", "final_conv.weight"]),
    "nf_resnet50": (headless("nf_resnet50"), (57, 50), NF_RESNET),
    "nf_resnet50_logits": (classifying("nf_resnet50"), (40, 40), NF_RESNET + ["head.fc.weight"]),
    "nf_regnet_b1": (headless("nf_regnet_b1"), (57, 66), NF_REGNET),
    "nf_regnet_b1_logits": (classifying("nf_regnet_b1"), (64, 64), NF_REGNET + ["head.fc.bias"]),
    "vit_base_patch16_224": (headless("vit_base_patch16_224"), (224, 224), VIT),
    "vit_tiny_patch16_224": (headless("vit_tiny_patch16_224"), (224, 224), VIT),
    "efficientnet_lite0": (headless("tf_efficientnet_lite0"), (32, 72), EFFICIENTNET_LITE),
    "efficientnet_lite0_odd": (headless("tf_efficientnet_lite0"), (45, 35), EFFICIENTNET_LITE),
    "efficientnet_lite1": (headless("tf_efficientnet_lite1"), (39, 44), EFFICIENTNET_LITE),
    "efficientnet_lite2": (headless("tf_efficientnet_lite2"), (32, 40), EFFICIENTNET_LITE),
    "mobilenetv2_100": (mobilenet_v2, (45, 50), [
        "features.0.0.weight", "features.1.conv.1.weight", "features.8.conv.1.0.weight", "features.8.conv.3.bias",
        "features.18.0.weight", "features.18.1.weight"]),
    "resnet18": (resnet18, (45, 52), [
        "conv1.weight", "bn1.weight", "layer1.1.conv2.weight", "layer2.0.downsample.0.weight",
        "layer2.0.downsample.1.bias", "layer3.1.bn2.weight", "layer4.1.conv1.weight"]),
    "squeezenet1_1": (SqueezeNetFeatures, (45, 34), [
        "features.0.weight", "features.6.expand3x3.weight", "features.6.squeeze.bias", "features.12.expand1x1.weight"]),
}


def multiply_adds(model, x):
    """Those of convolutions and matrix products; attention is spelled out so that its products are seen."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(x)
    return counter.get_total_flops() / 2


def kink_margin(model, x):
    """The smallest distance of an activation from a kink, relative to the root mean square of its tensor."""
    distances = []

    def measure(layer, inputs):
        a = inputs[0].detach()
        if isinstance(layer, torch.nn.MaxPool2d):
            a = torch.nn.functional.pad(a, [layer.padding] * 4, value=-1e9)
            largest = a.unfold(2, 3, 2).unfold(3, 3, 2).flatten(-2).topk(2, -1).values
            gaps = (largest[..., 0] - largest[..., 1])[largest[..., 0] != 0]  # zeros are ties after ReLU: no gradient
        else:
            gaps = a.abs() if isinstance(layer, torch.nn.ReLU) else torch.minimum(a.abs(), (a - 6).abs())
        distances.append((gaps.min() / inputs[0].pow(2).mean().sqrt()).item())

    kinds = (torch.nn.ReLU, torch.nn.ReLU6, torch.nn.MaxPool2d)
    hooks = [m.register_forward_pre_hook(measure) for m in model.modules() if isinstance(m, kinds)]
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return min(distances, default=1.0)


def check_margin(name, model, x):
    margin = kink_margin(model, x)
    print(f"{name}: {margin:.1e} from the nearest kink")
    if margin < 2e-6:
        sys.exit(f"{name}: an activation is too close to a kink, choose another input size")


def golden(name):
    build, size, keys = CASES[name]
    model = formula.fill(build())
    shape = (2, 3, *size)
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
    entries |= formula.gradients(features, {"input": x} | {key: params[key] for key in keys})
    formula.write(f"image_{name}", entries)


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        golden(name)
