"""Messages call options by the names that they have on the surface they appear on."""

import ast
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import build
import mvpa_kfda
from mvpa_kfda.bids.masks import mask_of_runs
from mvpa_kfda.cli.common import reword
from mvpa_kfda.cli.main import _make_parser, main

PARSER = _make_parser()
COMMANDS = next(a.choices for a in PARSER._actions if isinstance(a.choices, dict))
FLAG = re.compile(r"(?<![-\w])--[a-z][a-z-]*")


@cache
def messages():
    """Return the texts of the package that could be part of a message."""
    texts = set()
    for path in Path(mvpa_kfda.__file__).parent.rglob("*.py"):
        if path.parent.name == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise):
                parts = [
                    part.value
                    for part in ast.walk(node)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ]
                texts.add("".join(parts))
    return tuple(sorted(texts))


@pytest.mark.parametrize("command", COMMANDS)
def test_no_message_names_options_that_a_command_has_not(command):
    options = PARSER.options(command, alone=True)
    there = {flag for action in options.values() for flag in action.option_strings}
    texts = messages()
    assert len(texts) > 300
    every = PARSER.options()
    texts += tuple(f"Pass {name}=2. Leave out {name}, or {name}." for name in every)
    for text in texts:
        named = set(FLAG.findall(reword(text, options)))
        assert named - set(FLAG.findall(text)) <= there, text


def test_commands_say_path_where_they_have_no_folder(tmp_path, capsys):
    (tmp_path / "x.h5").write_text("no result")
    assert reword("Use another path.", PARSER.options("report", alone=True)) == (
        "Use another path."
    )
    assert main(["report", str(tmp_path / "x.h5")]) == 2
    assert "--out " not in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:There is no brain mask")
def test_runs_without_a_brain_are_named():
    runs = [SimpleNamespace(path=Path(name), mask=None) for name in ("a.nii", "b.nii")]
    some = build.volume(np.zeros((4, 3, 2, 2)))
    with pytest.raises(ValueError, match=r"^nilearn finds no brain in a\.nii and the "):
        mask_of_runs(runs, "bold", [some, some], None)
