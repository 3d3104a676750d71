"""ElasticZO paper, Fig. 4: memory of LeNet-5 in float32.

Deviations from the paper:

1. The paper draws its equations only. We add the tensors of our own steps, the allocator's peak,
   and the minimum that a step needs if every buffer is freed after its last use.
2. The equations do not count the input batch; the other estimates do, as the first layer reads it.
3. Peaks are measured in PyTorch on the host with one thread, with and without its oneDNN backend.
   The paper's on-device code is C++; so is our engine, which is measured as well.
4. The backpropagated layers are trained from the pass at +epsilon, so their gradients stay in
   memory during the other pass.
5. Our zeroth-order steps keep the noise for LeNet-5's weights, 0.4 MiB, from pass to pass, so that
   it is drawn only once; the paper's steps draw it again. It counts as other tensors.
"""

from repro.artifacts.shared.memory import MemorySteps, memory_figure

ARTIFACT = memory_figure(
    "elasticzo_fig4",
    "ElasticZO Fig. 4: memory of LeNet-5 in float32",
    __doc__,
    paper=MemorySteps(),
    smoke=MemorySteps(batches=(8,), methods=("full_zo", "cls1")),
)
