#!/usr/bin/env python3
"""Writes the seeds of each harness: inputs that get far, from which a fuzzer goes on.

  make_corpus.py DIRECTORY      (tests/fuzz/corpus)

Inputs that a fuzzer has found beside them stand in the same directories, named by their hash
(tools/fuzz --keep).
"""
import os
import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / 'bench' / 'workloads'
LOCAL_VERSION = int(re.search(r'kLocalVersion = (\d+);', (ROOT / 'rdma' / 'local/wire.h').read_text())[1])


# As kvbench --json writes it.
PHASE = (
    b'{"phase":"load","seconds":0.000231305,"client_cpu_seconds":0.00031299999999999904,"operations":10,"o'
    b'perations_per_second":43232.960809321026,"by_operation":{"insert":{"mean_ns":23112.4,"min_ns":460,"p'
    b'50_ns":711,"p90_ns":1775,"p95_ns":223784,"p99_ns":223784,"p999_ns":223784,"p9999_ns":223784,"max_ns"'
    b':223784,"operations":10,"latency":{"sum_ns":231124,"min_ns":460,"max_ns":223784,"cells":[[358,1],[60'
    b'5,9]]}}},"interval_seconds":1.0,"series":[],"client":{"reads":0},"server":{"keys":10},"errors":[]}'
)


def batch_entry(key, value, kind=1, condition=0, ttl=0):
    return struct.pack('<QqIHBB', condition, ttl, len(value), len(key), kind, 0) + key + value


def scan_start(kind, begin=b'', end=b'', page=0, flags=0):
    window = struct.pack('<QQII', 4096, 1 << 20, 7, 0)
    return (window + struct.pack('<QIIQQIHH', 0, page, kind, 0, 0, flags, len(begin), len(end)) + bytes(16) + begin + end)


def request(operation, key_size=3, value_size=5, condition=0, ttl=0):
    return struct.pack('<QQQqQIHBBB7x', 1, 0, 0, ttl, condition, value_size, key_size, operation, 0, 0)


def hello(data=b'hello'):
    return struct.pack('<QII', 0x6c61636f6c6d6572, LOCAL_VERSION, len(data)) + data.ljust(56, b'\0')


def text(piece):
    return bytes([len(piece)]) + piece


def messages():
    yield 'batch', b'\0' + batch_entry(b'a', b'one') + batch_entry(b'b', b'', kind=2)
    yield 'batch_cut', b'\0' + batch_entry(b'a', b'one')[:-1]
    yield 'scan', b'\1' + scan_start(1, b'a', b'b', page=4096)
    yield 'count', b'\1' + scan_start(3)
    yield 'changes', b'\1' + scan_start(5, page=4096)
    yield 'request', b'\2' + request(1, ttl=1000)


def texts():
    for name, which, what in (('token', 0, b'AQAAAAAAAA'), ('changes', 1, b'AgAAAAAAAA'), ('ttl', 2, b'10m'), ('ttl_never', 2, b'never'),
                              ('local', 3, b'local:///tmp/remora'), ('verbs', 3, b'verbs://10.0.0.1:7471'),
                              ('verbs6', 3, b'verbs://[fe80::1%eth0]:7471'), ('sealed', 4, b'\1\0\1\0\1\0ab'), ('round', 7, b'any \xff'),
                              ('config', 8, b'# one\nlisten = local:///a b # two\ndir = " \\\\a\\" #"\n'),
                              ('topology', 9, b'remora-topology 1\n# one\nshard a 0-9,11 local:///a b\nshard b 10,12-16383 tcp://kv:1\n'),
                              ('secret', 5, b'# mine\napp read-write ' + b'0f' * 16 + b'\n'),
                              ('tokens', 6, b'app read-write ' + b'0f' * 16 + b' connections=5\nother read-only ' + b'A' * 22 + b'\n')):
        yield name, bytes([which]) + what


