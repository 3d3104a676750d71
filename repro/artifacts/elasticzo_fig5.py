"""ElasticZO paper, Fig. 5: memory of LeNet-5 in integers.

Deviations from the paper:

1. The paper draws its equations only. Beside them stand the tensors of our own steps, an
   allocator's peak, and the least that a step needs if every buffer is freed as soon as it is dead.
2. The equations do not count the input batch; the other accounts do, as int8.
3. Measured peaks are those of PyTorch on the host, of one thread. The paper's on-device code is
   C++, as is our engine, which is measured beside. In PyTorch our convolutions are matrix products
   of columns, a few rows at a time, and our noise is drawn in pieces of int32. The equations count
   neither.
4. The tail is trained from the pass at +z, so its updates wait through the other pass.
5. Steps in float32 stand beside those in integers for the ratio of the two; they have biases, as in
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
