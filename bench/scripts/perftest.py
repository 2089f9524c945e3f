"""perftest's programs beside those of the project: the same device, with itself, over the connection manager."""

import re
import shutil
import subprocess

import runs

PROGRAMS = {"read": "ib_read_lat", "write": "ib_write_lat", "send": "ib_send_lat"}


def is_installed():
    return all(shutil.which(program) for program in PROGRAMS.values())


def latency_us(kind, host, size, iterations):
    """The program's typical time (its median) for so many bytes, in microseconds. A READ takes from its post to its completion;
    a WRITE or SEND takes half of the time of one there and one back."""
    program = PROGRAMS[kind]
    command = [program, "-R", "-F", f"--size={size}", f"--iters={iterations}", f"--port={runs.free_port()}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            # The server says nothing when it listens, so its client tries until it does.
            for _ in range(100):
                done = subprocess.run(
                    [*command, host], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600
                )
                found = re.search(rf"^\s*{size}\s+\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)", done.stdout, re.MULTILINE)
                if found:
                    return float(found.group(1))
                if server.poll() is not None:
                    break
        except subprocess.TimeoutExpired as error:
            raise runs.Failure(f"{program} did not end within {error.timeout} s") from error
        finally:
            server.kill()
    raise runs.Failure(f"{program}: {done.stdout.strip()}")
