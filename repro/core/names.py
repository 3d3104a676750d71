"""Names of papers, number formats and attention kernels, shared by configurations and models."""

from typing import Literal, NamedTuple, get_args


class Paper(NamedTuple):
    """A paper whose statements are judged."""

    name: str
    source: str
    """Its authors, year and number."""


PAPERS = {
    "mezo": Paper("MeZO", "Katti, Park, Rajendran, Simeone 2025, arXiv 2511.11362"),
    "elasticzo": Paper("ElasticZO", "Sugiura, Matsutani 2025, arXiv 2501.04287"),
}
"""The papers, by the names that statements and artifacts have for them."""

Dtype = Literal["float32", "float16", "bfloat16"]

BYTES: dict[Dtype, int] = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of one number in each format."""

Attention = Literal["eager", "sdpa"]
"""Eager attention keeps the [B, H, N, N] score matrix; SDPA's kernels never form it."""

ATTENTIONS: tuple[Attention, ...] = ("eager", "sdpa")

ZerothOrderMethod = Literal["full_zo", "cls2", "cls1"]
MethodName = Literal[ZerothOrderMethod, "full_bp"]
METHODS: tuple[MethodName, ...] = get_args(MethodName)
"""The rows of the ElasticZO paper's tables, by the layers that backpropagation trains: none, the
last fully connected layer, the last two, or all."""
ZEROTH_ORDER: tuple[ZerothOrderMethod, ...] = get_args(ZerothOrderMethod)
"""The methods that estimate a gradient."""
METHOD_LABELS: dict[str, str] = {
    "full_zo": "Full ZO",
    "cls2": "ZO-Feat-Cls2",
    "cls1": "ZO-Feat-Cls1",
    "full_bp": "Full BP",
}
"""The paper's name of each method."""

NumberFormat = Literal["fp32", "int8"]
"""The precisions that differ in memory: INT8* takes as much as INT8."""
Precision = Literal[NumberFormat, "int8_star"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
"""float32; INT8: integers, with the gradient's sign from a float loss; INT8*: integers alone."""

Network = Literal["lenet5", "pointnet"]
"""The ElasticZO paper's networks: of images and of point clouds."""
NETWORK_LABELS: dict[str, str] = {"lenet5": "LeNet-5", "pointnet": "PointNet"}
ImageSet = Literal["mnist", "fashion_mnist"]
IMAGE_SETS: tuple[ImageSet, ...] = get_args(ImageSet)
"""The ElasticZO paper's data sets of images."""

Augmentation = Literal["none", "pointnet"]
"""Random augmentation of the training items: none, or the rotation about the vertical axis and
jitter that PointNet's authors use, for point clouds only."""

Activations = Literal["plus", "minus", "mean"]
"""The forward pass of ElasticZO whose activations the backpropagated layers use, or the mean of the
gradients of both."""
IntegerActivations = Literal["plus", "minus"]
"""The same in integers, where there is no mean."""
BackpropRule = Literal["sgd", "adam"]
"""The update rule of backpropagation in float32."""
IntegerRestore = Literal["clip", "exact"]
"""The restore of integer weights after a perturbation has clipped them."""
ShiftVersion = Literal["v1", "v2"]
"""The version of NITI's rules for narrowing accumulators."""
SignRule = Literal["float", "integer", "exact"]
"""How the sign of the gradient is found in integers: from a float loss (INT8), from integers alone
(INT8*), or from integers without the floor of their logarithm (ours)."""

Engine = Literal["torch", "native"]
"""The code that trains: PyTorch, or the on-device engine in C++."""
EngineChoice = Literal[Engine, "auto"]
"""The choice for many runs: with ``auto`` the on-device engine trains every run it supports."""
