"""Builds the wheel with the standard library alone, so that `pip wheel --no-deps --no-index` works offline.

The same sources give the same bytes (fixed order, times and modes): a bundle is addressed by its content.
"""

from __future__ import annotations

import base64
import hashlib
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
TAG = "py3-none-any"
EPOCH = (1980, 1, 1, 0, 0, 0)


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Nothing is needed."""
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Write the wheel; returns its file name."""
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix(): path.read_bytes()
        for path in sorted(source.glob("macluster_inference/**/*"))
        if path.is_file() and (path.suffix == ".py" or path.name == "py.typed")
    }
    return _write(Path(wheel_directory), files)


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Write a wheel that points to this folder; returns its file name."""
    return _write(Path(wheel_directory), {"macluster_inference.pth": f"{ROOT / 'src'}\n".encode()})


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """There is none: the package is a part of macluster's repository."""
    raise NotImplementedError("macluster-inference is only built as a wheel")


def _write(folder: Path, files: dict[str, bytes]) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    info = f"{stem}.dist-info"
    wheel = ["Wheel-Version: 1.0", "Generator: macluster-inference", "Root-Is-Purelib: true", f"Tag: {TAG}", ""]
    files = {
        **files,
        f"{info}/METADATA": "\n".join([*_metadata(project), ""]).encode(),
        f"{info}/WHEEL": "\n".join(wheel).encode(),
    }
    record = [f"{name},sha256={_hash(data)},{len(data)}" for name, data in files.items()]
    record.append(f"{info}/RECORD,,")
    files[f"{info}/RECORD"] = "\n".join([*record, ""]).encode()
    name = f"{stem}-{TAG}.whl"
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return name


def _metadata(project: dict[str, Any]) -> Iterator[str]:
    yield "Metadata-Version: 2.1"
    yield f"Name: {project['name']}"
    yield f"Version: {project['version']}"
    yield f"Summary: {project['description']}"
    yield f"License: {project['license']['text']}"
    yield f"Requires-Python: {project['requires-python']}"
    for requirement in project["dependencies"]:
        yield f"Requires-Dist: {requirement}"
    for extra, requirements in project["optional-dependencies"].items():
        yield f"Provides-Extra: {extra}"
        for requirement in requirements:
            yield f'Requires-Dist: {requirement} ; extra == "{extra}"'


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
