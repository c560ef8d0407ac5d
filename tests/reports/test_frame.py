"""The frame of a page: who made it, and that it asks no host for anything."""

import re
import webbrowser

import mne

import mvpa_kfda
from mvpa_kfda import report
from tests.html_pages import Reader, assert_asks_no_host, draw_nothing, result_of


def test_pages_ask_no_host_for_anything(tmp_path, monkeypatch):
    draw_nothing(monkeypatch)
    report([result_of("TimeResult"), result_of("regions")], tmp_path / "page.html")
    reader = Reader((tmp_path / "page.html").read_text("utf-8"))
    assert_asks_no_host(reader)
    names = [a.get("name") for tag, a in reader.tags if tag == "meta"]
    assert "viewport" in names  # phones show it at their own width


def test_pages_say_who_made_them(tmp_path, monkeypatch):
    draw_nothing(monkeypatch)
    opened = []
    monkeypatch.setattr(webbrowser, "open_new_tab", opened.append)
    page = report(result_of("TimeResult"), tmp_path / "page.html")
    assert isinstance(page, mne.Report)
    page.add_html("<footer>mine</footer> stays", title="Added")
    page.save(tmp_path / "again.html")
    assert opened == [(tmp_path / "again.html").resolve().as_uri()]
    for name in ("page.html", "again.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert not re.search(r'alt="MNE"|mne\.tools|class="[^"]*fixed-bottom', text)
        *_, foot = text.split("<footer")
        assert f"mvpa_kfda {mvpa_kfda.__version__}" in foot
        assert foot.rstrip().endswith("</html>")
        reader = Reader(text)
        assert reader.texts.count("MNE-Python") == 0
        assert reader.inside == []  # all that was opened is closed
        assert "&lt;script" not in text  # no code of the page is shown as text
    assert "<footer>mine</footer> stays" in text
    page.save(tmp_path / "page.html", overwrite=True, open_browser=False)
    assert len(opened) == 1
