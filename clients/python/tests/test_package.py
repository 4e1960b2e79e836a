"""The package: what it is made of, that it installs where nothing else is, and that all behaviours have a test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

from punctual.testing import find_binary
from tests.conftest import behaviours
from tools.make_sync import made

ROOT = Path(__file__).parents[1]
SMOKE = """
import punctual
from punctual.testing import Engine

assert punctual.__file__.startswith(PREFIX), punctual.__file__
app = punctual.App("smoke")

@app.task
def greet(name: str) -> str:
    return f"hello, {name}"

with Engine() as engine:
    task = engine.work(app).client.insert(greet.task("Ada"), delay="1d")
    assert engine.advance("1d") == 1
    print(engine.client.get(task.ref).result)
"""


def test_every_behaviour_has_a_test() -> None:
    marks = re.compile(r"^@(?:pytest\.mark\.)?conformance\(([^)]*)\)", re.MULTILINE)
    files = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    tested = {int(number) for text in files for numbers in marks.findall(text) for number in numbers.split(",")}
    assert behaviours() == set(range(1, len(behaviours()) + 1))
    assert tested == behaviours()


def test_the_synchronous_client_is_that_of_the_asynchronous_one() -> None:
    for path, text in made().items():
        assert path.read_text() == text, f"{path.name}: python tools/make_sync.py"


def test_types_and_style(tmp_path: Path) -> None:
    mypy = ["mypy", "--cache-dir", str(tmp_path)]
    for command in (mypy, ["ruff", "check", "--no-cache", "."], ["ruff", "format", "--no-cache", "--check", "."]):
        module = [sys.executable, "-m", *command]
        ended = subprocess.run(module, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_wheel_runs_where_nothing_else_is(tmp_path: Path) -> None:
    build = "import hatchling.build, sys; print(hatchling.build.build_wheel(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wheel = tmp_path / built.stdout.split()[-1]
    names = zipfile.ZipFile(wheel).namelist()
    assert "punctual/py.typed" in names
    entry_points = next(name for name in names if name.endswith("/entry_points.txt"))
    assert b"[pytest11]\npunctual = punctual.testing.plugin" in zipfile.ZipFile(wheel).read(entry_points)
    assert not [name for name in names if not re.match(r"punctual(-[\d.]+\.dist-info)?/", name)]
    clean = tmp_path / "clean"
    venv.create(clean, with_pip=False)
    python = clean / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
    ]
    subprocess.run([*pip, str(wheel)], check=True)
    # Beside it what it says that it needs, and nothing else: httpx, and what that needs.
    site = next((clean / "lib").glob("python3*/site-packages"))
    for package in _needed():
        (site / package.name).symlink_to(package)
    smoke = tmp_path / "smoke.py"
    smoke.write_text(f"PREFIX = {str(clean)!r}\n{SMOKE}")
    environment = {"PUNCTUAL_BIN": find_binary(), "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    ran = subprocess.run([python, smoke], capture_output=True, text=True, env=environment, check=False)
    assert (ran.returncode, ran.stdout) == (0, "hello, Ada\n"), ran.stderr


def _needed() -> list[Path]:
    """The files of httpx and of what it needs, in the environment of the tests."""
    from importlib.metadata import distribution, requires

    found: dict[str, list[Path]] = {}
    open_names = ["httpx"]
    while open_names:
        name = open_names.pop()
        if name in found:
            continue
        installed = distribution(name)
        tops = {file.parts[0] for file in installed.files or () if file.parts[0] not in ("..", "__pycache__")}
        found[name] = [Path(str(installed.locate_file(top))) for top in sorted(tops)]
        needed = map(Requirement, requires(name) or ())
        open_names += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    paths = [path for each in found.values() for path in each]
    return [path for path in paths if path.exists()]


def test_version_is_the_same_everywhere() -> None:
    import punctual

    named = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert named
    assert named[1] == punctual.__version__


def test_files_are_short_and_say_what_they_are_for() -> None:
    for file in sorted((ROOT / "src").rglob("*.py")):
        text = file.read_text()
        assert text.startswith('"""'), file
        assert text.count("\n") <= 500, file
