"""ElasticZO paper, Fig. 4: memory of LeNet-5 in float32.

Deviations from the paper:

1. The paper draws its equations only. Beside them stand the tensors of our own steps, an
   allocator's peak, and the least that a step needs if every buffer is freed as soon as it is dead.
2. The equations do not count the input batch; the other accounts do, as the first layer reads it.
3. Measured peaks are those of PyTorch on the host, with and without its oneDNN backend, of one
   thread. The paper's on-device code is C++, as is our engine, which is measured beside.
4. The tail is trained from the pass at +epsilon, so its gradients wait through the other pass.
5. Our zeroth-order steps keep the noise of LeNet-5's weights, 0.4 MiB, from pass to pass, which
   spares them the drawing; the paper's draw it anew. It counts as other tensors.
"""

from repro.artifacts.shared.memory import MemorySteps, memory_figure

ARTIFACT = memory_figure(
    "elasticzo_fig4",
    "ElasticZO Fig. 4: memory of LeNet-5 in float32",
    __doc__,
    paper=MemorySteps(),
    smoke=MemorySteps(batches=(8,), methods=("full_zo", "cls1")),
)
