"""Remora's client for Python.

    import remora

    with remora.Client("local:///run/remora.sock") as store:
        store["key"] = "value"          # str is UTF-8; so are keys
        store["key"]                    # b'value'; KeyError (remora.NotFound) if there is none
        store.put("key", b"value", ttl=60)
        store.get("other", b"default")
        "key" in store
        del store["key"]
        dict(store)                     # all there is, as bytes; also keys(), values(), items()
        store.get_many(["a", "b"])      # [b'...', None], side by side
        store.put_many({"a": "1"})      # [its version], or the Error of one that was not done; also pairs
        # Either raises an Error if a server is gone; its `outcomes` has what became of each key
        store.put("key", b"value", durability="synced")
        store.increment("hits")         # 1

Writes may depend on what is there: on ABSENT, PRESENT, or a version, and say which version they made.

        value, version = store.get_versioned("key")
        store.put("key", value + b"!", condition=version)   # FailedPrecondition: somebody was faster
        batch = remora.Batch()
        batch.put("from", b"0")
        batch.put("to", b"100")
        store.apply(batch)              # both, or none

A logged server's keys have an order. A scan is of one moment, whatever is written meanwhile:

        for key, value in store.scan(prefix="user/", limit=100): ...
        list(store), len(store), store.items(), store.count(prefix="user/")
        store.delete_range(prefix="tmp/")
        store.put(key, value, ttl=remora.Until(scan.expiry()))  # of a scan of another server's

One that is only in memory keeps no order and no past, except with kvserver --ordered=memory. All of the above goes
there, but a scan has to be asked for in any order. It shows each key that is there all the while exactly once, and others once or not at all:

        for key, value in store.scan(prefix="user/", any_order=True): ...

With --ordered=memory, a one-sided scan reads keys and values in the server's memory, in order, and the server does
nothing. It shows each record as of a moment of its own, and promises for each key what a scan in any order does:

        for key, value in store.scan(prefix="user/", one_sided=True): ...

A program can watch the writes, from now on, or from the position of another watch (of a server that is only in memory:
with kvserver --change_log):

        watch = store.watch(prefix="user/", resume_token=kept)     # OutOfRange: the server dropped the next changes
        for change in watch:                                # waits; with timeout=, ends when none came for so long
            change.kind, change.key, change.value           # "put" or "delete"; None of a deletion
            kept = watch.resume_token()
        store.backup(secrets.randbits(63) | 1)              # where the server's administrator said; waits for it
        for key, value, source in store.settings(): ...     # the flags in force on the server: "memory", "8G", "file"

Keys and values are str, or anything with the buffer protocol: bytes, bytearray, memoryview, array, numpy's. Values are
sent from where they are, and can be read without a copy into memory that was registered:

        buffer = store.register(bytearray(1 << 20))
        view = buffer.get("image")      # a memoryview of that memory

A visit shows a value without a copy where it is in the server's memory, if the client maps that (local://):

        checksum = store.visit("image", zlib.crc32)     # what the function returned
        result, version = store.visit_versioned("image", parse)

The View is for the function alone, and ends with it; so does each part of it, as view[2:5]. It has the buffer protocol.
If other bytes took the place of the value meanwhile, the function is called again, with a copy; its last call counts.
An exception of that call is raised, KeyboardInterrupt and SystemExit of any. BufferError: something holds a buffer of
the view, a memoryview for instance, when the function has returned.

The servers of a cluster share the keys; kvserver --shards=4 starts four, and writes the topology file:

        store = remora.ClusterClient("/var/lib/remora/topology")    # the calls of Client, but for those of one server
        store = remora.ClusterClient("cluster://kv1:7401,kv2:7401") # of shards that fail over, by some of their members

Its calls go on while slots move between the servers. A scan that is in progress then ends with FailedPrecondition, as
it may lack keys, and a watch with OutOfRange: begin anew.

Many operations at once, for asyncio: remora.aio.

When the connection breaks, a client makes another, and no write is done twice (unless reconnect=False: then it fails).
Timeouts are in seconds; math.inf sets no limit.

A call raises a remora.Error if it fails because of the server, the connection or the stored data. It raises
remora.InvalidArgument, which is also a ValueError, if a key, value, resume token or address is out of bounds. A mistake
of the program raises one of Python's own exceptions:

        TypeError, ValueError, OverflowError, BufferError, UnicodeEncodeError   # an argument of the wrong kind
        RuntimeError                            # the client is closed, in use by another thread, or the parent's
        MemoryError, KeyboardInterrupt, and any exception that a signal handler raises

A client has the operators of a dict, but is no collections.abc.Mapping. A value stored as str comes back as bytes.
keys(), values() and items() are iterators, and == compares clients. Other clients may write between two calls, so
dict(store), which gets key by key, may raise NotFound. (dict(store.items()) is one scan.) len(store), and so
bool(store), ask the server. There is no pop, update, setdefault or clear: use conditions, put_many, delete_all.

One thread at a time may use a client, and a forked child must not use it. During a call, other Python threads run, and
the client rejects other calls: those of other threads, of finalizers and of signal handlers. Ctrl-C ends a waiting call
within about 50 ms. A write may or may not have been done then, and the next call makes another connection.
"""

from remora._errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
    Unknown,
)
from remora._remora import ABSENT, PRESENT, Batch, Buffer, Client, ClusterClient, Scan, View, Watch, __version__
from remora._types import Backup, Change, Setting, Until

__all__ = [
    "ABSENT",
    "PRESENT",
    "Aborted",
    "AlreadyExists",
    "Backup",
    "Batch",
    "Buffer",
    "Cancelled",
    "Change",
    "Client",
    "ClusterClient",
    "DataLoss",
    "DeadlineExceeded",
    "Error",
    "FailedPrecondition",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "ResourceExhausted",
    "Scan",
    "Setting",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "Until",
    "View",
    "Watch",
    "__version__",
]
