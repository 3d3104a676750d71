"""ElasticZO paper, Fig. 5: memory of LeNet-5 in integers.

Deviations from the paper:

1. The paper draws its equations only. We add the tensors of our own steps, the allocator's peak,
   and the minimum that a step needs if every buffer is freed after its last use.
2. The equations do not count the input batch; the other estimates do, as int8.
3. Peaks are measured in PyTorch on the host with one thread. The paper's on-device code is C++; so
   is our engine, which is measured as well. In PyTorch our convolutions are matrix products of
   columns, a few rows at a time, and our noise is drawn in pieces of int32. The equations count
   neither the columns nor the pieces.
4. The backpropagated layers are trained from the pass at +z, so their updates stay in memory during
   the other pass.
5. Steps in float32 are included for the ratio of float32 to integers; they have biases, as in
   Fig. 4.
"""

from repro.artifacts.shared.memory import MemorySteps, memory_figure

ARTIFACT = memory_figure(
    "elasticzo_fig5",
    "ElasticZO Fig. 5: memory of LeNet-5 in integers",
    __doc__,
    paper=MemorySteps(),
    smoke=MemorySteps(batches=(8,), methods=("full_zo", "cls1")),
    precisions=("int8", "fp32"),
)
