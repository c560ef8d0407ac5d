"""What `mvpa_kfda` exports, for it itself and for editors and type checkers."""

from .data.betas import single_trial_betas as single_trial_betas
from .data.simulate import simulate_epochs as simulate_epochs
from .decoding.arrays import cross_validate as cross_validate
from .decoding.arrays import decode_arrays as decode_arrays
from .decoding.epochs import decode_epochs as decode_epochs
from .decoding.generalization import generalize_arrays as generalize_arrays
from .decoding.generalization import generalize_epochs as generalize_epochs
from .decoding.images import decode_regions as decode_regions
from .decoding.images import searchlight as searchlight
from .decoding.regression import regress as regress
from .group.comparison import compare as compare
from .group.latency import bootstrap_latency as bootstrap_latency
from .group.second_level import group_inference as group_inference
from .kfda.estimator import KernelFDA as KernelFDA
from .kfda.kernels import RBF as RBF
from .kfda.kernels import EmpiricalMap as EmpiricalMap
from .kfda.kernels import Linear as Linear
from .kfda.kernels import Polynomial as Polynomial
from .kfda.nystrom import Nystrom as Nystrom
from .kfda.penalties import DegreesOfFreedom as DegreesOfFreedom
from .kfda.penalties import Ridge as Ridge
from .kfda.penalties import Shrinkage as Shrinkage
from .kfda.penalties import Tuned as Tuned
from .kfda.smoothness import GraphSmooth as GraphSmooth
from .kfda.smoothness import Penalty as Penalty
from .metrics.roc import Roc as Roc
from .results.decoding import DecodingResult as DecodingResult
from .results.decoding import RegressionResult as RegressionResult
from .results.decoding import TimeRegressionResult as TimeRegressionResult
from .results.epochs import GeneralizationResult as GeneralizationResult
from .results.epochs import SensorTimeResult as SensorTimeResult
from .results.epochs import TimeFrequencyResult as TimeFrequencyResult
from .results.epochs import TimeResult as TimeResult
from .results.group import ComparisonResult as ComparisonResult
from .results.group import GroupResult as GroupResult
from .results.images import VolumeResult as VolumeResult
from .results.load import load_result as load_result
from .utils.system import sys_info as sys_info

__version__: str
