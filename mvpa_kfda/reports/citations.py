"""What a text cites, in three styles: the references, and how each style prints them.

A text names what it cites by key, ``[@Treder2018]`` or ``[@Treder2018; @Mika1999]``,
marks *p* as shown, and wraps what comes from data, such as the names of classes, with
`name`. All else follows from the style.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..utils.checks import check_option


@dataclass(frozen=True)
class Reference:
    """One work that may be cited."""

    authors: tuple[str, ...]
    year: str
    title: str
    #: Journal, proceedings or publisher.
    source: str
    volume: str = ""
    number: str = ""
    pages: str = ""
    doi: str = ""
    #: BibTeX's name of the type.
    kind: str = "article"
    #: Whether there are more authors than those named.
    others: bool = False

    @property
    def families(self):
        """The authors as a citation in a text names them."""
        names = [author.partition(",")[0] for author in self.authors]
        if self.others or len(names) > 2:
            return f"{names[0]} et al."
        return " & ".join(names)


#: Key -> what is cited by it.
REFERENCES = {
    "Abraham2014": Reference(
        (
            *("Abraham, A.", "Pedregosa, F.", "Eickenberg, M.", "Gervais, P."),
            *("Mueller, A.", "Kossaifi, J.", "Gramfort, A.", "Thirion, B."),
            "Varoquaux, G.",
        ),
        "2014",
        "Machine learning for neuroimaging with scikit-learn",
        "Frontiers in Neuroinformatics",
        *("8", "", "14", "10.3389/fninf.2014.00014"),
    ),
    "Allefeld2016": Reference(
        ("Allefeld, C.", "Görgen, K.", "Haynes, J.-D."),
        "2016",
        "Valid population inference for information-based imaging: From the "
        "second-level t-test to prevalence inference",
        "NeuroImage",
        *("141", "", "378-392", "10.1016/j.neuroimage.2016.07.040"),
    ),
    "Andreella2023": Reference(
        (
            *("Andreella, A.", "Hemerik, J.", "Finos, L.", "Weeda, W."),
            "Goeman, J.",
        ),
        "2023",
        "Permutation-based true discovery proportions for functional magnetic "
        "resonance imaging cluster analysis",
        "Statistics in Medicine",
        *("42", "14", "2311-2340", "10.1002/sim.9725"),
    ),
    "Benjamini1995": Reference(
        ("Benjamini, Y.", "Hochberg, Y."),
        "1995",
        "Controlling the false discovery rate: A practical and powerful approach to "
        "multiple testing",
        "Journal of the Royal Statistical Society: Series B",
        *("57", "1", "289-300", "10.1111/j.2517-6161.1995.tb02031.x"),
    ),
    "Benjamini2001": Reference(
        ("Benjamini, Y.", "Yekutieli, D."),
        "2001",
        "The control of the false discovery rate in multiple testing under dependency",
        "The Annals of Statistics",
        *("29", "4", "1165-1188", "10.1214/aos/1013699998"),
    ),
    "Berger1982": Reference(
        ("Berger, R. L.",),
        "1982",
        "Multiparameter hypothesis testing and acceptance sampling",
        "Technometrics",
        *("24", "4", "295-300", "10.1080/00401706.1982.10487790"),
    ),
    "Blanchard2020": Reference(
        ("Blanchard, G.", "Neuvial, P.", "Roquain, E."),
        "2020",
        "Post hoc confidence bounds on false positives using reference families",
        "The Annals of Statistics",
        *("48", "3", "1281-1303", "10.1214/19-AOS1847"),
    ),
    "Cawley2003": Reference(
        ("Cawley, G. C.", "Talbot, N. L. C."),
        "2003",
        "Efficient leave-one-out cross-validation of kernel Fisher discriminant "
        "classifiers",
        "Pattern Recognition",
        *("36", "11", "2585-2592", "10.1016/S0031-3203(03)00136-5"),
    ),
    "Chen2010": Reference(
        ("Chen, Y.", "Wiesel, A.", "Eldar, Y. C.", "Hero, A. O."),
        "2010",
        "Shrinkage algorithms for MMSE covariance estimation",
        "IEEE Transactions on Signal Processing",
        *("58", "10", "5016-5029", "10.1109/TSP.2010.2053029"),
    ),
    "Chen2026": Reference(
        ("Chen, X.", "Weeda, W. D.", "Nichols, T. E.", "Goeman, J. J."),
        "2026",
        "eTFCE: Exact threshold-free cluster enhancement via fast cluster retrieval",
        "arXiv",
        *("", "", "2603.03004", "10.48550/arXiv.2603.03004"),
    ),
    "Efron1993": Reference(
        ("Efron, B.", "Tibshirani, R. J."),
        "1993",
        "An introduction to the bootstrap",
        "Chapman & Hall",
        kind="book",
    ),
    "Esteban2019": Reference(
        ("Esteban, O.", "Markiewicz, C. J.", "Blair, R. W.", "Moodie, C. A."),
        "2019",
        "fMRIPrep: A robust preprocessing pipeline for functional MRI",
        "Nature Methods",
        *("16", "1", "111-116", "10.1038/s41592-018-0235-4"),
        others=True,
    ),
    "Forman2010": Reference(
        ("Forman, G.", "Scholz, M."),
        "2010",
        "Apples-to-apples in cross-validation studies: Pitfalls in classifier "
        "performance measurement",
        "ACM SIGKDD Explorations Newsletter",
        *("12", "1", "49-57", "10.1145/1882471.1882479"),
    ),
    "Frossard2022": Reference(
        ("Frossard, J.", "Renaud, O."),
        "2022",
        "The cluster depth tests: Toward point-wise strong control of the family-wise "
        "error rate in massively univariate tests with application to M/EEG",
        "NeuroImage",
        *("247", "", "118824", "10.1016/j.neuroimage.2021.118824"),
    ),
    "Garthwaite1996": Reference(
        ("Garthwaite, P. H.",),
        "1996",
        "Confidence intervals from randomization tests",
        "Biometrics",
        *("52", "4", "1387-1393", "10.2307/2532852"),
    ),
    "Gramfort2013": Reference(
        (
            *("Gramfort, A.", "Luessi, M.", "Larson, E.", "Engemann, D. A."),
            *("Strohmeier, D.", "Brodbeck, C.", "Goj, R.", "Jas, M.", "Brooks, T."),
            *("Parkkonen, L.", "Hämäläinen, M."),
        ),
        "2013",
        "MEG and EEG data analysis with MNE-Python",
        "Frontiers in Neuroscience",
        *("7", "", "267", "10.3389/fnins.2013.00267"),
    ),
    "Golub1979": Reference(
        ("Golub, G. H.", "Heath, M.", "Wahba, G."),
        "1979",
        "Generalized cross-validation as a method for choosing a good ridge parameter",
        "Technometrics",
        *("21", "2", "215-223", "10.1080/00401706.1979.10489751"),
    ),
    "Guggenmos2018": Reference(
        ("Guggenmos, M.", "Sterzer, P.", "Cichy, R. M."),
        "2018",
        "Multivariate pattern analysis for MEG: A comparison of dissimilarity measures",
        "NeuroImage",
        *("173", "", "434-447", "10.1016/j.neuroimage.2018.02.044"),
    ),
    "Harris2020": Reference(
        ("Harris, C. R.", "Millman, K. J.", "van der Walt, S. J."),
        "2020",
        "Array programming with NumPy",
        "Nature",
        *("585", "", "357-362", "10.1038/s41586-020-2649-2"),
        others=True,
    ),
    "Hastie1995": Reference(
        ("Hastie, T.", "Buja, A.", "Tibshirani, R."),
        "1995",
        "Penalized discriminant analysis",
        "The Annals of Statistics",
        *("23", "1", "73-102", "10.1214/aos/1176324456"),
    ),
    "King2014": Reference(
        ("King, J.-R.", "Dehaene, S."),
        "2014",
        "Characterizing the dynamics of mental representations: The temporal "
        "generalization method",
        "Trends in Cognitive Sciences",
        *("18", "4", "203-210", "10.1016/j.tics.2014.01.002"),
    ),
    "Kriegeskorte2006": Reference(
        ("Kriegeskorte, N.", "Goebel, R.", "Bandettini, P."),
        "2006",
        "Information-based functional brain mapping",
        "Proceedings of the National Academy of Sciences",
        *("103", "10", "3863-3868", "10.1073/pnas.0600244103"),
    ),
    "Ledoit2004": Reference(
        ("Ledoit, O.", "Wolf, M."),
        "2004",
        "A well-conditioned estimator for large-dimensional covariance matrices",
        "Journal of Multivariate Analysis",
        *("88", "2", "365-411", "10.1016/S0047-259X(03)00096-4"),
    ),
    "Mann1947": Reference(
        ("Mann, H. B.", "Whitney, D. R."),
        "1947",
        "On a test of whether one of two random variables is stochastically larger "
        "than the other",
        "The Annals of Mathematical Statistics",
        *("18", "1", "50-60", "10.1214/aoms/1177730491"),
    ),
    "Maris2007": Reference(
        ("Maris, E.", "Oostenveld, R."),
        "2007",
        "Nonparametric statistical testing of EEG- and MEG-data",
        "Journal of Neuroscience Methods",
        *("164", "1", "177-190", "10.1016/j.jneumeth.2007.03.024"),
    ),
    "Hartigan1969": Reference(
        ("Hartigan, J. A.",),
        "1969",
        "Using subsample values as typical values",
        "Journal of the American Statistical Association",
        *("64", "328", "1303-1317"),
    ),
    "Hirose2021": Reference(
        ("Hirose, S.",),
        "2021",
        "Valid and powerful second-level group statistics for decoding accuracy: "
        "Information prevalence inference using the i-th order statistic (i-test)",
        "NeuroImage",
        *("242", "", "118456", "10.1016/j.neuroimage.2021.118456"),
    ),
    "Holm1979": Reference(
        ("Holm, S.",),
        "1979",
        "A simple sequentially rejective multiple test procedure",
        "Scandinavian Journal of Statistics",
        *("6", "2", "65-70"),
    ),
    "Mika1999": Reference(
        ("Mika, S.", "Rätsch, G.", "Weston, J.", "Schölkopf, B.", "Müller, K.-R."),
        "1999",
        "Fisher discriminant analysis with kernels",
        "Neural Networks for Signal Processing IX",
        *("", "", "41-48", "10.1109/NNSP.1999.788121"),
        kind="inproceedings",
    ),
    "Mumford2012": Reference(
        ("Mumford, J. A.", "Turner, B. O.", "Ashby, F. G.", "Poldrack, R. A."),
        "2012",
        "Deconvolving BOLD activation in event-related designs for multivoxel pattern "
        "classification analyses",
        "NeuroImage",
        *("59", "3", "2636-2643", "10.1016/j.neuroimage.2011.08.076"),
    ),
    "Nichols2002": Reference(
        ("Nichols, T. E.", "Holmes, A. P."),
        "2002",
        "Nonparametric permutation tests for functional neuroimaging: A primer with "
        "examples",
        "Human Brain Mapping",
        *("15", "1", "1-25", "10.1002/hbm.1058"),
    ),
    "Pahikkala2006": Reference(
        ("Pahikkala, T.", "Boberg, J.", "Salakoski, T."),
        "2006",
        "Fast n-fold cross-validation for regularized least-squares",
        "Proceedings of the Ninth Scandinavian Conference on Artificial Intelligence",
        *("", "", "83-90"),
        kind="inproceedings",
    ),
    "Pedregosa2011": Reference(
        ("Pedregosa, F.", "Varoquaux, G.", "Gramfort, A."),
        "2011",
        "Scikit-learn: Machine learning in Python",
        "Journal of Machine Learning Research",
        *("12", "", "2825-2830"),
        others=True,
    ),
    "Phipson2010": Reference(
        ("Phipson, B.", "Smyth, G. K."),
        "2010",
        "Permutation p-values should never be zero: Calculating exact p-values when "
        "permutations are randomly drawn",
        "Statistical Applications in Genetics and Molecular Biology",
        *("9", "1", "39", "10.2202/1544-6115.1585"),
    ),
    "Ridgway2012": Reference(
        (
            *("Ridgway, G. R.", "Litvak, V.", "Flandin, G.", "Friston, K. J."),
            "Penny, W. D.",
        ),
        "2012",
        "The problem of low variance voxels in statistical parametric mapping; a new "
        "hat avoids a 'haircut'",
        "NeuroImage",
        *("59", "3", "2131-2141", "10.1016/j.neuroimage.2011.10.027"),
    ),
    "Sassenhagen2019": Reference(
        ("Sassenhagen, J.", "Draschkow, D."),
        "2019",
        "Cluster-based permutation tests of MEG/EEG data do not establish significance "
        "of effect latency or location",
        "Psychophysiology",
        *("56", "6", "e13335", "10.1111/psyp.13335"),
    ),
    "Smith2009": Reference(
        ("Smith, S. M.", "Nichols, T. E."),
        "2009",
        "Threshold-free cluster enhancement: Addressing problems of smoothing, "
        "threshold dependence and localisation in cluster inference",
        "NeuroImage",
        *("44", "1", "83-98", "10.1016/j.neuroimage.2008.03.061"),
    ),
    "Snoek2019": Reference(
        ("Snoek, L.", "Miletić, S.", "Scholte, H. S."),
        "2019",
        "How to control for confounds in decoding analyses of neuroimaging data",
        "NeuroImage",
        *("184", "", "741-760", "10.1016/j.neuroimage.2018.09.074"),
    ),
    "Stelzer2013": Reference(
        ("Stelzer, J.", "Chen, Y.", "Turner, R."),
        "2013",
        "Statistical inference and multiple testing correction in classification-based "
        "multi-voxel pattern analysis (MVPA): Random permutations and cluster size "
        "control",
        "NeuroImage",
        *("65", "", "69-82", "10.1016/j.neuroimage.2012.09.063"),
    ),
    "Treder2018": Reference(
        ("Treder, M. S.",),
        "2018",
        "Direct calculation of out-of-sample predictions in multi-class kernel FDA",
        "European Symposium on Artificial Neural Networks (ESANN)",
        kind="inproceedings",
    ),
    "Troendle1995": Reference(
        ("Troendle, J. F.",),
        "1995",
        "A stepwise resampling method of multiple hypothesis testing",
        "Journal of the American Statistical Association",
        *("90", "429", "370-378", "10.1080/01621459.1995.10476522"),
    ),
    "Virtanen2020": Reference(
        ("Virtanen, P.", "Gommers, R.", "Oliphant, T. E."),
        "2020",
        "SciPy 1.0: Fundamental algorithms for scientific computing in Python",
        "Nature Methods",
        *("17", "", "261-272", "10.1038/s41592-019-0686-2"),
        others=True,
    ),
    "Walther2016": Reference(
        (
            *("Walther, A.", "Nili, H.", "Ejaz, N.", "Alink, A.", "Kriegeskorte, N."),
            "Diedrichsen, J.",
        ),
        "2016",
        "Reliability of dissimilarity measures for multi-voxel pattern analysis",
        "NeuroImage",
        *("137", "", "188-200", "10.1016/j.neuroimage.2015.12.012"),
    ),
    "Westfall1993": Reference(
        ("Westfall, P. H.", "Young, S. S."),
        "1993",
        "Resampling-based multiple testing: Examples and methods for p-value "
        "adjustment",
        "Wiley",
        kind="book",
    ),
    "Wilcoxon1945": Reference(
        ("Wilcoxon, F.",),
        "1945",
        "Individual comparisons by ranking methods",
        "Biometrics Bulletin",
        *("1", "6", "80-83", "10.2307/3001968"),
    ),
    "Williams2001": Reference(
        ("Williams, C. K. I.", "Seeger, M."),
        "2001",
        "Using the Nyström method to speed up kernel machines",
        "Advances in Neural Information Processing Systems",
        *("13", "", "682-688"),
        kind="inproceedings",
    ),
}

#: What stands around a name that comes from data; no keyboard has these.
_OPEN, _CLOSE = "\ue000", "\ue001"
_NAME = re.compile(f"{_OPEN}(.*?){_CLOSE}")
_CITED = re.compile(r"\[(@\w+(?:; @\w+)*)\]")
_MARKED = re.compile(r"\*(\w+)\*")
#: What means something in Markdown.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")
#: What means something in LaTeX.
_LATEX = re.compile(r"([&%$#_])")


def name(given):
    """Return a name that comes from data, to be printed as it is, in one line."""
    words = " ".join(str(given).replace(_OPEN, "").replace(_CLOSE, "").split())
    return f"{_OPEN}{words}{_CLOSE}"


def cited_in(text):
    """Return the keys that a text cites, in alphabetical order, which is APA's too."""
    plain = _NAME.sub("", text)
    keys = {key for found in _CITED.findall(plain) for key in found.split("; ")}
    return sorted(key.removeprefix("@") for key in keys)


