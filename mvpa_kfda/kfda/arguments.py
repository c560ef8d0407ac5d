"""What users may give as a kernel, a penalty, and folds, for type checkers and editors.

An alias says what the arguments of many functions may be; what is given is checked when
the function is called. The names are for completion: any other string goes through
here, so that a loop over names is fine.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from numpy.typing import ArrayLike, NDArray
from scipy.sparse import sparray, spmatrix

from . import listed
from .kernels import Kernel
from .penalties import DegreesOfFreedom, Ridge, Shrinkage, Tuned


class Splitter(Protocol):
    """What makes folds, as the splitters of scikit-learn do."""

    def split(self, X: Any, y: Any, groups: Any, /) -> Iterable[Any]:
        """Yield (train, test) for every fold."""
        ...


KernelName = listed.KernelName | str
OneKernel = KernelName | Kernel | Callable[[Any, Any], Any]
KernelLike = OneKernel | Sequence[OneKernel]

PenaltyName = listed.PenaltyName | str
OnePenalty = float | PenaltyName | Ridge | Shrinkage | DegreesOfFreedom | Tuned
PenaltyLike = OnePenalty | Sequence[float | Ridge] | NDArray[Any]

Matrix = ArrayLike | sparray | spmatrix
Adjacency = Matrix | tuple[Matrix, Sequence[str]]

CrossValidation = int | Splitter | Iterable[tuple[Any, Any]] | None


class Transformer(Protocol):
    """What is learned from rows without labels, as transformers of scikit-learn are."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from rows."""
        ...

    def transform(self, X: Any) -> Any:
        """Return what becomes of rows."""
        ...


StepName = listed.StepName | str
Step = StepName | Transformer
Preprocess = Step | Sequence[Step] | None
