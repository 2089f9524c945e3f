"""Subscribes at a kvgate by python3-redis, as kvgate_pubsub_test.py asks. kvgate_python_pubsub.py SOCKET"""

import sys

import redis

PATIENCE_S = 60


def check(got, expected):
    if got != expected:
        raise SystemExit(f"{got!r} is not {expected!r}")


def next_message(pubsub):
    message = pubsub.get_message(timeout=PATIENCE_S)
    return message and (message["type"], message["channel"], message["data"])


def main():
    client = redis.Redis(unix_socket_path=sys.argv[1])
    check(client.config_set("notify-keyspace-events", "KEA"), True)
    check(client.config_get("notify-keyspace-events"), {"notify-keyspace-events": "AKE"})
    with client.pubsub() as pubsub:
        pubsub.psubscribe("__keyspace@0__:user:*")
        check(next_message(pubsub), ("psubscribe", b"__keyspace@0__:user:*", 1))
        pubsub.subscribe("news")
        check(next_message(pubsub), ("subscribe", b"news", 2))
        client.mset({"user:1": "a", "other": "b"})
        check(next_message(pubsub), ("pmessage", b"__keyspace@0__:user:1", b"set"))
        client.delete("user:1")
        check(next_message(pubsub), ("pmessage", b"__keyspace@0__:user:1", b"del"))
        check(client.publish("news", "text"), 1)
        check(next_message(pubsub), ("message", b"news", b"text"))
        pubsub.unsubscribe()
        check(next_message(pubsub), ("unsubscribe", b"news", 1))
    client.close()
    print("done")


if __name__ == "__main__":
    main()