def files():
    yield 'workload', b'\0' + (WORKLOADS / 'workloada').read_bytes()
    yield 'properties', b'\0recordcount=10\nread\\\nproportion: 0.5\n! comment\nfieldlength 7\n'
    yield 'report', b'\1' + b'{"format":1,"version":"0.1.0","settings":{"target":"embedded"},"phases":[' + PHASE + b'],"errors":0}'
    yield 'phase', b'\2' + PHASE
    yield 'first', b'\3{"remora_export":1}'
    yield 'record', b'\3{"key":"a","value":"b","expires_ms":5,"version":1}'
    yield 'last', b'\3{"records":7}'
    yield 'set', (b'\4{"remora_backup_set":1,"set":3,"unix_s":5,"topology":"remora-topology 2\\ncluster 0123456789abcdef\\nshard a 0-16383 tcp://kv:1\\n",'
                  b'"backups":[{"shard":"a","backup":5,"version":1234,"bytes":4096,"new_bytes":512}]}')


def region():
    # A slot that leads to a small record behind it, again and again.
    slot = struct.pack('<Q', 0x001 << 52 | 4 << 40 | 64)
    record = struct.pack('<QQIHHQ', 3, 0, 1, 1, 0, 0) + b'kv' + bytes(14)
    for name, flags in (('honest', 0), ('sealed', 1)):
        yield name, bytes([flags]) + text(b'k') + struct.pack('<BI', 3, 1) + record + slot * 4
    yield 'chain', b'\0' + text(b'k') + struct.pack('<BI', 0, 0) + struct.pack('<Q', 38 << 56 | 3) * 4
    yield 'cold', b'\0' + text(b'k') + struct.pack('<BI', 0, 0) + bytes(8)


def log():
    record = b'\0' * 12 + b'something'
    yield 'short', struct.pack('<IHB', 0, len(record), 1) + record[:5]
    yield 'wrong', struct.pack('<IHB', 0, len(record), 1) + record
    yield 'padding', bytes(64)


def commit_log():
    def group(how, key, value=b''):
        return b'\1\0' + bytes([how]) + text(key) + (b'' if how & 1 else text(value)) + b'\0'
    groups = group(0, b'key', b'value') + group(3, b'gone') + b'\0' + group(10, b'other', b'v' * 200)[1:] + group(0, b'k', b'')
    for name, how in (('whole', 0), ('this_boot', 4)):
        yield name, bytes([how, 4]) + groups
    for name, change in (('changed_key', b'\0' + struct.pack('<HB', 160, 1)), ('changed_header', b'\1' + struct.pack('<HB', 20, 1)),
                         ('changed_size', b'\0' + struct.pack('<HB', 64 + 12, 8)), ('changed_entry', b'\0' + struct.pack('<HB', 64 + 80, 255))):
        yield name, bytes([0, 4]) + groups + change
        yield name + '_sealed', bytes([2, 4]) + groups + change
    header = struct.pack('<QIIQQQQQII', 0, 0x50524752, 64 + 32, 64, 1, 0, 7, 0, 1, 0)
    yield 'group', b'\3' + struct.pack('<Q', 64) + header + struct.pack('<QQIHBB', 7, 0, 5, 3, 1, 0) + b'keyvalue'
    yield 'group_of_too_many', b'\3' + struct.pack('<Q', 64) + header + struct.pack('<QQIHBB', 7, 0, 2**32 - 1, 3, 1, 0) + b'keyvalue'


def handshake():
    yield 'hello', b'\0' + hello()
    yield 'hello_with_memory', b'\2' + hello()
    yield 'hello_with_many', b'\x3e' + hello()
    yield 'reply', b'\x47' + bytes(416)
    yield 'reply_cut', b'\1' + hello()[:12]


def ordered():
    # A change is a byte (% 4: 0 a look, 1 an erase, else an insert) and a key: its size - 1 (128: a long one), its bytes.
    def change(kind, key, shape=0):
        return bytes([kind, shape | (len(key) - 1)]) + key
    keys = [bytes([97 + i * 7 % 26, 97 + i % 5]) for i in range(40)]
    fill = b''.join(change(2, key) for key in keys)
    yield 'grows_and_shrinks', b'\0' + fill + change(8, b'a') + b''.join(change(1, key) for key in keys)
    yield 'large_between_small', b'\x50' + fill + change(2, b'm', 0x98) + change(2, b'mm', 0xb0) + change(4, b'a') + b'\0z'
    yield 'ascends', b'\x10' + b''.join(change(2, b'key' + bytes([48 + i])) for i in range(60)) + change(16, b'k')


