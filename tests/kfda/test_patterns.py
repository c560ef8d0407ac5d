from datetime import date, datetime, timezone

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import TimeFrequencyResult, TimeResult
from mvpa_kfda.kfda import patterns as patterns_module
from mvpa_kfda.kfda.direct import prepare
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import hat_from_features, hat_from_gram, make_hat
from mvpa_kfda.kfda.kernels import RBF, Linear
from mvpa_kfda.kfda.patterns import class_patterns, pattern_weights, patterns_of
from mvpa_kfda.kfda.penalties import Ridge
from mvpa_kfda.results.patterns import pack_info, unpack_info
from tests import build
from tests.reference import fit as reference_fit

UNBALANCED = {2: (25, 11), 4: (15, 8, 9, 12)}


def make_data(n_classes, n_features, seed=0, offset=0.0):
    """Unbalanced classes in mixed order, features in other units than 1."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(n_classes), UNBALANCED[n_classes]))
    mixing = rng.normal(size=(n_features, n_features))
    means = rng.normal(size=(n_classes, n_features))
    X = rng.normal(size=(len(codes), n_features)) @ mixing + means[codes]
    return 3e-6 * (X + offset), codes


def make_tests(name, n):
    """Return the test sets of a way to split n trials."""
    rng = np.random.default_rng(1)
    return {
        "partition": np.array_split(rng.permutation(n), 5),  # of two sizes
        "leave-one-out": list(np.arange(n)[:, None]),
        "overlapping": [rng.permutation(n)[: 6 + i % 2] for i in range(7)],
    }[name]


def split(tests, codes):
    """Return the package's folds for given test sets."""
    rows = np.arange(len(codes))
    pairs = [(np.setdiff1d(rows, test), test) for test in tests]
    return make_folds(pairs, codes, None, np.unique(codes))


def forward_model(scores, signal):
    """Cov(x, s) Cov(s)^-1 (p, q) of Haufe et al. (2014), by the book."""
    joint = np.cov(signal, scores, rowvar=False)
    p = signal.shape[1]
    return joint[:p, p:] @ np.linalg.inv(joint[p:, p:])


def refit(K, codes, lam, signal, train):
    """Class patterns (c, p) and discriminant patterns (q, p) of a textbook KFDA.

    Its discriminant scores stand for s: another basis than the package uses.
    """
    K_train, codes, signal = K[np.ix_(train, train)], codes[train], signal[train]
    scores = reference_fit(K_train, codes, lam, codes.max() + 1).transform(K_train)
    A = forward_model(scores, signal)
    mean = scores.mean(axis=0)
    means = [scores[codes == k].mean(axis=0) - mean for k in np.unique(codes)]
    return np.array(means) @ A.T, A.T


