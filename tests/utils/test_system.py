"""What a report of a bug says about the machine."""

import mvpa_kfda
from mvpa_kfda.utils import system


def test_machine_and_packages_are_listed(capsys, monkeypatch):
    monkeypatch.setattr(system, "REQUIRED", ("numpy",))
    monkeypatch.setattr(system, "OPTIONAL", ("no-such-package",))
    for memory, words in ((2_500_000, "2.5 MB"), (None, "unknown")):
        monkeypatch.setattr(system, "usable_memory", lambda memory=memory: memory)
        mvpa_kfda.sys_info()
        lines = capsys.readouterr().out.splitlines()
        found = {line[:17].strip(): line[17:] for line in lines}
        assert found["Memory"] == words
        assert found["mvpa_kfda"] == mvpa_kfda.__version__
        assert found["no-such-package"] == "not installed"
        assert found["BLAS"].endswith((" thread", " threads"))
