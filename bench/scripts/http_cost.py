"""Parts of scrape_cost and http_attack_cost: a server with --http, and kvbench on it in turns, without and beside
something that a thread does to the HTTP port."""

import contextlib
import threading

import runs


class Beside:
    """A thread that does something to the port, again and again, from its construction to stop()."""

    # Exceptions of work(), which stop() reports.
    TROUBLE = (OSError, runs.Failure)

    def __init__(self, port):
        self.port, self.trouble, self.over = port, None, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            self.work()
        except self.TROUBLE as error:
            self.trouble = error

    def work(self):
        """Works until `self.over` is set."""
        raise NotImplementedError

    def stop(self):
        self.over.set()
        self.thread.join()
        if self.trouble is not None:
            raise runs.Failure(f"{type(self).__name__}: {self.trouble}")


def add_options(parser, rounds):
    parser.add_argument("--bin", default=runs.ROOT / "build" / "bin", help="folder of the built programs")
    parser.add_argument("--records", type=runs.positive_whole, default=500_000)
    parser.add_argument("--value_size", type=runs.size_of, default=256)
    parser.add_argument("--rounds", type=runs.positive_whole, default=rounds, help="each without, then with")
    parser.add_argument("--seconds", type=runs.positive_number, default=5, help="of each run")


class LoadedServer:
    """A server at level memory with --http, and records in it."""

    def __init__(self, options, place):
        memory = runs.memory_for(options.records, options.value_size)
        self.options, self.port = options, runs.free_port()
        server, address = runs.kvserver(options.bin, place.directory, "server", memory, "memory",
                                        [f"--http=127.0.0.1:{self.port}"])
        place.add(server)
        self.flags = [f"--target={address}", f"--records={options.records}", f"--value_size={options.value_size}"]
        self.report = place.directory / "report.json"
        runs.kvbench(options.bin, ["load", *self.flags], self.report)

    def run(self, workload):
        """One run of kvbench, of --seconds."""
        return runs.kvbench(self.options.bin, ["run", *self.flags, *workload, f"--seconds={self.options.seconds}"],
                            self.report)

    def in_turns(self, workload, make_beside):
        """Yields for each round the results of a run without, of one with, and what make_beside() returned."""
        for _ in range(self.options.rounds):
            without = self.run(workload)
            beside = make_beside()
            with contextlib.ExitStack() as stack:
                stack.callback(beside.stop)
                result = self.run(workload)
            yield without, result, beside