def assert_close(got, expected, rtol=1e-8):
    """Compare patterns relative to their largest value."""
    assert_allclose(got, expected, rtol=0, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("splitting", ["partition", "leave-one-out", "overlapping"])
@pytest.mark.parametrize("n_features", [7, 60])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_patterns_are_those_of_models_fitted_anew(n_classes, n_features, splitting):
    X, codes = make_data(n_classes, n_features)
    K, n = X @ X.T, len(codes)
    tests = make_tests(splitting, n)
    hat = make_hat(X, Linear(), 0.3)
    assert (hat.residual is None) == (n_features == 7)
    got = class_patterns(prepare(hat, split(tests, codes)), codes, n_classes, X)
    full, discriminant = refit(K, codes, hat.lam, X, np.arange(n))
    assert_close(got["class"], full)
    rows = np.arange(n)
    each = [refit(K, codes, hat.lam, X, np.setdiff1d(rows, te))[0] for te in tests]
    assert_close(got["class_folds"], np.mean(each, axis=0))
    assert np.abs(got["class_folds"] - got["class"]).max() > 1e-4 * np.abs(full).max()
    for i, pattern in enumerate(discriminant):
        sign = np.sign(pattern[np.abs(pattern).argmax()])
        assert_close(got["discriminant"][i], sign * pattern)


@pytest.mark.parametrize("n_features", [7, 60])
def test_the_signal_need_not_be_what_the_model_saw(n_features):
    X, codes = make_data(4, n_features)
    K = X @ X.T
    signal = np.random.default_rng(5).normal(size=(len(X), 3)) + codes[:, None] + 1e9
    tests = make_tests("partition", len(codes))
    hat = hat_from_gram(K, 0.3)
    got = class_patterns(prepare(hat, split(tests, codes)), codes, 4, signal)
    rows = np.arange(len(codes))
    each = [refit(K, codes, hat.lam, signal, np.setdiff1d(rows, te))[0] for te in tests]
    assert_close(got["class"], refit(K, codes, hat.lam, signal, rows)[0])
    assert_close(got["class_folds"], np.mean(each, axis=0))


def test_without_folds_the_mean_over_folds_is_the_full_model():
    X, codes = make_data(4, 7)
    hat = make_hat(X, Linear(), 0.3)
    alone = class_patterns(prepare(hat, None), codes, 4, X)
    cross = class_patterns(
        prepare(hat, split(make_tests("partition", len(codes)), codes)), codes, 4, X
    )
    assert_array_equal(alone["class_folds"], alone["class"])
    assert_close(cross["class"], alone["class"], rtol=1e-12)
    assert_close(cross["discriminant"], alone["discriminant"], rtol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_without_a_penalty_patterns_are_class_means(n_classes):
    X, codes = make_data(n_classes, 7, offset=20.0)
    plan = prepare(make_hat(X, Linear(), 1e-12), None)
    got = class_patterns(plan, codes, n_classes, X)["class"]
    means = np.array([X[codes == k].mean(axis=0) for k in range(n_classes)])
    assert_close(got, means - X.mean(axis=0), rtol=1e-9)
    # Weighted by class counts, the patterns sum to zero with any penalty.
    plan = prepare(make_hat(X, Linear(), 3.0), None)
    smooth = class_patterns(plan, codes, n_classes, X)["class"]
    assert_allclose(np.bincount(codes) @ smooth, 0, rtol=0, atol=1e-12 * smooth.max())
    assert np.abs(smooth - got).max() > 0.01 * np.abs(got).max()


@pytest.mark.parametrize("reg", [3.0, 1e3])
def test_weak_discriminants_have_patterns(reg):
    # A large penalty leaves them little of the variance between classes.
    X, codes = make_data(4, 7)
    hat = make_hat(X, Linear(), reg)
    got = class_patterns(prepare(hat, None), codes, 4, X)["discriminant"]
    _, expected = refit(X @ X.T, codes, hat.lam, X, np.arange(len(codes)))
    for mine, pattern in zip(got, expected, strict=True):
        sign = np.sign(pattern[np.abs(pattern).argmax()])
        assert_close(mine, sign * pattern, rtol=1e-6)


def test_a_class_that_is_absent_adds_no_discriminant():
    X, codes = make_data(4, 7)
    X, codes = X[codes != 1], codes[codes != 1]
    plan = prepare(make_hat(X, Linear(), 0.3), None)
    got = class_patterns(plan, codes, 4, X)
    alone = class_patterns(plan, np.unique(codes, return_inverse=True)[1], 3, X)
    assert_close(got["discriminant"][:2], alone["discriminant"])
    assert_array_equal(got["discriminant"][2], 0)
    assert_close(got["class"][[0, 2, 3]], alone["class"])


@pytest.mark.parametrize("average", ["class", "class_folds", "discriminant"])
@pytest.mark.parametrize("scaling", ["channels", "whitening"])
def test_patterns_of_scaled_channels_are_brought_back_exactly(average, scaling):
    X, codes = make_data(4, 7)
    rng = np.random.default_rng(3)
    W = np.diag(rng.uniform(1, 9, 7))
    if scaling == "whitening":
        W = np.linalg.inv(np.linalg.cholesky(np.cov(X, rowvar=False)))
    scaled = X @ W.T
    plan = prepare(
        make_hat(scaled, Linear(), 0.3),
        split(make_tests("partition", len(codes)), codes),
    )
    got = class_patterns(plan, codes, 4, scaled)[average] @ np.linalg.inv(W).T
    expected = class_patterns(plan, codes, 4, X)[average]
    sign = np.sign((got * expected).sum(axis=1, keepdims=True))  # of discriminants
    assert_close(got * sign, expected)
    if average != "discriminant":
        assert_array_equal(sign, 1)


def test_other_kernels_have_patterns_too():
    X, codes = make_data(2, 7)
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2) / np.var(X) / 14)
    hat = make_hat(X, RBF(gamma=1 / np.var(X) / 14), 0.3)
    got = class_patterns(prepare(hat, None), codes, 2, X)
    full, discriminant = refit(K, codes, hat.lam, X, np.arange(len(codes)))
    assert_close(got["class"], full)
    assert_close(np.abs(got["discriminant"]), np.abs(discriminant))


