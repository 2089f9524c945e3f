"""The first program, in Python. It needs a server:  kvserver --listen=local:///tmp/remora.sock --durability=memory"""

import sys

import remora

with remora.Client(sys.argv[1] if len(sys.argv) > 1 else "local:///tmp/remora.sock") as store:
    store["greeting"] = "hello, world"
    print(store["greeting"].decode())
