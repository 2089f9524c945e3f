"""Uses gates as nodes of a Redis Cluster by python3-redis, as kvgate_nodes_test.py asks.

    kvgate_python_nodes.py PORT [CA]     CA: over TLS, the certificate of the authority
"""

import sys

import redis.cluster

KEYS = 300


def check(got, expected):
    if got != expected:
        raise SystemExit(f"{got!r} is not {expected!r}")


def use(client):
    check(len(client.get_primaries()), 2)
    values = {f"key{i * i}": str(i).encode() for i in range(KEYS)}
    # It divides them by the slots of Redis, and sends an MSET for each slot. Some have two keys.
    check(len({client.keyslot(key) for key in values}) < KEYS, True)
    check(all(client.mset_nonatomic(values)), True)
    check(client.mget_nonatomic(list(values)), list(values.values()))
    for key, value in values.items():
        check(client.get(key), value)
        check(client.append(key, "x"), len(value) + 1)
    pipeline = client.pipeline()
    for key in values:
        pipeline.set(key, 5).incr(key)
    check(pipeline.execute()[1::2], [6] * KEYS)
    check(client.mset({"{42}:a": 1, "{42}:b": 2}), True)
    check(client.rename("{42}:a", "{42}:c"), True)
    check(client.exists("{42}:a", "key1", "key4"), 2)
    # These ask each node, and put the replies together.
    check(client.dbsize(target_nodes=client.PRIMARIES), KEYS + 2)
    check(sorted(client.keys("key*", target_nodes=client.PRIMARIES)), sorted(key.encode() for key in values))
    check(sorted(client.scan_iter("key*")), sorted(key.encode() for key in values))
    check(client.delete(*values), KEYS)
    check(client.dbsize(target_nodes=client.PRIMARIES), 2)
    check(all(client.flushall(target_nodes=client.PRIMARIES).values()), True)
    check(client.dbsize(target_nodes=client.PRIMARIES), 0)


def main():
    tls = {"ssl": True, "ssl_ca_certs": sys.argv[2]} if len(sys.argv) > 2 else {}
    with redis.cluster.RedisCluster(host="127.0.0.1", port=int(sys.argv[1]), **tls) as client:
        use(client)
    print("done")


if __name__ == "__main__":
    main()