def leaf():
    def block(entries, count, fences=b'', low=(0, 0), high=(0, 0)):
        return struct.pack('<QQQHHHHHHI', 0, 1, 4096, len(entries), count, *low, *high, 0) + entries + fences
    entries = b'\0\3pea\3\1r\1\3lum'
    yield 'only', block(entries, 3)
    yield 'between', block(entries, 3, b'aq', (1, 1), (0, 1))
    yield 'wrong_fences', block(entries, 3, b'qa', (0, 1), (0, 1))
    yield 'descends', block(b'\0\1b\0\1a', 2)
    yield 'large_numbers', block(b'\0\xe1\x2c' + b'k' * 300 + b'\xe1\x2c\1l', 2)
    yield 'cut', block(b'\0\5pea', 1)


def ring():
    yield 'messages', bytes([0x10, 3, 100, 0, 5, 4, 10, 0, 2, 0x30, 11, 0, 4, 5, 5])
    yield 'of_many_slots', bytes([4, 0, 0x20, 2, 4, 0, 0x20, 0xf0, 0x10, 3, 0, 0x10, 5])
    yield 'lies', bytes([1]) + b'\xff' * 8 + bytes([5, 3, 0xff, 0xff, 0x10, 5, 66]) + b'\xff' * 8 + bytes([4, 0, 1])


def frames():
    # An operation is a byte, what % 8: 0 PostRecv, 1 Strike, 2 Take, 3 noise, else a frame (64: cut in two).
    def frame(kind, size, key, offset, payload=b'', cut=0):
        return bytes([4 | cut, kind, size, key, offset, len(payload)]) + payload
    read, write, message, end = (lambda *a, **k: frame(1, *a, **k)), (lambda *a, **k: frame(3, *a, **k)), (lambda *a, **k: frame(4, *a, **k)), (lambda *a, **k: frame(5, *a, **k))
    yield 'reads', b'\0' + read(64, 1, 0) + read(100, 1, 200) + read(0, 1, 0) + read(32, 9, 8)
    yield 'read_outside', b'\0' + read(64, 1, 0) + read(200, 9, 200) + read(1, 1, 0)
    yield 'writes', b'\0' + write(5, 9, 3, b'bytes') + write(9, 9, 200, b'and more!', cut=64) + read(20, 9, 0)
    yield 'write_outside', b'\0' + write(5, 1, 0, b'bytes')
    yield 'struck', b'\0' + write(9, 9, 0, b'half') + b'\1' + b'\3' + text(b'other half')
    yield 'messages', b'\0\0\0' + message(4, 0, 0, b'word') + b'\2' + message(0, 0, 0) + message(5, 0, 0, b'parked'[:5]) + b'\0\2'
    yield 'long_message', b'\0\0' + message(65, 0, 0, b'x' * 65)
    yield 'end', b'\0' + end(3, 14, 0, b'bye') + read(1, 1, 0)
    yield 'noise', b'\0\3' + text(b'\xff' * 60)
    answer = lambda size, payload: bytes([2, size, 0, 0, len(payload)]) + payload
    yield 'answers', b'\7\0' + answer(64, b'a' * 64) + answer(64, b'b' * 64) + bytes([4, 4, 0, 0, 4]) + b'word' + bytes([5, 3, 14, 0, 3]) + b'bye'
    yield 'wrong_answer', b'\7\0' + answer(63, b'a' * 63)
    yield 'write_to_client', b'\7\0' + bytes([3, 4, 1, 0, 4]) + b'evil'
    yield 'other_reply', b'\7\1' + bytes(216)


