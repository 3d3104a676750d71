"""Random words from a key and a counter: stateless, in any order, from any number of threads.

word(key, i), with 32-bit unsigned arithmetic, k0 the low and k1 the high half of the key::

    x = i + k0
    x = (x ^ (x >> 16)) * 0x7feb352d
    x = (x ^ (x >> 15) ^ k1) * 0x846ca68b
    x =  x ^ (x >> 16)

This is the integer hash "lowbias32" (C. Wellons, hash-prospector, 2018) with a second key word
between its rounds, so that two keys give different streams, not shifts of one stream. It needs only
32-bit additions, multiplications, shifts and exclusive ors, which every vector unit has.
"""

import torch
from torch import Tensor

_MASK_64 = (1 << 64) - 1


def splitmix64(x: int) -> int:
    """Return output number ``x`` of SplitMix64 (Steele et al. 2014): a mix of 64 bits."""
    z = (x + 0x9E3779B97F4A7C15) & _MASK_64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return z ^ (z >> 31)


def stream_key(seed: int, step: int, purpose: int) -> int:
    """Return the 64-bit key of one stream: mix(mix(mix(seed) ^ step) ^ purpose).

    Args:
        seed: the run's seed, any whole number; only its low 64 bits count.
        step: training step, from 0.
        purpose: a small number that identifies the use of the stream.
    """
    return splitmix64(splitmix64(splitmix64(seed & _MASK_64) ^ step) ^ purpose)


def words_(counters: Tensor, key: int, scratch: Tensor) -> Tensor:
    """Replace each counter i by word(key, i), in place.

    Args:
        counters: int32, i modulo 2^32.
        key: 64 bits.
        scratch: int32 of the same shape, overwritten.

    Returns:
        ``counters``, now the words as signed numbers.
    """
    return _fold(mix_(counters.add_(signed(key)), key, scratch), 16, scratch)


def mix_(shifted: Tensor, key: int, scratch: Tensor) -> Tensor:
    """Apply all steps of ``word`` except the first and the last, in place.

    Args:
        shifted: int32, i + k0 modulo 2^32.
        key: 64 bits.
        scratch: int32 of the same shape, overwritten.
    """
    _fold(shifted, 16, scratch).mul_(signed(0x7FEB352D))
    return _fold(shifted, 15, scratch).bitwise_xor_(signed(key >> 32)).mul_(signed(0x846CA68B))


def signed(word: int) -> int:
    """Return the low 32 bits of ``word`` as a two's complement number, for int32 tensors."""
    return ((word + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def _fold(x: Tensor, bits: int, scratch: Tensor) -> Tensor:
    """Do x ^= x >> bits; torch shifts the sign bit in, and the mask removes it."""
    torch.bitwise_right_shift(x, bits, out=scratch)
    return x.bitwise_xor_(scratch.bitwise_and_((1 << (32 - bits)) - 1))
