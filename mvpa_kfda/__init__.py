"""Exact cross-validation and label permutations for neuroimaging decoding.

One matrix inverse per time point or searchlight gives every fold's out-of-sample
prediction of a kernel Fisher discriminant analysis, and every label permutation's.
"""

import lazy_loader as _lazy

__version__ = "0.1.0.dev0"

# Lazy, so that a numeric module can be imported without loading MNE or matplotlib.
__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    submod_attrs={
        "data.simulate": ["simulate_epochs"],
        "decoding.arrays": ["cross_validate", "decode_arrays"],
        "decoding.epochs": ["decode_epochs"],
        "decoding.generalization": ["generalize_arrays", "generalize_epochs"],
        "decoding.images": ["decode_regions", "searchlight"],
        "decoding.regression": ["regress"],
        "group.comparison": ["compare"],
        "group.latency": ["bootstrap_latency"],
        "group.second_level": ["group_inference"],
        "kfda.estimator": ["KernelFDA"],
        "kfda.kernels": ["RBF", "EmpiricalMap", "Linear", "Polynomial"],
        "kfda.nystrom": ["Nystrom"],
        "kfda.penalties": ["DegreesOfFreedom", "Ridge", "Shrinkage", "Tuned"],
        "kfda.smoothness": ["GraphSmooth", "Penalty"],
        "metrics.roc": ["Roc"],
        "results.decoding": [
            "DecodingResult",
            "RegressionResult",
            "TimeRegressionResult",
        ],
        "results.epochs": [
            "GeneralizationResult",
            "SensorTimeResult",
            "TimeFrequencyResult",
            "TimeResult",
        ],
        "results.group": ["ComparisonResult", "GroupResult"],
        "results.images": ["VolumeResult"],
        "results.load": ["load_result"],
    },
)