def tls():
    # The first byte: rounds of both ends before anything else. Operations: a byte, what % 8, with 8 for the server.
    # 0 step, 1 both go on, 2 send, 3 carry, 4 change, 5 insert, 6 lose, 7 cut.
    def send(size, end=0):
        return bytes([2 | end]) + struct.pack('<H', size)
    def carry(size, end=0):
        return bytes([3 | end]) + struct.pack('<H', size)
    def change(at, bits=1, end=0):
        return bytes([4 | end]) + struct.pack('<HB', at, bits)
    def insert(piece, end=0):
        return bytes([5 | end]) + text(piece)
    yield 'honest', b'\4' + send(10) + b'\1' + send(40000, 8) + b'\1\1' + send(1)
    yield 'in_pieces', b'\0\0' + carry(3) + b'\x08' + carry(500) + b'\x08' + carry(7, 8) + b'\0' + carry(65535, 8) + b'\0' + carry(65535) + b'\x08'
    yield 'changed_hello', b'\0\0' + change(50) + b'\x08' + carry(65535, 8) + b'\0'
    yield 'changed_answer', b'\0\0' + carry(65535) + b'\x08' + change(120, 1, 8) + b'\0\1'
    yield 'changed_record', b'\4' + send(10) + change(20) + b'\x08\1'
    yield 'changed_length', b'\4' + send(10) + change(3, 255) + b'\x08\1'
    yield 'cut_record', b'\4' + send(100) + carry(60) + b'\7\x08\x08'
    yield 'lost', b'\4' + send(100) + b'\6\x20\1\1'
    yield 'http', b'\0' + insert(b'GET / HTTP/1.1\r\n\r\n') + b'\x08\1'
    yield 'plain_client', b'\0' + insert(struct.pack('<Q', 0x007063746d6572ff) + bytes(60)) + b'\x08\1'
    yield 'alert', b'\4' + insert(b'\x15\3\3\0\2\2\x28') + b'\x08' + insert(b'\x15\3\3\0\2\1\0', 8) + b'\0\1'
    yield 'long_record', b'\4' + insert(b'\x17\3\3\x40\x01' + b'x' * 200) + b'\x08'
    yield 'longer_record', b'\4' + insert(b'\x17\3\3\xff\xff' + b'x' * 200) + b'\x08'
    yield 'old_server', b'\0\0' + insert(b'\x16\3\3\0\x31\2\0\0\x2d\3\3' + b'r' * 32 + b'\0\xc0\x2f\0\0\5\xff\1\0\1\0', 8) + b'\0\1'


def durable():
    stored = struct.pack('<QQ', 3, 0) + b'value'
    yield 'entry', b'\0' + struct.pack('<Q', 9) + text(b'key') + stored
    yield 'limit', b'\1' + struct.pack('<Q', 1 << 20)
    client = struct.pack('<Q', 77)
    yield 'clients', b'\2' + text(client) + text(bytes(8)) + text(client + b'\1') + text(struct.pack('<QQq', 1, 5, 0))
    yield 'place', b'\3' + struct.pack('<QQQ', 7, 5, 20) + struct.pack('<QQQQ', 7, 2, 8, 9)
    # A put and a deletion of keys, and both of another family; a deletion of a range.
    group = b'\1' + text(b'key') + text(stored) + b'\0' + text(b'gone') + b'\3' + text(b'synced') + text(bytes(8)) + b'\2' + text(b'c') + b'\4' + text(b'a') + text(b'b')
    yield 'group', b'\4' + struct.pack('<Q', 5) + group
    yield 'group_without_header', b'\4' + struct.pack('<Q', 5) + b'\1' + text(b'key') + text(b'value')


def superblock():
    for name, how in (('honest', 0x07), ('deep', 0x37), ('many', 0x0f), ('other', 0x00)):
        yield name, bytes([how, 0, 0]) + bytes(range(64))
    yield 'no_superblock', bytes([7, 0, 1, 0]) + bytes(8) + b'x'
    yield 'much_memory', bytes([7, 1, 5]) + struct.pack('<Q', 1 << 45) + bytes([0]) + b'x'
    # Memory that is a bucket whose slots lead to small records, again and again.
    yield 'slots', bytes([7, 0, 0]) + struct.pack('<Q', 0x001 << 52 | 4 << 40 | 64) * 32
    yield 'chain', bytes([15, 0, 0]) + struct.pack('<Q', 38 << 56 | 3) * 32


