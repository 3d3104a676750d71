import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from repro.core.errors import UsageError
from repro.data.splits import holdout, permutation, sample

Labels = npt.NDArray[np.uint8]
labels_of_classes = npst.arrays(np.uint8, st.integers(2, 80), elements=st.integers(0, 4))


@given(labels_of_classes, st.data())
def test_holdout_divides_the_set_and_every_class_in_proportion(
    labels: Labels, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, len(labels) - 1))
    train, validation = holdout(labels, size, seed=3)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([train, validation])), np.arange(len(labels))
    )
    assert len(validation) == size
    for cls, count in zip(*np.unique(labels, return_counts=True), strict=True):
        share = size * count / len(labels)
        assert abs(np.sum(labels[validation] == cls) - share) < 1


def test_holdout_is_a_tenth_unless_told_and_depends_on_the_seed_only() -> None:
    labels = np.repeat(np.arange(10, dtype=np.uint8), 30)
    train, validation = holdout(labels)
    assert (len(train), len(validation)) == (270, 30)
    assert np.bincount(labels[validation]).tolist() == [3] * 10
    np.testing.assert_array_equal(validation, holdout(labels.astype(np.int64))[1])
    assert not np.array_equal(validation, holdout(labels, seed=1)[1])


def test_holdout_takes_truth_values() -> None:
    labels = np.array([True] * 62 + [False] * 38)
    _, validation = holdout(labels, 50)
    assert labels[validation].sum() == 31


@pytest.mark.parametrize("size", [0, 10, -1])
def test_holdout_must_leave_something_on_both_sides(size: int) -> None:
    with pytest.raises(UsageError, match=rf"validation size {size}: must be in 1\.\.9"):
        holdout(np.zeros(10, np.uint8), size)


def test_permutations_never_change() -> None:
    assert permutation(8, 0).tolist() == [3, 2, 1, 6, 0, 7, 4, 5]


@given(st.integers(1, 50), st.integers(0, 2**32), st.data())
def test_samples_are_distinct_and_ascending(length: int, seed: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, length))
    drawn = sample(length, size, seed)
    assert len(drawn) == size
    assert np.all(np.diff(drawn) > 0)
    assert 0 <= drawn[0] <= drawn[-1] < length


def test_a_sample_cannot_be_larger_than_the_set() -> None:
    with pytest.raises(UsageError, match=r"sample size 11: must be in 1\.\.10"):
        sample(10, 11, 0)
