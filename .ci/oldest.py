"""Print the oldest supported versions in setup.cfg, and what tests need, for pip.

The pins are made anew each time, so they cannot differ from what setup.cfg promises.
"""

import configparser
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Extras that users install, but for rsatoolbox, which a single call hands a table to.
#: What tests and pages are made with may be new.
EXTRAS = ("bids", "dask", "plotly", "xarray")
#: No requirement of ours, but newer ones warn of old matplotlib.
OTHERS = ("pyparsing<3.1",)


def read_pins(path):
    """Return the requirements of a setup.cfg with every ``>=`` as ``==``."""
    parser = configparser.ConfigParser()
    parser.read(path)
    listed = [parser["options"]["install_requires"]]
    listed += [parser["options.extras_require"][name] for name in EXTRAS]
    lines = [line for text in listed for line in text.splitlines() if line.strip()]
    return [*sorted({line.replace(">=", "==") for line in lines}), *OTHERS]


def read_tests(path):
    """Return the requirements of tests in a setup.cfg, which may be new."""
    parser = configparser.ConfigParser()
    parser.read(path)
    return parser["options.extras_require"]["test"].split("\n")[1:]


if __name__ == "__main__":
    path = ROOT / "setup.cfg"
    print("\n".join([*read_pins(path), *read_tests(path)]))
