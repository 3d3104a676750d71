"""LeNet-5 as the ElasticZO paper trains it (arXiv 2501.04287, section 5.1.1).

LeCun et al., "Gradient-based learning applied to document recognition" (1998), section II.B, with
max pooling and ReLU. Both convolutions are padded, so the first fully connected layer has 784
inputs.
"""

from collections import OrderedDict

from torch import nn

from repro.models.lean import LeanConv2d, LeanReLU, MaxPool2x2

SAMPLE_SHAPE = (1, 28, 28)
"""Channels, rows and columns of an image."""


def lenet5(*, bias: bool = True, classes: int = 10) -> nn.Sequential:
    """Return LeNet-5, which maps images [B, 1, 28, 28] to logits [B, classes].

    Layers are named; ``model[:index]`` and ``model[index:]`` are the parts at a partition point. A
    forward pass without autograd takes no more memory than the input and the output of one layer:
    ReLU and pooling overwrite their input, so ``model[1:]`` changes its input.

    Args:
        bias: whether layers have biases; 107,786 parameters with biases, 107,550 without, as in
            INT8.
        classes: number of outputs.
    """
    layers: list[tuple[str, nn.Module]] = [
        ("conv1", LeanConv2d(1, 6, kernel_size=5, padding=2, bias=bias)),  # [B, 6, 28, 28]
        ("relu1", LeanReLU()),
        ("pool1", MaxPool2x2()),  # [B, 6, 14, 14]
        ("conv2", LeanConv2d(6, 16, kernel_size=5, padding=2, bias=bias)),  # [B, 16, 14, 14]
        ("relu2", LeanReLU()),
        ("pool2", MaxPool2x2()),  # [B, 16, 7, 7]
        ("flatten", nn.Flatten()),  # [B, 784]
        ("fc1", nn.Linear(784, 120, bias=bias)),
        ("relu3", LeanReLU()),
        ("fc2", nn.Linear(120, 84, bias=bias)),
        ("relu4", LeanReLU()),
        ("fc3", nn.Linear(84, classes, bias=bias)),
    ]
    return nn.Sequential(OrderedDict(layers))
