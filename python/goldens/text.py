"""Golden values of the text encoders, made with Hugging Face transformers: `python text.py [NAME ...]`.

Writes crates/covmatch/tests/goldens/text_NAME.safetensors, for the transformer layers with [CLS] pooling, and
text_NAME_mean.safetensors, with mean pooling. Both hold what formula.py lists, and
    input_shape       [2, 7, d_l]: the input of the transformer layers is uniform("input")
    mask              attention mask [2, 7]; the second caption ends in padding
The first also holds
    tokens            token ids [2, 7]
    embedded          the embedding module's output for the tokens
    features.tokens   [CLS] of the whole model called on tokens and mask
    num_params.embeddings, num_params.encoder
and the second
    macs              multiply-adds of the transformer layers
"""

import sys

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel

import formula

def tokens(vocabulary):
    """Two captions that have the last entry of the vocabulary."""
    return torch.tensor([[101, 1037, 3899, vocabulary - 1, 2083, 999, 102], [101, 2048, 2273, 102, 0, 0, 0]])


MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]])


def bert(**form):
    return BertModel(BertConfig(**form, attn_implementation="eager"), add_pooling_layer=False)


# The bias of a key projection has no gradient: it shifts all scores of a query alike.
def bert_keys(layers):
    middle, last = f"encoder.layer.{layers // 2}", f"encoder.layer.{layers - 1}"
    return [
        "encoder.layer.0.attention.self.query.weight",
        "encoder.layer.0.attention.self.query.bias",
        f"{middle}.attention.self.value.weight",
        f"{middle}.attention.output.LayerNorm.weight",
        f"{middle}.intermediate.dense.weight",
        f"{last}.attention.self.key.weight",
        f"{last}.attention.output.dense.bias",
        f"{last}.output.dense.weight",
        f"{last}.output.LayerNorm.bias",
    ]


DISTILBERT_KEYS = [
    "transformer.layer.0.attention.q_lin.weight",
    "transformer.layer.0.attention.q_lin.bias",
    "transformer.layer.3.attention.v_lin.weight",
    "transformer.layer.3.sa_layer_norm.weight",
    "transformer.layer.3.ffn.lin1.weight",
    "transformer.layer.5.attention.out_lin.weight",
    "transformer.layer.5.ffn.lin2.weight",
    "transformer.layer.5.output_layer_norm.bias",
]

# name: (network, its transformer layers, keys of the gradients)
MINILM = {"hidden_size": 384, "intermediate_size": 1536}
CASES = {
    "bert-base-uncased": (lambda: bert(), "encoder", bert_keys(12)),
    "distilbert-base-uncased": (
        lambda: DistilBertModel(DistilBertConfig(attn_implementation="eager")), "transformer", DISTILBERT_KEYS),
    "distilbert-cased-grammar": (
        lambda: DistilBertModel(DistilBertConfig(vocab_size=28996, attn_implementation="eager")), "transformer",
        DISTILBERT_KEYS),
    "minilm-l6": (lambda: bert(num_hidden_layers=6, **MINILM), "encoder", bert_keys(6)),
    "minilm-l3": (lambda: bert(num_hidden_layers=3, **MINILM), "encoder", bert_keys(3)),
}


def golden(name):
    build, encoder, keys = CASES[name]
    model = formula.fill(build())
    layers = getattr(model, encoder)
    vocabulary, width = model.embeddings.word_embeddings.weight.shape
    ids = tokens(vocabulary)
    bias = (1.0 - MASK.double())[:, None, None, :] * torch.finfo(torch.float64).min

    shape = (*ids.shape, width)
    x = formula.uniform("input", shape).requires_grad_()
    with FlopCounterMode(display=False) as counter:
        hidden = layers(x, attention_mask=bias).last_hidden_state
    weights = MASK.double()[:, :, None]
    cls, mean = hidden[:, 0], (hidden * weights).sum(1) / weights.sum(1)

    params = dict(model.named_parameters())
    targets = {"input": x} | {key: params[key] for key in keys}
    shared = {"mask": MASK.double(), "input_shape": torch.tensor(shape)}
    macs = torch.tensor([counter.get_total_flops() / 2], dtype=torch.float64)
    of_mean = shared | {"features": mean, "macs": macs} | formula.gradients(mean, targets, retain_graph=True)
    of_cls = shared | {
        "features": cls,
        "tokens": ids,
        "embedded": model.embeddings(ids),
        "features.tokens": model(ids, attention_mask=MASK).last_hidden_state[:, 0],
        "num_params.embeddings": torch.tensor([sum(p.numel() for p in model.embeddings.parameters())]),
        "num_params.encoder": torch.tensor([sum(p.numel() for p in layers.parameters())]),
    } | formula.gradients(cls, targets)
    formula.write(f"text_{name}", of_cls)
    formula.write(f"text_{name}_mean", of_mean)


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        golden(name)
