"""Golden values of the projection heads, made with plain PyTorch: `python projection.py`.

Writes crates/covmatch/tests/goldens/projection_DEPTH.safetensors with what formula.py lists, for the input
uniform("input") [3, 48] and width 40. `Head` is the head of LoRS and MTT-VL, with its depth made variable.
"""

import torch
from torch import nn

import formula

INPUTS, WIDTH = 48, 40


class Head(nn.Module):
    def __init__(self, depth, inputs=INPUTS, width=WIDTH):
        super().__init__()
        self.projection = nn.Linear(inputs, width)
        self.gelu = nn.GELU()
        if depth >= 2:
            self.fc = nn.Linear(width, width)
        if depth >= 3:
            self.fc2 = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)
        self.layer_norm = nn.LayerNorm(width)
        self.depth = depth

    def forward(self, x):
        projected = self.projection(x)
        if self.depth == 1:
            return self.layer_norm(projected)
        x = self.fc(self.gelu(projected))
        if self.depth == 3:
            x = self.fc2(self.gelu(x))
        return self.layer_norm(self.dropout(x) + projected)


if __name__ == "__main__":
    for depth in (1, 2, 3):
        head = formula.fill(Head(depth))
        x = formula.uniform("input", (3, INPUTS)).requires_grad_()
        features = head(x)
        count = torch.tensor([sum(p.numel() for p in head.parameters())])
        entries = {"features": features, "num_params": count, "input_shape": torch.tensor(x.shape)}
        entries |= formula.gradients(features, {"input": x} | dict(head.named_parameters()))
        formula.write(f"projection_{depth}", entries)
