"""Golden values of real weights on real inputs: `python real.py [--models DIR ...] [--photos FILE ...]`.

Writes crates/covmatch/tests/goldens/real.safetensors, made in float64 and stored as float32:
    photos                      [3, 96, 96, 3], bytes, RGB
    features.NAME               features of the photos by the image encoder NAME
    tokens.NAME, mask.NAME      the captions below by the tokenizer of the text encoder NAME
    cls.NAME, mean.NAME         their features by [CLS] and by mean pooling
Weights are looked for in the folders given by --models (default: models), under models/NAME or the name in FOLDERS.

The photos are astronaut (NASA, public domain), chelsea (Stefan van der Walt, CC0) and coffee (Rachel Michetti, CC0) of
scikit-image. They come from --photos, else from an installed scikit-image, else from the golden file itself.
"""

import argparse
import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import timm
import torch
import torchvision
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel, PreTrainedTokenizerFast

import formula

ROOT = Path(__file__).resolve().parents[2]
PHOTOS = ["astronaut.png", "chelsea.png", "coffee.png"]
CAPTIONS = [
    "A smiling astronaut in an orange suit stands in front of a flag.",
    "a tabby cat looks at the camera",
    "A cup of coffee, seen from above, on a wooden table; a spoon lies beside it.",
]
TEXT = ["minilm-l6", "minilm-l3", "distilbert-cased-grammar"]
FOLDERS = {"minilm-l3": "paraphrase-MiniLM-L3-v2"}


def folder(name, models):
    for parent in models:
        for child in (name, FOLDERS.get(name, name)):
            if (Path(parent) / child).is_dir():
                return Path(parent) / child
    raise SystemExit(f"no folder {name} in {', '.join(map(str, models))}; add its parent folder with --models")


def photos(files):
    if not files and (spec := importlib.util.find_spec("skimage")):
        files = [Path(spec.origin).parent / "data" / name for name in PHOTOS]
    if files:
        small = [Image.open(f).convert("RGB").resize((96, 96), Image.Resampling.BICUBIC) for f in files]
        return torch.from_numpy(np.stack([np.asarray(image) for image in small]))
    with safe_open(formula.GOLDENS / "real.safetensors", "pt") as golden:
        return golden.get_tensor("photos")


def natural(key):
    """Sorts layers as networks apply them: by number, squeeze before expand, and a layer's tensors as PyTorch does."""
    *layer, tensor = key.split(".")
    order = ["weight", "bias", "running_mean", "running_var"]
    parts = re.split(r"(\d+)", ".".join(layer).replace("squeeze", "a_squeeze").replace("conv1", "_conv1"))
    return [int(p) if p.isdigit() else p for p in parts], order.index(tensor)


def load_in_order(model, tensors):
    """Loads tensors that follow each other as those of the model do, whatever their names."""
    keys = [key for key in model.state_dict() if not key.endswith("num_batches_tracked")]
    assert len(keys) == len(tensors), (len(keys), len(tensors))
    missing = model.load_state_dict(dict(zip(keys, tensors)), strict=False).missing_keys
    assert all(key.endswith("num_batches_tracked") for key in missing)
    return model.double().eval()


def efficientnet_lite0(path):
    state = torch.load(path / "model.pth", map_location="cpu", weights_only=True)
    kept = [t for key, t in state.items() if not key.startswith("_fc") and not key.endswith("num_batches_tracked")]
    return load_in_order(timm.create_model("tf_efficientnet_lite0", num_classes=0), kept)


def mobilenetv2_100(path):
    state = load_file(path / "model.safetensors")
    model = torchvision.models.mobilenet_v2()
    model.classifier = torch.nn.Identity()
    return load_in_order(model, [state[key] for key in sorted(state, key=natural)])


def resnet18(path):
    model = torchvision.models.resnet18()
    model.fc = torch.nn.Identity()
    state = {key: t.float() for key, t in load_file(path / "model.safetensors").items()}
    result = model.load_state_dict(state, strict=False)
    assert all(key.endswith("num_batches_tracked") for key in result.missing_keys), result.missing_keys
    assert not result.unexpected_keys, result.unexpected_keys
    return model.double().eval()


def squeezenet1_1(path):
    state = load_file(path / "model.safetensors")
    features = torchvision.models.squeezenet1_1().features
    load_in_order(features, [state[key] for key in sorted(state, key=natural) if not key.startswith("conv10")])
    return lambda x: features(x).mean((2, 3))


IMAGENET = (torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225]))
# name: (network, its input from RGB bytes [n, h, w, 3])
IMAGE = {
    "efficientnet_lite0": (efficientnet_lite0, lambda x: (x - 127) / 128),
    "mobilenetv2_100": (mobilenetv2_100, lambda x: (x / 255 - IMAGENET[0]) / IMAGENET[1]),
    "resnet18": (resnet18, lambda x: (x / 255 - IMAGENET[0]) / IMAGENET[1]),
    "squeezenet1_1": (squeezenet1_1, lambda x: x.flip(-1) - torch.tensor([103.939, 116.779, 123.68])),
}


def text_model(config):
    if json.loads(config.read_text())["model_type"] == "distilbert":
        return DistilBertModel(DistilBertConfig.from_json_file(config))
    return BertModel(BertConfig.from_json_file(config), add_pooling_layer=False)


def text(name, path):
    model = text_model(path / "config.json")
    state = {key: t.float() for key, t in load_file(path / "model.safetensors").items()}
    result = model.load_state_dict(state, strict=False)
    assert not result.missing_keys, result.missing_keys
    assert all(key.startswith("pooler.") or key.endswith("position_ids") for key in result.unexpected_keys)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path / "tokenizer.json"), pad_token="[PAD]")
    tokenizer.backend_tokenizer.no_padding()
    batch = tokenizer(CAPTIONS, padding=True, return_tensors="pt")
    hidden = model.double().eval()(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    mask = batch["attention_mask"].double()
    return {
        f"tokens.{name}": batch["input_ids"],
        f"mask.{name}": mask,
        f"cls.{name}": hidden[:, 0],
        f"mean.{name}": (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=[ROOT / "models"])
    parser.add_argument("--photos", nargs="+", default=[])
    args = parser.parse_args()
    entries = {"photos": photos(args.photos)}
    for name, (build, normalise) in IMAGE.items():
        pixels = normalise(entries["photos"].double()).permute(0, 3, 1, 2)
        entries[f"features.{name}"] = build(folder(name, args.models))(pixels)
    for name in TEXT:
        entries |= text(name, folder(name, args.models))
    formula.write("real", entries)


if __name__ == "__main__":
    main()