def pieces():
    header = struct.pack('<QQIHHQ', 3, 0, 1000, 1, 0, 4000)
    for name, code, place, how in (('small', 64, 4096, 0x17), ('small_text', 64, 4096, 0x57), ('of_another', 64, 4096, 0x37), ('large', 0x796, 3, 0x47),
                                   ('large_slow', 0xaa0, 3, 0x47), ('large_changes', 0xaa0, 3, 0x4f), ('large_memory', 0xaa0, 3, 0x17), ('torn', 64, 4096, 0x10)):
        millis = 60 if name in ('large_slow', 'large_changes') else 1
        yield name, struct.pack('<HIBB', code, place, how, millis) + header + b'some value '


def pages():
    def entry(value, how=0):
        return bytes([how]) + text(value)
    for name, how in (('scan', 0), ('prefix', 2), ('reverse', 4), ('any_order', 12), ('limit', 16), ('keys', 32), ('watch', 1), ('watch_prefix', 3)):
        yield name, bytes([how, 2]) + entry(b'one') + entry(b'two') + bytes([0x0a]) + entry(b'x' * 200) + entry(b'y') + bytes([30, 0, 8, 90, 0, 0])
    yield 'changed', bytes([0, 2]) + entry(b'one') + bytes([0x40]) + text(b'two') + bytes([20, 9])
    last = struct.pack('<QQQIHBB', 2**64 - 1, 1, 0, 1, 5, 1, 0)
    yield 'last_sequence', bytes([1, 2, 0x20]) + text(b'v') + last + entry(b'w')
    yield 'lies', bytes([1, 0xf1]) + entry(b'one') + bytes([7]) + b'\xff' * 24 + bytes([2]) + entry(b'a') * 2


def client():
    yield 'honest', b'\0' * 20 + bytes(range(16))
    yield 'lies', bytes(range(1, 200))
    yield 'slots', bytes([1, 8, 0, 3]) * 40


def server():
    for name, operation in (('put', 1), ('delete', 2), ('locate', 3), ('reserve', 6), ('part', 7), ('commit', 8), ('increment', 9),
                            ('scan', 12), ('outcome', 13), ('backup', 15), ('settings', 17)):
        yield name, b'\1\0' + bytes([5, 0, operation]) * 6
    yield 'batch', b'\0\0' + bytes([4, 0]) * 3
    yield 'slice', b'\0\0' + bytes([0, 0, 0]) + text(b'anything') + bytes([5, 16, 1])
    yield 'noise', b'\0\0' + bytes([2]) + text(b'x' * 56)
    yield 'stranger', b'\0\x0f' + text(b'who')
    yield 'fields', b'\1\0' + bytes([5, 8, 1]) + bytes(range(56)) + b'\xff' * 8 + bytes([5, 0, 1])
    yield 'time', b'\0\0' + bytes([0xf3, 5, 0, 6, 0xf3, 5, 0, 8])


def http():
    get = b'GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9180\r\n'
    yield 'get', get + b'Accept-Encoding: gzip\r\nUser-Agent: Prometheus/2.42.0\r\nAccept: text/plain;version=0.0.4;q=0.5,*/*;q=0.1'
    yield 'head', get.replace(b'GET', b'HEAD')
    yield 'query', b'GET /metrics?a=%41&b=+%00%zz HTTP/1.0\r\nConnection: keep-alive'
    yield 'range', get + b'Range: bytes=0-0,1-2,-3,5-'
    yield 'body', get + b'Content-Length: 5\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue'
    yield 'post', b'POST /metrics HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x'
    yield 'lines', b'GET /metrics HTTP/1.1\nHost: x\n\r\rX'
    yield 'host', b'GET /metrics HTTP/1.1\r\nX: y\r\nHost: attacker.example.:9180'
    yield 'long', b'GET /' + b'a' * 8000 + b' HTTP/1.1'


