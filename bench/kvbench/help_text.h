// Texts of `kvbench --help` before and behind its flags.
#pragma once

namespace remora::bench {

inline constexpr const char* kDescription =
    "kvbench loads records into a Remora server, into a store inside kvbench itself, or into another one to\n"
    "compare with, runs one of YCSB's core workloads on them, and reports throughput and latencies.\n";

inline constexpr const char* kFooter = R"(
Examples:
  kvbench all --target=local:///run/remora.sock --workload=b --records=1000000 --seconds=10
  kvbench all --target=embedded --durability=logged --data_dir=/tmp/bench --workload=a --verify
  kvbench run --target=verbs://10.0.0.1:7471 --workload=c --threads=2 --json=out.json
  kvbench all --target=local:///run/remora.sock -P bench/workloads/workloadd -p recordcount=1000000 --processes=2
  kvbench all --target=redis:///run/redis.sock --workload=c --depth=16
  kvbench all --target=local:///run/remora.sock --workload=a --records=1000 --value_size=4K..1M
  kvbench floor --target=local:///run/remora.sock --records=1000000 --data_dir=/tmp/floor
  kvbench report before.json after.json --html=compared.html

Workloads (YCSB core): a = 50 % read, 50 % update; b = 95 % read, 5 % update; c = reads only; d = 95 % read of
the latest, 5 % insert; e = 95 % scan, 5 % insert; f = 50 % read, 50 % read-modify-write.
Keys are 23 bytes. docs/reference/kvbench.md lists the properties; --records, --distribution, --operations,
--seconds, --threads, --rate and --verify are short for recordcount, requestdistribution, operationcount,
maxexecutiontime, threadcount, target and dataintegrity, and win over what -p and files say.
Latencies run from the end of a thread's last operation (of the last one in its place, with --depth) to the
end of this one: they contain making the key
and reading the clock (some 40 ns). With --rate they run from the moment at which the operation was due.

Exit status: 0 all operations succeeded, 1 some failed (their kinds are named), 64 wrong command line,
65 (report) a file is not what --json writes, 66 (report) a file cannot be read,
69 the server cannot be reached, or the store not opened, 71 the system lacks something, as memory,
73 an output file cannot be made, which is found before the run, 74 it, or standard output, cannot be written,
77 no permission: a file of a token that others may read, no token or a wrong one, another user's server,
129 ended by SIGHUP, 130 by SIGINT, 143 by SIGTERM, 152 by SIGXCPU, or likewise by another signal: what was
measured till then is printed and written, as cut short; a second signal ends it at once.)";

}  // namespace remora::bench