@pytest.mark.parametrize("reg", [1e-6, 0.3, 1e5])
@pytest.mark.parametrize("n_features", [7, 60])
def test_both_routes_and_any_penalty(n_features, reg):
    X, codes = make_data(4, n_features)
    folds = split(make_tests("partition", len(codes)), codes)
    primal = hat_from_features(X, reg)
    dual = hat_from_gram((X - X.mean(axis=0)) @ (X - X.mean(axis=0)).T, reg)
    one, two = (class_patterns(prepare(h, folds), codes, 4, X) for h in (primal, dual))
    for kind in one:
        assert_close(one[kind], two[kind], rtol=1e-6)


@pytest.mark.parametrize("n_features", [7, 60])
def test_single_precision(n_features):
    X, codes = make_data(4, n_features)
    folds = split(make_tests("partition", len(codes)), codes)
    hat = make_hat(X, Linear(), 0.3)
    double, single = (
        class_patterns(prepare(hat, folds, dtype), codes, 4, X)
        for dtype in ("float64", "float32")
    )
    for kind in double:
        assert single[kind].dtype == np.float64
        assert_close(single[kind], double[kind], rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_features", [7, 60])
def test_a_fold_without_a_class_is_left_out_of_its_mean(n_features, dtype):
    X, codes = make_data(4, n_features)
    rows = np.arange(len(codes))
    tests = [np.flatnonzero(codes == 1), np.flatnonzero(codes != 1)[::3]]
    hat = make_hat(X, Linear(), 0.3)
    plan = prepare(hat, split(tests, codes), dtype)
    got = class_patterns(plan, codes, 4, X)["class_folds"]
    rtol = 1e-8 if dtype == "float64" else 1e-3
    without, with_all = (
        refit(X @ X.T, codes, hat.lam, X, np.setdiff1d(rows, te))[0] for te in tests
    )
    expected = with_all.copy()
    others = [0, 2, 3]
    expected[others] = (with_all[others] + without) / 2
    assert_close(got, expected, rtol)
    alone = prepare(hat, split(tests[:1], codes), dtype)
    got = class_patterns(alone, codes, 4, X)
    assert np.isnan(got["class_folds"][1]).all()
    assert_close(got["class_folds"][others], without, rtol)
    assert np.isfinite(got["class"]).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fewer_channels_than_contrasts(dtype):
    """Scores of one channel have rank one; patterns are the channel's class means."""
    X, codes = make_data(4, 1)
    folds = split(make_tests("partition", len(codes)), codes)
    plan = prepare(make_hat(X, Linear(), 0.3), folds, dtype)
    got = class_patterns(plan, codes, 4, X)
    means = np.array([X[codes == k].mean(axis=0) for k in range(4)]) - X.mean(axis=0)
    rtol = 1e-10 if dtype == "float64" else 1e-3
    assert_close(got["class"], means, rtol)
    assert np.isfinite(got["class_folds"]).all()
    first, *others = got["discriminant"]
    assert first > 0
    assert_allclose(others, 0, rtol=0, atol=rtol * first[0])


def test_folds_are_handled_some_at_a_time(monkeypatch):
    X, codes = make_data(2, 7)
    folds = split(make_tests("leave-one-out", len(codes)), codes)
    for hat in (hat_from_features(X, 0.3), hat_from_gram(X @ X.T, 0.3)):
        plan = prepare(hat, folds)
        together = class_patterns(plan, codes, 2, X)["class_folds"]
        with monkeypatch.context() as patch:
            patch.setattr(patterns_module, "_CACHE_BYTES", 8 * 2 * len(codes) * 5)
            apart = class_patterns(plan, codes, 2, X)["class_folds"]
        assert_close(apart, together, rtol=1e-12)


@pytest.mark.parametrize("tests", ["partition", "leave-one-out"])
def test_several_positions_have_the_patterns_of_each(tests, monkeypatch):
    X, codes = make_data(4, 60)
    folds = split(make_tests(tests, len(codes)), codes)
    parts = X, X[:, :7], X[:, 20:60], X[:, 5:9]  # hats of both kinds
    plans = [prepare(make_hat(part, Linear(), 0.3), folds) for part in parts]
    monkeypatch.setattr(patterns_module, "_CACHE_BYTES", 8 * 20 * len(codes) * 9)
    together = pattern_weights(plans, codes, 4)
    for plan, part, weights in zip(plans, parts, together, strict=True):
        alone = class_patterns(plan, codes, 4, part)
        for kind, patterns in patterns_of(weights, part).items():
            assert_close(patterns, alone[kind], rtol=1e-9)


def test_nothing_given_is_changed():
    X, codes = make_data(4, 7)
    before = X.copy(), codes.copy()
    plan = prepare(
        make_hat(X, Linear(), 0.3), split(make_tests("partition", len(X)), codes)
    )
    first = class_patterns(plan, codes, 4, X)
    second = class_patterns(plan, codes, 4, X)
    assert_array_equal(X, before[0])
    assert_array_equal(codes, before[1])
    for kind in first:
        assert_array_equal(first[kind], second[kind])


def test_an_exact_fit_is_refused():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(30, 60)), np.arange(30) % 5
    plans = [prepare(make_hat(X, Linear(), Ridge(lam)), None) for lam in (1e-14, 1e-9)]
    with pytest.raises(ValueError, match=r"too small: .* fitted exactly.*larger reg"):
        class_patterns(plans[0], codes, 5, X)
    assert np.isfinite(class_patterns(plans[1], codes, 5, X)["discriminant"]).all()


