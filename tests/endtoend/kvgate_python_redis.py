"""Uses a kvgate by python3-redis, as kvgate_test.py asks. kvgate_python_redis.py SOCKET"""

import sys

import redis


def check(got, expected):
    if got != expected:
        raise SystemExit(f"{got!r} is not {expected!r}")


def use(client):
    check(client.set("key", b"\x00value\r\n", ex=100), True)
    check(client.get("key"), b"\x00value\r\n")
    check(0 < client.ttl("key") <= 100, True)
    check(client.mset({"a": 1, "b": 2}), True)
    check(client.mget("a", "none", "b"), [b"1", None, b"2"])
    check(client.incrby("a", 10), 11)
    check(client.delete("a", "b", "none"), 2)
    pipeline = client.pipeline(transaction=False)
    for i in range(500):
        pipeline.set(f"p{i}", i).get(f"p{i}")
    check(pipeline.execute()[1::2], [str(i).encode() for i in range(500)])
    check(client.info("server")["redis_mode"], "standalone")
    check(client.client_setname("name"), True)
    check(client.client_getname(), "name")
    try:
        client.lpush("list", 1)
    except redis.ResponseError as error:
        check("unknown command" in str(error), True)
    else:
        raise SystemExit("there are no lists")


def main():
    with redis.Redis(unix_socket_path=sys.argv[1], single_connection_client=True) as client:
        use(client)
    print("done")


if __name__ == "__main__":
    main()
