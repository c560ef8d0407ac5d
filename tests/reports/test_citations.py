"""What texts cite is listed, in three styles; names from data stay as they are."""

import re
from pathlib import Path

import numpy as np

import mvpa_kfda
from mvpa_kfda import cross_validate, methods_text
from mvpa_kfda.reports.citations import REFERENCES, cited_in, name, outside_names
from mvpa_kfda.reports.findings import PACKAGES
from tests import build


def test_what_is_cited_exists():
    files = Path(mvpa_kfda.__file__).parent.rglob("*.*")
    files = [path for path in files if path.suffix in (".py", ".txt")]
    files = [path for path in files if path.stem != "citations"]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    cited = set(re.findall(r"[@\"]([A-Z][a-z]+[A-Za-z]*\d{4})", text))
    assert cited == set(REFERENCES)
    assert set(PACKAGES) <= set(build.result("DecodingResult").versions)
    assert cited_in("[@Mika1999; @Cawley2003]") == ["Cawley2003", "Mika1999"]
    assert cited_in(f"{name('[@Mika1999]')} [@Holm1979]") == ["Holm1979"]


def test_entries_of_lists_are_in_the_style_of_the_apa():
    texts = [methods_text(build.result(), style) for style in ("apa", "markdown")]
    mass = methods_text(build.result(), correction="tfce")
    for text, entry in (
        (texts[0], "Treder, M. S. (2018). Direct calculation of out-of-sample"),
        (mass, "Smith, S. M., & Nichols, T. E. (2009). Threshold-free cluster"),
        (mass, ". NeuroImage, 44(1), 83\N{EN DASH}98. https://doi.org/10.1016/j.neu"),
        (texts[0], "Virtanen, P., Gommers, R., Oliphant, T. E., et al. (2020). SciPy"),
        (texts[0], "In Neural Networks for Signal Processing IX"),
        (texts[1], "*Frontiers in Neuroscience*, *7*, 267. <https"),
        (texts[1], "<https://doi.org/10.1038/s41592-019-0686-2>"),
        (texts[1], "([Phipson & Smyth, 2010](https://doi.org/10.2202/1544-6115.1585))"),
    ):
        assert entry in text, entry


def test_bibtex_has_an_entry_for_each_citation():
    text = methods_text(build.result(), "bibtex", correction="tfce")
    assert text.count("{") == text.count("}")
    keys = re.findall(r"@(\w+)\{(\w+),", text)
    assert ("article", "Smith2009") in keys
    assert [key for _, key in keys] == sorted(key for _, key in keys)
    assert "  doi = {10.1016/j.neuroimage.2008.03.061}," in text
    assert "  pages = {83--98}," in text
    assert "Sassenhagen2019" not in text


def test_names_are_shown_as_they_are():
    odd = np.array(["a_b*c", "<img src=x>", "[@Mika1999]"])
    X, codes = build.features((8, 8, 8), 4)
    result = cross_validate(X, odd[codes], cv=4, n_permutations=0)
    for text in map(str, odd):
        assert text in methods_text(result)
    markdown = methods_text(result, "markdown")
    assert "a\\_b\\*c" in markdown
    assert "<img" not in markdown.replace("\\<img", "")
    assert "(@Mika1999" not in markdown
    assert outside_names(f"a {name('a')} a", str.upper) == "A a A"