# ----------------------------------------------------------- channels in results


CHANNELS = ["Fz", "Cz", "Pz", "a channel with a long name", "MEG 1", "MEG 2", "extra"]
TYPES = ["eeg"] * 4 + ["mag", "grad", "misc"]


def make_info(sfreq=250.0):
    """Channels of several types, and all that tells who was recorded when."""
    info = mne.create_info(CHANNELS, sfreq, TYPES)
    montage = mne.channels.make_standard_montage("biosemi64")
    info.set_montage(montage, on_missing="ignore")
    for i in (4, 5):
        info["chs"][i]["loc"][:] = 0.01 * np.arange(12) + i
    info["bads"] = ["Cz"]
    info.set_meas_date(datetime(2021, 3, 4, tzinfo=timezone.utc))
    info["experimenter"] = "Dr. Who"
    info["description"] = "secret place"
    info["device_info"] = {"type": "cap", "model": "x", "serial": "SN123", "site": "y"}
    info["subject_info"] = {
        **{"id": 77, "his_id": "subj-77", "sex": 1, "hand": 1},
        **{"last_name": "Miller", "first_name": "Ann", "birthday": date(1990, 5, 6)},
    }
    return info


def make_result(kind=TimeResult, *, n_times=4, info=True, with_maps=True, **more):
    """Return a result with random patterns of 7 channels and 3 classes."""
    rng, step = np.random.default_rng(0), 0.02
    axes = {"times": -0.051 + step * np.arange(n_times)}
    if kind is TimeFrequencyResult:
        axes = {"freqs": np.array([4.0, 8.0, 13.0]), **axes}
    shape = tuple(map(len, axes.values()))
    rows = {"class": 3, "class_folds": 3, "discriminant": 2}
    maps = {k: 1e-6 * rng.normal(size=(*shape, m, 7)) for k, m in rows.items()}
    y = np.array([0, 1, 2, 0, 1, 0])
    fields = {
        **{"classes": np.array([10, 20, 30]), "y": y, "tests": (np.arange(6),)},
        **{"predicted": rng.integers(3, size=(*shape, 6)), **axes},
        "parameters": {"kernel": {"name": "Linear"}},
        "pattern_maps": maps if with_maps else {},
        "info_fif": pack_info(make_info()) if info else None,
    }
    return build.made(kind, rng.random(shape), **fields | more)


