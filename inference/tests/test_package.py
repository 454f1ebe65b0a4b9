"""The package as it is shipped: its wheel, its locks, and what the watching process imports."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import build_backend
import macluster_inference
from engines import environment

ROOT = Path(build_backend.__file__).parent
LOCKS = sorted(ROOT.glob("locks/*.txt"))


def test_the_wheel_is_the_same_every_time_and_whole(tmp_path: Path) -> None:
    wheels = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        wheels.append(tmp_path / name / build_backend.build_wheel(str(tmp_path / name)))
    assert len({hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels}) == 1
    assert wheels[0].name == f"macluster_inference-{macluster_inference.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheels[0]) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith("METADATA"))).decode()
        record = archive.read(next(n for n in names if n.endswith("RECORD"))).decode().splitlines()
    modules = {f"macluster_inference/{p.name}" for p in (ROOT / "src/macluster_inference").glob("*.py")}
    assert modules < set(names)
    assert len(record) == len(names)
    assert "Requires-Dist: mlx==0.32.4\n" in metadata
    assert 'Requires-Dist: mlx[cpu]==0.32.4 ; extra == "cpu"\n' in metadata


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_a_lock_pins_every_wheel_by_hash_and_names_no_index(lock: Path) -> None:
    comment, *lines = lock.read_text().splitlines()
    assert comment.startswith("#")
    assert lines
    for line in lines:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][^ ]* --hash=sha256:[0-9a-f]{64}", line), line
    names = [line.split("==")[0] for line in lines]
    assert names == sorted(set(names))
    assert not re.search(r"://|--\w*index|\.org|\.com", lock.read_text())


def test_locks_hold_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runtime = [lock for lock in LOCKS if "-cp3" in lock.stem]
    assert {lock.stem for lock in runtime} == {
        f"{platform}-cp3{minor}" for platform in ("macos-arm64", "linux-x86_64") for minor in (11, 12, 13)
    }
    for lock in runtime:
        pins = {line.split(" ")[0] for line in lock.read_text().splitlines()[1:]}
        assert set(project["dependencies"]) <= pins
        backend = "mlx-metal" if lock.stem.startswith("macos") else "mlx-cpu"
        assert {pin for pin in pins if pin.startswith(("mlx-metal", "mlx-cpu"))} == {f"{backend}==0.32.4"}
        assert not any(pin.startswith("macluster") for pin in pins)
    assert {"tools-macos-arm64", "tools-linux-x86_64", "test-model"} == {x.stem for x in LOCKS} - {
        x.stem for x in runtime
    }


def test_the_watching_process_never_imports_mlx() -> None:
    code = "import sys, macluster_inference.engine; print([m for m in sys.modules if m.startswith(('mlx', 'numpy'))])"
    done = subprocess.run([sys.executable, "-c", code], env=environment({}), check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