def resp():
    for size in (0, 1, 6, 254):
        yield f'array{size}', bytes([size]) + b'*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n*0\r\n*1\r\n$4\r\nPING\r\n'
    yield 'inline', b'\x02PING\r\nset "a \\x41\\n" \'b\\\'\'\n\r\nget k\n'
    yield 'quotes', b'\x03get "k\r\n'
    yield 'oversized', b'\x07*2\r\n$300\r\n' + b'v' * 300 + b'\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n'
    yield 'huge', b'\x04*2\r\n$536870912\r\nabc'
    yield 'lengths', b'\x05*1\r\n$-1\r\n'
    yield 'count', b'\x05*1048577\r\n'
    yield 'nested', b'\x05*1\r\n*1\r\n$1\r\na\r\n'


def configuration():
    text = (
        '{"addresses":{"a":"tcp://a:1","b":"tcp://b:1"},"change":"0000000000000007","complete":[],"epoch":4,'
        '"in_sync":[{"id":"a","life":"0000000000000001"},{"id":"b","life":"0000000000000002"}],"lineage":[[1,1],[4,9]],'
        '"min_in_sync":2,"primary":"a","replicas":["a","b"]}'
    )
    yield 'good', text.encode()
    yield 'first', (
        b'{"addresses":{"a":"local:///a"},"change":"0000000000000000","complete":[],"epoch":0,"in_sync":[],'
        b'"lineage":[],"min_in_sync":1,"primary":"","replicas":["a"]}'
    )
    yield 'cut', text[:-40].encode()
    yield 'types', text.replace('4', '"4"').replace('[[', '[').encode()
    yield 'twice', text.replace('"b"', '"a"').encode()
    yield 'deep', b'[' * 4000


def lease():
    # Lines: time, an answer, a look; the line's rounds, a word of it, a false checksum, a mixture.
    yield 'lines', b'\0' + bytes([2, 0, 0, 100, 0, 3, 1, 0, 50, 0, 6, 1, 1, 20, 0, 0, 2, 7, 2])
    yield 'torn', b'\0' + bytes([2, 0, 2, 33, 3, 2, 34, 0xf0, 2, 17, 2, 9, 3]) + struct.pack('<Q', 9000) + bytes([2, 1, 1, 7])
    yield 'reign', b'\0' + bytes([2, 1, 2, 9, 0]) + struct.pack('<Q', 4) + bytes([2, 1, 2, 1])
    # A primary: rounds, parts of groups, answers; then one that nobody asked for.
    yield 'answers', b'\1\7' + bytes([0, 2, 3, 1, 2, 0, 5, 9, 3, 1, 0, 2, 3, 0xfd, 2, 0, 2, 1, 2, 2, 2, 4]) + bytes(8)
    yield 'ahead', b'\1\0' + bytes([1, 2, 8]) + struct.pack('<Q', 99)
    yield 'rejects', b'\1\0' + bytes([0, 2, 51, 2])
    # A shard: rounds with the client's looks, then the first member takes over.
    one_round = [3, 6, 22, 8, 24, 3]
    look = [13, 29]
    for name, rates in (('client_slow', [4, 4, 0, 0]), ('client_fast', [0, 0, 2, 4])):
        story = [*look, *one_round, 0, 120, *look, *one_round, 0, 120, *look, 0, 200, *look, 236, 2, 200, *look, 2, 100, *look, 2, 255, *look]
        yield name, bytes([2, *rates, *story])
    asks = [*look, 45, 61, *one_round, 0, 110, *one_round, 61, 252, 1, 200, 1, 250, *look, 1, 255]
    yield 'asks', bytes([2, 0, 4, 0, 4, *asks])
    yield 'restart', bytes([2, 0, 0, 0, 0, *look, *one_round, 235, 26, 0, 130, *one_round, *look, 3, 10, 6, 236, 8, 2, 255, 2, 255, *look])


def main():
    root = pathlib.Path(sys.argv[1])
    for harness in (messages, texts, files, region, ordered, leaf, log, commit_log, handshake, ring, frames, tls, durable, superblock, pieces, pages,
                    client, server, http, resp, configuration, lease):
        directory = root / harness.__name__
        os.makedirs(directory, exist_ok=True)
        for name, content in harness():
            (directory / name).write_bytes(content)


main()