def test_an_info_comes_back_without_personal_data():
    info = make_info()
    packed = pack_info(info)
    assert packed.dtype == np.uint8
    assert packed.ndim == 1
    assert len(packed) < 20_000
    back = unpack_info(packed)
    assert back["ch_names"] == CHANNELS
    assert back.get_channel_types() == TYPES
    assert back["bads"] == ["Cz"]
    assert back["sfreq"] == 250.0
    for one, other in zip(back["chs"], info["chs"], strict=True):
        assert_allclose(one["loc"], other["loc"], rtol=1e-6, atol=1e-8)
    assert str(back["meas_date"].date()) == "2000-01-01"
    data = bytes(packed)
    assert_array_equal(back["file_id"]["machid"], 0)
    for text in ("Who", "secret", "SN123", "subj-77", "Miller", "Ann"):
        assert text.encode() not in data
    # The given info stays as it is.
    assert info["subject_info"]["last_name"] == "Miller"
    assert info["meas_date"].year == 2021


def test_equal_infos_give_equal_bytes_on_all_machines_and_days(monkeypatch):
    first = pack_info(make_info())
    monkeypatch.setattr("uuid.getnode", lambda: 0x123456789ABC)
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert_array_equal(pack_info(make_info()), first)


@pytest.mark.parametrize("types", [["misc"] * 3, ["eeg"] * 3, ["eeg", "eog", "stim"]])
def test_any_channels_can_be_kept_without_a_word(types, capsys, recwarn):
    info = mne.create_info(["a", "b", "c"], 100.0, types)
    vector = {"nrow": 1, "ncol": 2, "row_names": None, "col_names": ["a", "b"]}
    vector["data"] = np.array([[0.6, 0.8]])
    projector = mne.Projection(active=False, kind=1, desc="blink", data=vector)
    evoked = mne.EvokedArray(np.zeros((3, 1)), info, verbose=False)
    info = evoked.add_proj(projector, verbose=False).info
    back = unpack_info(pack_info(info))
    assert len(back["projs"]) == 1
    assert back["ch_names"] == ["a", "b", "c"]
    assert back.get_channel_types() == types
    assert capsys.readouterr() == ("", "")
    assert len(recwarn) == 0


@pytest.mark.parametrize("spoiled", [np.arange(9), pack_info(make_info())[:500]])
def test_damaged_channel_information(spoiled):
    result = make_result(info_fif=spoiled)
    with pytest.raises(ValueError, match=r"channel information .* damaged; take"):
        _ = result.info


