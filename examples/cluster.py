"""Several servers as one store, in Python. It needs a topology file and its servers, for instance:

    kvserver --shards=4 --listen=local:///tmp/remora.sock --data_dir=/tmp/remora --durability=logged --memory=1G
    python3 examples/cluster.py /tmp/remora/topology ada "Ada Lovelace"

Stores a user's name and the number of its changes together, then shows all users of all servers.
"""

import sys

import remora


def read(store: remora.ClusterClient, key: str) -> tuple[bytes, int]:
    """Returns the value, and the condition of a write that is to follow it."""
    try:
        return store.get_versioned(key)
    except remora.NotFound:
        return b"", remora.ABSENT


def main(topology: str, user: str, name: str) -> None:
    # The braces put both keys into one slot, so that a batch can write them.
    name_key, changes_key = f"user:{{{user}}}:name", f"user:{{{user}}}:changes"
    with remora.ClusterClient(topology) as store:
        while True:
            changes, condition = read(store, changes_key)
            batch = remora.Batch()
            batch.put(name_key, name)
            batch.put(changes_key, changes + b"+", condition=condition)
            try:
                store.apply(batch)
                break
            except remora.Error:
                # Another program may have been faster; then this one begins again.
                if read(store, changes_key)[1] == condition:
                    raise
        for key, value in store.scan(prefix="user:"):
            print(key.decode(), "=", value.decode())


if len(sys.argv) != 4:
    sys.exit("usage: cluster.py TOPOLOGY USER NAME")
main(*sys.argv[1:])
