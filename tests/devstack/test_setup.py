"""The set-up deletes nothing that is not its own, and clears up what a killed one left."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

# The interpreter, but `-m venv` only makes a .venv whose pip installs nothing: the real one takes seconds.
PYTHON = f"""#!/bin/sh
[ "$1" = -m ] || exec {sys.executable} "$@"
mkdir "$3/bin"
: >"$3/pyvenv.cfg"
printf '#!/bin/sh\\n[ "$3" != install ]\\n' >"$3/bin/python"
chmod 755 "$3/bin/python"
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the script and what it reads."""
    (tmp_path / "devstack").mkdir()
    shutil.copy(ROOT / "devstack" / "setup.sh", tmp_path / "devstack")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "requirements.lock").write_text("")
    an_executable(tmp_path / "python", PYTHON)
    return tmp_path


def set_up(clone: Path, part: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    environment = {
        **os.environ,
        "PYTHON": str(clone / "python"),
        "AMQP_URL": "amqp://elsewhere",
        "GIVEWAY_POLICY_RC_D": str(clone / "policy-rc.d"),
    }
    command = [str(clone / "devstack" / "setup.sh"), part]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)


def a_venv(clone: Path, *, python: str) -> Path:
    """A .venv that somebody else made, with a file of theirs."""
    venv = clone / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    (venv / "theirs").write_text("")
    an_executable(venv / "bin" / "python", f"#!/bin/sh\n{python}\n")
    return venv


def an_executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_a_venv_without_pip_that_somebody_else_made_stays_and_the_way_out_is_told(clone: Path) -> None:
    venv = a_venv(clone, python='[ "$1" != -m ]')
    ended = set_up(clone, "venv")
    assert ended.returncode == 1
    assert "mv .venv .venv.mine" in ended.stderr
    assert (venv / "theirs").exists()


def test_a_venv_that_somebody_else_made_stays_when_the_installation_fails(clone: Path) -> None:
    venv = a_venv(clone, python='[ "$3" != install ]')
    assert set_up(clone, "venv").returncode == 1
    assert (venv / "theirs").exists()


def test_a_folder_that_is_no_venv_stays(clone: Path) -> None:
    (clone / ".venv").mkdir()
    (clone / ".venv" / "theirs").write_text("")
    assert set_up(clone, "venv").returncode == 1
    assert (clone / ".venv" / "theirs").exists()


@pytest.mark.parametrize("whose", ["broken", "own"])
def test_a_venv_that_is_broken_or_its_own_is_made_again(clone: Path, whose: str) -> None:
    venv = a_venv(clone, python="exit 1" if whose == "broken" else '[ "$1" != -m ]')
    if whose == "own":
        (venv / ".made-by-giveway").write_text("")
    ended = set_up(clone, "venv")
    # The installation fails; by then the .venv is a new one.
    assert ended.returncode == 1
    assert "making .venv" in ended.stderr
    assert not (venv / "theirs").exists()
    assert (venv / ".made-by-giveway").exists()


def test_a_policy_left_by_a_set_up_that_was_killed_is_removed_by_the_next_one(clone: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    policy = clone / "policy-rc.d"
    policy.write_text(f"#!/bin/sh\n# giveway set-up, process {gone.pid}\nexit 101\n")
    assert set_up(clone, "broker").returncode == 0
    assert not policy.exists()


@pytest.mark.parametrize(
    "line", [f"# giveway set-up, process {os.getpid()}", "# of the distribution"], ids=["at work", "anybody"]
)
def test_a_policy_of_a_set_up_at_work_or_of_anybody_else_stays(clone: Path, line: str) -> None:
    policy = clone / "policy-rc.d"
    policy.write_text(f"#!/bin/sh\n{line}\nexit 101\n")
    assert set_up(clone, "broker").returncode == 0
    assert policy.exists()


def set_up_browser(clone: Path, *, chromium: bool) -> subprocess.CompletedProcess[str]:
    """With a folder of programs of its own: those that the script runs, and a Chromium or none. Nobody is root here."""
    programs = clone / "programs"
    programs.mkdir()
    for name in ("bash", "sed", "mkdir", "flock", "dirname", "grep"):
        (programs / name).symlink_to(str(shutil.which(name)))
    an_executable(programs / "id", "#!/bin/sh\necho 1000\n")
    if chromium:
        an_executable(programs / "chromium", "#!/bin/sh\n")
    environment = {"PATH": str(programs), "GIVEWAY_POLICY_RC_D": str(clone / "policy-rc.d")}
    command = [str(programs / "bash"), str(clone / "devstack" / "setup.sh"), "browser"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)


def test_a_machine_without_chromium_and_without_root_is_told_what_to_do_and_goes_on(clone: Path) -> None:
    ended = set_up_browser(clone, chromium=False)
    assert ended.returncode == 0
    assert "apt-get install --no-install-recommends chromium" in ended.stderr


def test_an_installed_chromium_is_left_as_it_is_without_a_word(clone: Path) -> None:
    ended = set_up_browser(clone, chromium=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