def render(paragraphs, style):
    """Return paragraphs of marked text in one of the `STYLES`."""
    check_option("style", style, STYLES)
    text = "\n\n".join(paragraphs)
    return STYLES[style](text, [(key, REFERENCES[key]) for key in cited_in(text)])


def _plain(text, references):
    """Print plain text and the list of references."""
    body = outside_names(text, lambda part: _MARKED.sub(r"\1", _cite(part)))
    entries = [_entry(reference, "", _url) for _, reference in references]
    return "\n\n".join([body, "References", *entries]) if entries else body


def _markdown(text, references):
    """Print Markdown: links, *p* as it stands, and a list of references."""
    body = outside_names(
        text, lambda part: _cite(part, _link), lambda name: _SPECIAL.sub(r"\\\1", name)
    )
    entries = [f"- {_entry(r, '*', _linked_url)}" for _, r in references]
    if not entries:
        return body
    return "\n\n".join([body, "**References**", "\n".join(entries)])


def _bibtex(text, references):
    """Print the entries of what is cited, for BibTeX."""
    return "\n\n".join(_bibtex_entry(key, reference) for key, reference in references)


#: Style -> how it prints a text with the pairs (key, reference) that it cites.
STYLES = {"apa": _plain, "markdown": _markdown, "bibtex": _bibtex}


