"""Exact cross-validation and label permutations for neuroimaging decoding.

One matrix inverse per time point or searchlight gives every fold's out-of-sample
prediction of a kernel Fisher discriminant analysis, and every label permutation's.
"""

import lazy_loader as _lazy

__version__ = "0.1.0.dev0"

# Lazy, so that a numeric module can be imported without loading MNE or matplotlib. The
# list of names is in __init__.pyi, which editors and type checkers read too.
__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
