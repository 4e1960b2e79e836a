"""The examples, and the pages of the README, run as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from punctual.testing import Server
from tests.waiting import LIMIT

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def environment(server: Server, **more: str) -> dict[str, str]:
    paths = [str(EXAMPLES), str(ROOT / "src")]
    return {**os.environ, "PUNCTUAL_URL": server.url, "PYTHONPATH": os.pathsep.join(paths), **more}


def test_django_enqueues_and_punctual_runs(own_server: Server) -> None:
    settings = {"DJANGO_SETTINGS_MODULE": "django_site.settings"}
    env = environment(own_server, **settings)
    worker = subprocess.Popen(
        [sys.executable, "-m", "punctual", "worker", "punctual.django:app"], env=env, stderr=subprocess.DEVNULL
    )
    code = """
import datetime, django, time
django.setup()
from django_site.tasks import fails, welcome

def ended(result):
    end = time.monotonic() + 40
    while not result.is_finished and time.monotonic() < end:
        time.sleep(0.02)
        result.refresh()
    return result

print(ended(welcome.enqueue("Ada", shout=True)).return_value)
later = welcome.using(run_after=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1))
print(later.enqueue("Grace").status)
failed = ended(fails.enqueue())
print(failed.status, failed.errors[0].exception_class.__name__, "attempt 1" in failed.errors[0].traceback)
print(fails.get_result(failed.id).attempts)
"""
    try:
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], env=env, capture_output=True, text=True, check=False
        )
    finally:
        worker.terminate()
        worker.wait(LIMIT)
    assert (ran.stdout, ran.stderr) == ("WELCOME, ADA\nREADY\nFAILED ValueError True\n1\n", "")


def test_fastapi_answers_at_once(own_server: Server) -> None:
    code = """
import datetime, warnings
warnings.simplefilter("ignore")
from fastapi.testclient import TestClient
import fastapi_app, punctual

at = datetime.datetime.now(datetime.timezone.utc)
with TestClient(fastapi_app.api) as api:
    what = {"to": "ada", "text": "tea", "at": (at + datetime.timedelta(hours=1)).isoformat()}
    print(api.post("/reminders/a", params=what).json()["was"], api.post("/reminders/a", params=what).json()["was"])
    print(api.delete("/reminders/a").status_code, api.get("/reminders/a").json()["state"])
    api.post("/reminders/b", params={**what, "at": at.isoformat()})
    with punctual.Worker(fastapi_app.app, pool="asyncio").running():
        fastapi_app.app.client.wait("key:reminder:b")
    print(api.get("/reminders/b").json()["result"], api.delete("/reminders/b").status_code)
    print(api.get("/reminders/c").status_code)
"""
    env = environment(own_server)
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert ran.stdout == "created replaced\n204 stopped\nada: tea 409\n404\n", ran.stderr


def test_the_readme_runs_as_it_is(own_server: Server, tmp_path: Path) -> None:
    """Each block with a file's name above it is that file; the others of ``python`` are run in their order, beside a
    worker."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^`([\w./]+)`:\n\n)?^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    files = {name: text for name, text in blocks if name}
    scripts = [text for name, text in blocks if not name]
    assert set(files) == {"app.py", "test_app.py"}
    assert len(scripts) >= 5
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    env = environment(own_server)
    worker = subprocess.Popen(
        [sys.executable, "-m", "punctual", "worker", "app:app"], cwd=tmp_path, env=env, stderr=subprocess.DEVNULL
    )
    try:
        said = [line for text in scripts for line in re.findall(r"# prints: (.*)$", text, re.MULTILINE)]
        # One process for all: each block is run as if it were alone.
        code = f"for text in {scripts!r}:\n    exec(compile(text, 'README.md', 'exec'), {{'__name__': '__main__'}})"
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stdout.splitlines()) == (0, said), ran.stdout + ran.stderr
    finally:
        worker.terminate()
        worker.wait(LIMIT)
    plugin = ["-p", "punctual.testing.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, "test_app.py"]
    tested = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert " passed" in tested.stdout, tested.stdout + tested.stderr
