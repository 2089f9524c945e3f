#!/usr/bin/env python3
"""Checks that #includes run only in the allowed directions, and that a source file's first is its own header, which
so is known to compile alone.

    includes.py [ROOT]     prints each fault; exit status 1 if there is one

      tools/  bench/  tests/  examples/     may use everything below; nothing uses them
         client/     server/                never include each other
           \\    rdma/    \\   store/         siblings; neither includes the other
            \\     |       \\   |
             store/format/  store/base/     leaves

    tools/command_line/ and tools/json/ are leaves of their own, for programs: server/main/, and everything at the top.
    server/cluster/ uses tools/json/, too.

PARTS orders the sub-folders of each folder: a file includes files of its own part, and of parts that stand before it.
"""

import pathlib
import re
import sys

# The allowed includes of our own files. The first prefix that matches a file decides.
LAYERS = {
    "store/format/": ("store/format/",),
    "store/base/": ("store/base/",),
    "store/": ("store/",),
    "rdma/": ("rdma/", "store/base/", "store/format/"),
    "client/": ("client/", "rdma/", "store/base/", "store/format/"),
    # kvserver --shards writes the file that clients read.
    "server/main/shard_servers.": ("server/", "rdma/", "store/", "client/cluster/topology.h"),
    # Its servers change it as slots move.
    "server/main/topology_division.": ("server/", "rdma/", "store/", "client/cluster/topology.h"),
    # Its members read the same text in etcd.
    "server/main/etcd_division.": ("server/", "rdma/", "store/", "client/cluster/topology.h"),
    # kvserver --redis checks the nodes of a Redis Cluster as the gate does that it starts.
    "server/main/redis_gate.": ("server/", "rdma/", "store/", "tools/command_line/", "tools/kvgate/cluster/redis_cluster.h",
                                "tools/kvgate/network/listen.h"),
    "server/main/": ("server/", "rdma/", "store/", "tools/command_line/", "tools/json/"),
    "server/cluster/": ("server/", "rdma/", "store/", "tools/json/"),
    "server/": ("server/", "rdma/", "store/"),
    "tools/command_line/": ("tools/command_line/",),
    "tools/json/": ("tools/json/",),
}
TOP = ("tools/", "bench/", "tests/", "examples/")
OURS = tuple(LAYERS) + TOP

# The parts of each folder, from the bottom to the top. A string with "|" has parts that do not include each other; one
# with "," is a part of several prefixes. A file belongs to the part with the longest prefix of its name.
PARTS = {
    "store": (
        "store/base/|store/format/memory/", "store/format/types/|store/format/cluster/",
        "store/format/wire/",
        "store/backup.h|store/scan.h|store/watch.h", "store/region/", "store/index/|store/ordered/", "store/durable/",
        "store/memory_plan, store/options.h, store/write/write., store/read/location.h, store/read/cold_read.h,"
        " store/store.h, store/server_store.h, store/slot_transfer.h, store/delete_range.h", "store/reclaim/access_frequency|store/changes/",
        "store/engine/core, store/engine/disk_health, store/engine/metrics, store/engine/owned_slots, store/engine/writer_lock", "store/reclaim/",
        "store/write/|store/read/index_walk, store/read/ordered_scan, store/read/point_read, store/read/promote", "store/recovery/", "store/engine/",
        "store/read/|store/",
    ),
    "rdma": ("rdma/", "rdma/auth/", "rdma/local/|rdma/tcp/|rdma/verbs/", "rdma/transport.cc"),
    "client": (
        "client/misuse.h, client/options.h, client/counters.h, client/registered_buffer.h, client/scan.h, client/watch.h,"
        " client/async_client.h, client/client_metrics, client/client_pool_counters.h, client/metrics/",
        "client/cache/|client/session/access_hints, client/session/fork_guard, client/session/call_guard, client/session/known_slots, client/session/server_",
        "client/region/", "client/mirror/", "client/rpc/", "client/session/", "client/get/|client/put/",
        "client/scan/|client/async/", "client/", "client/cluster/", "client/c/", "client/python/",
    ),
    "server": (
        "server/monitoring/|server/memory/", "server/connection/", "server/request/", "server/replication/", "server/cluster/",
        "server/event_loop, server/loop_handover, server/wake_signals",
        "server/|server/http/", "server/main/",
    ),
    "bench": ("bench/core_workloads.inc", "bench/kvbench/load/target.h", "bench/peers/", "bench/kvbench/", "bench/micro/|bench/ratios/"),
}

