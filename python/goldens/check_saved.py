"""Checks that upstream's networks load what covmatch saved: `python check_saved.py FOLDER`.

FOLDER holds files NAME.safetensors of encoders filled by the formula. Each is loaded into upstream's network with its
own loader; every tensor must be there, nothing else may be, and every value must be the formula's, bit for bit.
"""

import sys
from pathlib import Path

import numpy as np
import timm
import torchvision
from safetensors.torch import load_file
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel

import formula
import projection

MINILM = {"hidden_size": 384, "intermediate_size": 1536}
UPSTREAM = {
    "mobilenetv2_100": torchvision.models.mobilenet_v2,
    "squeezenet1_1": torchvision.models.squeezenet1_1,
    "r3d_18": torchvision.models.video.r3d_18,
    "bert-base-uncased": lambda: BertModel(BertConfig(), add_pooling_layer=False),
    "minilm-l6": lambda: BertModel(BertConfig(num_hidden_layers=6, **MINILM), add_pooling_layer=False),
    "minilm-l3": lambda: BertModel(BertConfig(num_hidden_layers=3, **MINILM), add_pooling_layer=False),
    "distilbert-base-uncased": lambda: DistilBertModel(DistilBertConfig()),
    "projection": lambda: projection.Head(1),
}
for i in range(3):
    UPSTREAM[f"efficientnet_lite{i}"] = lambda i=i: timm.create_model(f"tf_efficientnet_lite{i}", num_classes=0)


def network(name):
    return UPSTREAM[name]() if name in UPSTREAM else timm.create_model(name, num_classes=0)


def left_out(key):
    """What covmatch does not save: torchvision's classifiers and the counters of batch norms."""
    return key.startswith(("classifier.", "fc.")) or key.endswith("num_batches_tracked")


def check(path):
    model = network(path.stem)
    result = model.load_state_dict(load_file(path), strict=False)
    assert not result.unexpected_keys, result.unexpected_keys
    missing = [key for key in result.missing_keys if not left_out(key)]
    assert not missing, missing
    for key, tensor in model.state_dict().items():
        if not left_out(key):
            assert np.array_equal(tensor.numpy(), formula.values(key, tuple(tensor.shape))), key
    print(f"{path.stem}: OK, {len(model.state_dict())} tensors")


if __name__ == "__main__":
    files = sorted(Path(sys.argv[1]).glob("*.safetensors"))
    assert files, "no files to check"
    for file in files:
        check(file)