def outside_names(text, change, change_name=str):
    """Change a text, and the names in it in another way."""
    parts = _NAME.split(text)
    parts[::2] = map(change, parts[::2])
    parts[1::2] = map(change_name, parts[1::2])
    return "".join(parts)


def _cite(text, word=lambda words, reference: words):
    """Print the citations in a text as (Author, year; Author, year)."""

    def print_one(match):
        keys = sorted(key.removeprefix("@") for key in match[1].split("; "))
        cited = [REFERENCES[key] for key in keys]
        return f"({'; '.join(word(f'{r.families}, {r.year}', r) for r in cited)})"

    # Brackets beside brackets become one pair.
    return _CITED.sub(print_one, text).replace(") (", "; ")


def _link(words, reference):
    """Link words to where a work is found."""
    return f"[{words}]({_address(reference)})" if reference.doi else words


def _address(reference):
    """Return where a work is found; brackets would end a link."""
    address = f"https://doi.org/{reference.doi}"
    return address.replace("(", "%28").replace(")", "%29")


def _url(reference):
    return f"https://doi.org/{reference.doi}"


def _linked_url(reference):
    return f"<{_url(reference)}>"


def _entry(reference, italic, url):
    """Return an entry of a list of references, in the style of the APA."""
    r = reference
    if r.others:
        authors = ", ".join([*r.authors, "et al."])
    elif len(r.authors) == 1:
        authors = r.authors[0]
    else:
        authors = f"{', '.join(r.authors[:-1])}, & {r.authors[-1]}"
    title, source = r.title, f"{italic}{r.source}{italic}"
    if r.kind == "book":
        title, source = f"{italic}{r.title}{italic}", r.source
    elif r.kind == "inproceedings":
        source = f"In {source}"
    where = [source]
    if r.volume:
        issue = f"({r.number})" if r.number else ""
        where.append(f"{italic}{r.volume}{italic}{issue}")
    where += [r.pages.replace("-", "\N{EN DASH}")] if r.pages else []
    entry = f"{authors} ({r.year}). {title}. {', '.join(where)}."
    return f"{entry} {url(r)}" if r.doi else entry


def _bibtex_entry(key, reference):
    """Return an entry for BibTeX."""
    r = reference
    holder = {"article": "journal", "inproceedings": "booktitle", "book": "publisher"}
    fields = {
        "author": " and ".join([*r.authors, *(["others"] if r.others else [])]),
        # Braces keep the capital letters of names.
        "title": f"{{{r.title}}}",
        holder[r.kind]: r.source,
        "year": r.year,
        "volume": r.volume,
        "number": r.number,
        "pages": r.pages.replace("-", "--"),
        "doi": r.doi,
    }
    lines = [
        f"  {field} = {{{value if field == 'doi' else _escaped(value)}}},"
        for field, value in fields.items()
        if value
    ]
    return "\n".join([f"@{r.kind}{{{key},", *lines, "}"])


def _escaped(value):
    """Escape what LaTeX would read otherwise; braces are those of titles."""
    return _LATEX.sub(r"\\\1", value)