# Third parties, and the files below the top that may include them.
THIRD_PARTIES = [
    (re.compile(r"rdma/rdma_\w+\.h$|infiniband/"), re.compile(r"rdma/verbs/\w+\.(h|cc)$")),
    (re.compile(r"rocksdb/"), re.compile(r"store/durable/((tier_log/|wal/)?\w+\.cc|tier_impl\.h)$")),
    (re.compile(r"openssl/"), re.compile(r"rdma/auth/hmac\.cc$|rdma/tcp/stream/tls_\w+\.cc$")),
    (re.compile(r"xxhash\.h$"), re.compile(r"store/|client/")),
    (re.compile(r"httplib\.h$"), re.compile(r"server/http/http_responder\.cc$")),
    (re.compile(r"prometheus/"), re.compile(r"server/http/exposition\.cc$")),
    (re.compile(r"jansson\.h$"), re.compile(r"tools/json/|server/main/(server_log|settings)\.cc$")),
    (re.compile(r"curl/"), re.compile(r"server/cluster/config_store\.cc$")),
    (re.compile(r"Python\.h$"), re.compile(r"client/python/\w+\.h$")),
    (re.compile(r"absl/"), re.compile(r"(store/(?!format/)|rdma/|client/|server/)")),
]
# The compiler's own header of vector instructions counts as one of it.
STANDARD_LIBRARY = re.compile(r"[a-z_0-9]+$|emmintrin\.h$")
SYSTEM = re.compile(r"(sys|linux|netinet|arpa|net|asm)/\w+\.h$|\w+\.h$")

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def part_of(file):
    """The folder that orders the parts, and the place of the file's part in it; None where nothing does."""
    folder = file.split("/")[0]
    found = (0, None)
    for place, parts in enumerate(PARTS.get(folder, ())):
        for part in parts.split("|"):
            for prefix in part.split(", "):
                if file.startswith(prefix):
                    found = max(found, (len(prefix), (place, part)))
    return found[1] and (folder, *found[1])


def is_upward(file, include):
    of, to = part_of(file), part_of(include)
    if of is None or to is None or of[0] != to[0]:
        return False
    return to[1] > of[1] or (to[1] == of[1] and to[2] != of[2])


def why_forbidden(file, include):
    """The reason why `file` (relative to the root) may not include `include`, or None."""
    if is_upward(file, include):
        return "its part stands above, or beside, that of the file (PARTS)"
    if file.startswith(TOP) and not file.startswith(("tools/command_line/", "tools/json/")):
        return None
    # Before our own folders: librdmacm's headers lie in a folder that is called as one of ours.
    for pattern, users in THIRD_PARTIES:
        if pattern.match(include):
            return None if users.match(file) else "this third party is not for this file"
    if include.startswith(OURS):
        allowed = next(allowed for layer, allowed in LAYERS.items() if file.startswith(layer))
        return None if include.startswith(allowed) else "against the direction of the layers"
    if STANDARD_LIBRARY.match(include):
        return None
    if SYSTEM.match(include):
        return "formats use the standard library alone" if file.startswith("store/format/") else None
    return "neither ours, by its path from the root, nor a known third party"


def check(root):
    faults = []
    files = [path for layer in OURS for path in sorted((root / layer).rglob("*")) if path.suffix in (".h", ".c", ".cc")]
    for path in dict.fromkeys(files):
        file = path.relative_to(root).as_posix()
        includes = INCLUDE.findall(path.read_text(encoding="utf-8"))
        header = path.with_suffix(".h")
        if path.suffix == ".cc" and header.exists():
            if includes[:1] not in ([header.name], [header.relative_to(root).as_posix()]):
                faults.append(f"{file}: its first include is not {header.name}")
        for include in includes:
            if reason := why_forbidden(file, include):
                faults.append(f"{file}: includes {include}: {reason}")
    return len(set(files)), faults


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    count, faults = check(root)
    for fault in faults:
        print(fault)
    print(f"{count} files, {len(faults)} faults")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
