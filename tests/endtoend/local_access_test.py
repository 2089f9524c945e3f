"""Access to a local socket by users other than the server's, with the real programs."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness

# Users and groups without names.
SERVER, MEMBER, STRANGER = 1500001, 1500002, 1500003
GROUP, OTHER_GROUP = 1600001, 1600002
EX_USAGE, EX_NOPERM = 64, 77


@unittest.skipIf(os.geteuid() != 0, "takes root, to be other users")
class LocalAccessTest(unittest.TestCase):
    def setUp(self):
        # In a folder below which not everybody may put files, which is no place for a server for others.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="remora-", dir="/run"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        self.sockets = self.folder / "sockets"
        self.sockets.mkdir()
        os.chown(self.sockets, SERVER, SERVER)
        self.address = f"local://{self.sockets}/socket"
        # Copies: the build may lie where these users cannot go.
        self.kvserver = shutil.copy(harness.program("kvserver"), self.folder)
        self.kvctl_program = shutil.copy(harness.program("kvctl"), self.folder)

    def command(self, *flags):
        return [self.kvserver, f"--listen={self.address}", "--durability=memory", "--memory=32M", *flags]

    def serve(self, *flags, umask=0o077, groups=(), **options):
        ready, write_end = os.pipe()
        with open(self.folder / "errors", "wb") as errors:
            server = subprocess.Popen(
                self.command(f"--ready_fd={write_end}", *flags),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=[write_end],
                user=SERVER, group=SERVER, extra_groups=list(groups), umask=umask, **options,
            )  # fmt: skip
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        os.close(write_end)
        with os.fdopen(ready, "rb") as lines:
            self.assertEqual(lines.read(), b"ready\n", (self.folder / "errors").read_bytes())
        return server

    def rejected(self, status, *flags, umask=0o077, groups=()):
        run = subprocess.run(
            self.command(*flags), stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
            user=SERVER, group=SERVER, extra_groups=list(groups), umask=umask,
        )  # fmt: skip
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertRegex(run.stderr, rb"\Akvserver: [^\n]+\n\Z")
        self.assertFalse((self.sockets / "socket").exists())
        return run.stderr.decode()

    def kvctl(self, user, *arguments, group=None, groups=(), inside=()):
        """`inside`: a command that runs it elsewhere."""
        return subprocess.run(
            [*inside, self.kvctl_program, f"--server={self.address}", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=harness.PATIENCE, check=False, user=user, group=group or user, extra_groups=list(groups), cwd="/",
        )  # fmt: skip

    def expect_served(self, user, **credentials):
        run = self.kvctl(user, "put", "key", f"of {user}", **credentials)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        run = self.kvctl(user, "get", "key", **credentials)
        self.assertEqual((run.returncode, run.stdout.decode()), (0, f"of {user}"))

    def expect_rejected(self, user, says, **credentials):
        run = self.kvctl(user, "get", "key", **credentials)
        self.assertEqual(run.returncode, EX_NOPERM, run.stderr)
        self.assertIn(says, run.stderr)

    def test_the_owner_alone(self):
        self.serve()
        self.expect_served(SERVER)
        self.expect_served(0)
        self.expect_rejected(MEMBER, b"Permission denied", groups=[SERVER])
        self.expect_rejected(MEMBER, b"become a member of the socket's group", groups=[SERVER])
        # Also where the file lets them through.
        (self.sockets / "socket").chmod(0o666)
        self.expect_rejected(MEMBER, b"does not serve uid %d; run this process as uid 1500001, as root" % MEMBER, groups=[SERVER])

    def test_a_group(self):
        self.serve("--local_access=group", f"--socket_group={GROUP}", "--socket_mode=660", groups=[GROUP])
        socket = os.stat(self.sockets / "socket")
        self.assertEqual((socket.st_gid, socket.st_mode & 0o777), (GROUP, 0o660))
        self.expect_served(MEMBER, groups=[OTHER_GROUP, GROUP])
        self.expect_served(MEMBER, group=GROUP)
        self.expect_served(MEMBER, groups=[*range(1700000, 1700200), GROUP])
        self.expect_served(SERVER)
        self.expect_served(0)
        self.expect_rejected(STRANGER, b"Permission denied", groups=[OTHER_GROUP])
        (self.sockets / "socket").chmod(0o666)
        self.expect_rejected(STRANGER, b"--local_access", groups=[OTHER_GROUP])
        self.expect_rejected(STRANGER, b"--local_access", groups=range(1700000, 1700200))

    def test_the_group_of_the_directory(self):
        os.chown(self.sockets, SERVER, GROUP)
        self.sockets.chmod(0o2750)
        self.serve("--local_access=group", umask=0o007)
        self.assertEqual(os.stat(self.sockets / "socket").st_gid, GROUP)
        self.expect_served(MEMBER, groups=[GROUP])
        self.expect_rejected(STRANGER, b"Permission denied")

    def test_anyone(self):
        server = self.serve("--local_access=anyone", umask=0)
        self.expect_served(STRANGER)
        self.expect_served(MEMBER)
        server.terminate()
        self.assertEqual(server.wait(harness.PATIENCE), 0)
        self.assertFalse((self.sockets / "socket").exists())

    def test_a_client_in_a_container(self):
        # Namespaces of its own: its process has another number there, and its user none.
        container = ["unshare", "--user", "--pid", "--fork", "--ipc", "--uts", "--cgroup"]
        probe = subprocess.run([*container, "id", "-u"], capture_output=True, check=False, user=MEMBER, group=MEMBER, cwd="/")
        if probe.returncode != 0:
            self.skipTest(f"this system makes no namespaces for a user: {probe.stderr.decode()}")
        self.assertNotEqual(int(probe.stdout), MEMBER)
        self.serve("--local_access=group", f"--socket_group={GROUP}", "--socket_mode=660", groups=[GROUP])
        self.expect_served(MEMBER, groups=[GROUP], inside=container)
        self.expect_rejected(STRANGER, b"Permission denied", groups=[OTHER_GROUP], inside=container)
        (self.sockets / "socket").chmod(0o666)
        self.expect_rejected(STRANGER, b"--local_access", groups=[OTHER_GROUP], inside=container)

    def test_roles_by_token(self):
        lines = {}
        for role in ("read-only", "read-write"):
            lines[role] = subprocess.run(
                [self.kvctl_program, "create_token", role, f"--role={role}"], capture_output=True, check=True, text=True
            ).stdout
        tokens = self.folder / "tokens"
        tokens.write_text("".join(lines.values()))
        tokens.chmod(0o600)
        os.chown(tokens, SERVER, SERVER)
        self.serve("--local_access=anyone", "--socket_mode=666", f"--tokens={tokens}")
        files = {}
        for role, line in lines.items():
            files[role] = self.folder / role
            files[role].write_text(line)
            files[role].chmod(0o600)
            os.chown(files[role], STRANGER, STRANGER)
        self.expect_rejected(STRANGER, b"an auth token")
        self.assertEqual(self.kvctl(STRANGER, "put", "a", "b", f"--token_file={files['read-write']}").returncode, 0)
        run = self.kvctl(STRANGER, "get", "a", f"--token_file={files['read-only']}")
        self.assertEqual((run.returncode, run.stdout), (0, b"b"))
        self.assertEqual(self.kvctl(STRANGER, "put", "a", "c", f"--token_file={files['read-only']}").returncode, EX_NOPERM)

    def test_access_that_nobody_would_get(self):
        error = self.rejected(EX_USAGE, "--local_access=group", umask=0o022)
        self.assertIn("the umask keeps the group from", error)
        self.assertIn("--socket_mode", error)
        self.assertIn("other users", self.rejected(EX_USAGE, "--local_access=anyone", umask=0o002))
        self.assertIn(f"to group {GROUP}", self.rejected(EX_NOPERM, "--local_access=group", f"--socket_group={GROUP}"))

    def test_bad_flags(self):
        for flag in ("--socket_mode=999", "--socket_mode=0o660", "--socket_mode=1777", "--socket_mode=66", "--socket_mode=",
                     "--socket_mode=-660", "--socket_group=no-such-group", "--socket_group=4294967295", "--socket_group=",
                     "--socket_group=-1", "--local_access=all"):  # fmt: skip
            with self.subTest(flag=flag):
                self.assertIn(flag.split("=")[0], self.rejected(EX_USAGE, flag))

    def test_a_place_where_anyone_may_put_a_socket(self):
        self.sockets.chmod(0o1777)
        self.serve("--local_access=anyone", "--socket_mode=666")
        self.expect_rejected(STRANGER, b"any user may put a socket")
        self.expect_served(SERVER)
        self.expect_served(0)
        self.sockets.chmod(0o755)
        self.expect_served(STRANGER)


if __name__ == "__main__":
    unittest.main()
