"""The same grid on a Ray cluster. Ray lives in processes of its own: it warns, and its workers know no import hooks."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from small_grids import small_jobs, write_data

from whichwhen import artifacts
from whichwhen.experiments.records import load_records, read_record

pytest.importorskip("ray", reason="ray is not installed: pip install 'whichwhen[ray]'")

SCRIPT = Path(__file__).with_name("small_grids.py")
EPOCHS = 80
QUIET = {
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_memory_monitor_refresh_ms": "0",
}


def start_grid(folder, *words, **environment):
    return subprocess.Popen(
        [sys.executable, SCRIPT, folder, "--engine", "ray", "--workers", "2", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **QUIET, **environment},
        start_new_session=True,
    )


def stop(process):
    """End a process group that is still there."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture
def short():
    """A folder for Ray's sockets, whose paths may have 107 characters."""
    place = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    yield place
    shutil.rmtree(place, ignore_errors=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(holds, process, seconds=90):
    end = time.monotonic() + seconds
    while not (found := holds()):
        if process.poll() is not None:
            pytest.fail(f"it ended too early: {process.communicate()}")
        if time.monotonic() > end:
            pytest.fail("it never happened")
        time.sleep(0.01)
    return found


def under_way(runs):
    """Epochs behind each run that isn't finished."""
    found = {}
    for note in runs.glob("*.running"):
        history = note.with_suffix("") / artifacts.HISTORY
        found[note.stem] = history.read_bytes().count(b"\n") if history.is_file() else 0
    return found


@pytest.fixture
def cluster(short):
    """Address of a cluster of this test's own, with two workers, and the environment to join it in."""
    address, home = f"127.0.0.1:{free_port()}", short / "home"
    home.mkdir()
    environment = {"HOME": str(home)}  # where Ray would keep, or find, somebody's token
    words = (
        "--port",
        address.rpartition(":")[2],
        "--num-cpus",
        "2",
        "--include-dashboard",
        "false",
        "--temp-dir",
        short / "ray",
    )
    head = subprocess.Popen(
        [Path(sys.executable).with_name("ray"), "start", "--head", "--block", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **QUIET, **environment},
        start_new_session=True,
    )
    try:
        wait_until(lambda: answers(address), head)
        yield address, environment
    finally:
        head.send_signal(signal.SIGTERM)
        try:
            head.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(head.pid, signal.SIGKILL)


def answers(address):
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        socket.create_connection((host, int(port)), timeout=1).close()
        return True
    return False


def test_all_results_arrive_once_when_one_of_two_ray_workers_is_killed(cluster, tmp_path):
    write_data(tmp_path / "data")
    jobs, runs = small_jobs(4, EPOCHS), tmp_path / "runs"
    address, environment = cluster
    grid = start_grid(tmp_path, "--count", "4", "--epochs", str(EPOCHS), "--address", address, **environment)
    try:
        at_once = wait_until(lambda: len(found := under_way(runs)) == 2 and min(found.values()) >= 1 and found, grid)
        pids = {name: json.loads((runs / f"{name}.running").read_text())["pid"] for name in at_once}
        assert len(set(pids.values())) == 2
        assert grid.pid not in pids.values()
        victim, pid = next(iter(pids.items()))
        os.kill(pid, signal.SIGKILL)
        assert not artifacts.is_finished(runs / victim)
        out, err = grid.communicate(timeout=150)
    finally:
        stop(grid)
    assert grid.returncode == 0, err
    outcome, names = json.loads(out.splitlines()[-1]), sorted(job.name for job in jobs)
    assert outcome["done"] == names
    assert (outcome["failed"], outcome["elsewhere"]) == ({}, [])
    assert sorted(outcome["told"]) == [f"{name} done" for name in names]
    records = [read_record(path) for path in (tmp_path / "out" / "records").glob("*.json")]
    assert sorted(record["name"] for record in records) == names
    assert len({record["spec_hash"] for record in records}) == len(jobs)
    assert len(load_records(tmp_path / "out")) == len(jobs)
    (row,) = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert row["n_seeds"] == len(jobs)
    for job in jobs:
        lines = artifacts.load_history(runs / job.spec.hash)
        assert [line["epoch"] for line in lines] == list(range(1, EPOCHS + 1))
    assert not list(runs.glob("*.running"))


def test_without_an_address_a_cluster_is_started_here(short, tmp_path):
    write_data(tmp_path / "data")
    grid = start_grid(tmp_path, "--count", "1", "--epochs", "1", RAY_TMPDIR=str(short), HOME=str(short))
    try:
        out, err = grid.communicate(timeout=150)
    finally:
        stop(grid)
    assert grid.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["done"] == [job.name for job in small_jobs(1, 1)]


def test_a_wrong_address_is_said_in_one_line(tmp_path):
    write_data(tmp_path / "data")
    code = (
        "import sys\n"
        "from whichwhen.errors import EngineError\n"
        "from whichwhen.experiments.runner import RayEngine\n"
        "try:\n"
        "    list(RayEngine(2, sys.argv[1]).run(print, []))\n"
        "except EngineError as error:\n"
        "    print('EngineError:', error)\n"
    )
    address = f"127.0.0.1:{free_port()}"
    done = subprocess.run(
        [sys.executable, "-c", code, address],
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("EngineError:")]
    assert address in line
    assert "ray start --head" in line