@pytest.mark.parametrize("average", ["full", "folds"])
def test_class_patterns_are_evokeds(average):
    result = make_result()
    evokeds = result.patterns(average=average)
    maps = result.pattern_maps["class" if average == "full" else "class_folds"]
    assert list(evokeds) == ["10", "20", "30"]
    for i, (name, evoked) in enumerate(evokeds.items()):
        assert isinstance(evoked, mne.EvokedArray)
        assert evoked.comment == name
        assert evoked.nave == [3, 2, 1][i]
        assert evoked.ch_names == CHANNELS
        assert evoked.info["bads"] == ["Cz"]
        assert_array_equal(evoked.data, maps[:, i].T)
        assert_allclose(evoked.times, result.times, rtol=0, atol=1e-12)
        assert_allclose(evoked.info["sfreq"], 50.0, rtol=1e-9, atol=0)


def test_discriminant_patterns_are_evokeds():
    result = make_result()
    evokeds = result.patterns("discriminant")
    assert list(evokeds) == ["discriminant 1", "discriminant 2"]
    for i, evoked in enumerate(evokeds.values()):
        assert evoked.nave == 6
        assert_array_equal(evoked.data, result.pattern_maps["discriminant"][:, i].T)


def test_one_time_and_uneven_times_keep_the_recorded_rate():
    (evoked, *_) = make_result(n_times=1).patterns().values()
    assert evoked.info["sfreq"] == 250.0
    assert_allclose(evoked.times, [-0.051], rtol=0, atol=1e-12)
    times = np.array([0.0, 0.1, 0.15, 0.3])
    (evoked, *_) = make_result(times=times).patterns().values()
    assert evoked.info["sfreq"] == 250.0
    # At the recorded rate nothing needs to be converted.
    times = 0.1 + np.arange(4) / 250
    (evoked, *_) = make_result(times=times).patterns().values()
    assert evoked.info["sfreq"] == 250.0
    assert_allclose(evoked.times, times, rtol=0, atol=1e-12)


def test_patterns_over_frequencies_are_averaged_tfrs():
    result = make_result(TimeFrequencyResult)
    tfrs = result.patterns()
    assert list(tfrs) == ["10", "20", "30"]
    for i, (name, tfr) in enumerate(tfrs.items()):
        assert isinstance(tfr, mne.time_frequency.AverageTFRArray)
        assert (tfr.comment, tfr.nave) == (name, [3, 2, 1][i])
        expected = result.pattern_maps["class"][:, :, i].transpose(2, 0, 1)
        assert_array_equal(tfr.data, expected)
        assert_array_equal(tfr.freqs, result.freqs)
        assert_allclose(tfr.times, result.times, rtol=0, atol=1e-12)


def test_why_there_are_no_patterns():
    parameters = {"kernel": {"name": "RBF", "gamma": 0.1}}
    result = make_result(with_maps=False, parameters=parameters)
    with pytest.raises(ValueError, match=r"'linear', Graph.*; its kernel is RBF\(gam"):
        result.patterns()
    with pytest.raises(ValueError, match=r"from arrays, and patterns belong to"):
        make_result(info=False).patterns()
    with pytest.raises(ValueError, match=r"has no channels.*decode_epochs"):
        _ = make_result(info=False).info


def test_arguments_of_patterns_are_checked():
    result = make_result()
    with pytest.raises(ValueError, match=r"'kind': 'classes'.*'discriminant'"):
        result.patterns("classes")
    with pytest.raises(ValueError, match=r"'average': 'fold'.*'folds'"):
        result.patterns(average="fold")
    with pytest.raises(ValueError, match=r"its own discriminants.*kind='class'"):
        result.patterns("discriminant", average="folds")


@pytest.mark.parametrize("shape", [(3, 3, 7), (4, 7), (4, 2, 3, 7)])
def test_patterns_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"'class' at positions \(4,\) must have sha"):
        make_result(pattern_maps={"class": np.zeros(shape)})
