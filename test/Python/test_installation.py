# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package next to others of the same name, and as a program."""

import os
import pathlib
import subprocess
import sys

import mpc
import pytest

PACKAGE = pathlib.Path(mpc.__file__).parent


def run(site: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(site)})


@pytest.fixture(name="site")
def copied_site(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder like site-packages with links to the files of the package."""
    (tmp_path / "mpc").mkdir()
    for file in PACKAGE.iterdir():
        (tmp_path / "mpc" / file.name).symlink_to(file)
    (tmp_path / "mpc_compiler.py").symlink_to(PACKAGE.parent / "mpc_compiler.py")
    return tmp_path


def test_the_package_is_a_program(site: pathlib.Path) -> None:
    done = run(site, "-m", "mpc", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"mpc {mpc.__version__}")


@pytest.mark.parametrize("arguments", [["-c", "import mpc"], ["-c", "import mpc.train"], ["-m", "mpc"]])
def test_a_folder_with_another_package_is_refused(site: pathlib.Path, arguments: list[str]) -> None:
    """Either package may have been installed last."""
    (site / "mpc" / "lqr_step.py").touch()
    for last in ("mpc-compiler", "mpc"):
        if last == "mpc":
            (site / "mpc" / "__init__.py").unlink()
            (site / "mpc" / "__init__.py").touch()
            if arguments[1] == "import mpc":
                continue
        done = run(site, *arguments)
        assert done.returncode != 0
        assert "has files of two packages, mpc-compiler and the control-theory library mpc" in done.stderr


def test_a_missing_program_is_reported(site: pathlib.Path) -> None:
    (site / "mpc" / "bin").unlink()
    done = run(site, "-m", "mpc", "--version")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and "cannot be started: No such file or directory" in done.stderr
