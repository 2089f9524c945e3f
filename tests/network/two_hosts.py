"""Two hosts for tests without RDMA: two network namespaces, and between them a network that this process plays.

The network carries the packets of two TUN devices. It can lose, delay, duplicate, reorder and corrupt them, cut the hosts
off from each other, and reset their TCP connections. It needs no root and no module of the kernel: the namespaces belong to
a user namespace.
"""

import contextlib
import fcntl
import heapq
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import threading
import time

SERVER_HOST, CLIENT_HOST = "10.97.0.1", "10.97.0.2"
IN_NAMESPACE = "REMORA_IN_NAMESPACE"
SKIPPED = 77
TUNSETIFF, TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
LONGEST_PACKET = 1 << 16


def enter():
    """Runs this program again in namespaces of its own; ends it if the system has none."""
    if IN_NAMESPACE in os.environ:
        return
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            print(f"skipped: there is no {tool} here (packages util-linux and iproute2)")
            sys.exit(SKIPPED)
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        print("skipped: this user may not open /dev/net/tun")
        sys.exit(SKIPPED)
    namespaces = ["unshare", "--user", "--map-root-user", "--net"]
    tried = subprocess.run([*namespaces, "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        print(f"skipped: the system gives this user no network namespace: {tried.stderr.decode().strip()}")
        sys.exit(SKIPPED)
    os.environ[IN_NAMESPACE] = "1"
    os.execvp(namespaces[0], [*namespaces, sys.executable, "-B", *sys.argv])


def checksum(data):
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def reset_packet(source, destination, ports, sequence):
    """A TCP segment with RST, for the end `destination`."""
    def segment(check):
        return struct.pack("!HHIIBBHHH", *ports, sequence, 0, 5 << 4, 0x04, 0, check, 0)
    pseudo = source + destination + struct.pack("!BBH", 0, 6, 20)
    def header(check):
        return struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, check) + source + destination
    return header(checksum(header(0))) + segment(checksum(pseudo + segment(0)))


class Network:
    """The two hosts and the packets between them. This process and its children are the server's host."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])  # the client's host
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        self.ends = [self.tun("server0"), self.tun("client0")]
        self.run("ip link set client0 netns", str(self.holder.pid))
        self.run("ip link set lo up")
        self.run(f"ip addr add {SERVER_HOST} peer {CLIENT_HOST} dev server0")
        self.run("ip link set server0 up")
        for command in (f"ip addr add {CLIENT_HOST} peer {SERVER_HOST} dev client0", "ip link set client0 up"):
            self.run(*self.on_client_host(), command)
        self.random = random.Random(1)
        self.effects = {}
        self.is_cut = False
        self.resets = 0  # connections to reset at their next packet
        self.carried = self.lost = 0
        self.later, self.number = [], 0
        self.stop_read, self.stop_write = os.pipe()
        self.thread = threading.Thread(target=self.carry)
        self.thread.start()

    def close(self):
        os.close(self.stop_write)
        self.thread.join()
        for fd in (*self.ends, self.stop_read):
            os.close(fd)
        self.holder.kill()
        self.holder.wait()

    @staticmethod
    def tun(name):
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), TUN_WITHOUT_HEADER))
        return fd

    @staticmethod
    def run(*command):
        subprocess.run(" ".join(command).split(), check=True)

    def on_client_host(self):
        """The beginning of a command there."""
        return ["nsenter", f"--target={self.holder.pid}", "--net"]

    def mtu(self, size):
        self.run(f"ip link set server0 mtu {size}")
        self.run(*self.on_client_host(), f"ip link set client0 mtu {size}")

    def carry(self):
        while True:
            now = time.monotonic()
            wait = max(0.0, self.later[0][0] - now) if self.later else None
            readable, _, _ = select.select([*self.ends, self.stop_read], [], [], wait)
            if self.stop_read in readable:
                return
            for which in range(2):
                if self.ends[which] in readable:
                    self.take(which)
            while self.later and self.later[0][0] <= time.monotonic():
                _, _, to, packet = heapq.heappop(self.later)
                self.give(to, packet)

    def take(self, which):
        for _ in range(64):
            try:
                packet = os.read(self.ends[which], LONGEST_PACKET)
            except BlockingIOError:
                return
            self.pass_on(packet, 1 - which)

    def happens(self, effect):
        return self.random.random() < self.effects.get(effect, 0)

    def pass_on(self, packet, to):
        if self.is_cut or self.happens("loss"):
            self.lost += 1
            return
        if self.resets > 0 and packet[0] == 0x45 and packet[9] == 6:
            self.resets -= 1
            self.reset(packet, to)
        if self.happens("corrupt"):
            at = self.random.randrange(len(packet))
            packet = packet[:at] + bytes([packet[at] ^ (1 << self.random.randrange(8))]) + packet[at + 1 :]
        copies = 2 if self.happens("duplicate") else 1
        for _ in range(copies):
            delay = self.effects.get("delay_ms", 0) / 1000 * (0 if self.happens("reorder") else 1)
            if delay == 0:
                self.give(to, packet)
                continue
            self.number += 1
            heapq.heappush(self.later, (time.monotonic() + delay, self.number, to, packet))

    def give(self, to, packet):
        if self.is_cut:
            return
        self.carried += 1
        with contextlib.suppress(OSError):  # a queue that is full, or a packet that was corrupted
            os.write(self.ends[to], packet)

    def reset(self, packet, to):
        """Resets the connection of this packet at both ends."""
        source, destination, tcp = packet[12:16], packet[16:20], packet[20:]
        ports = struct.unpack("!HH", tcp[:4])
        sequence, acknowledged = struct.unpack("!II", tcp[4:12])
        self.give(to, reset_packet(source, destination, ports, sequence))
        self.give(1 - to, reset_packet(destination, source, ports[::-1], acknowledged))
