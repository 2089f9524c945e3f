#!/usr/bin/env python3
"""Checks that each source and header includes, itself or through headers of ours, what declares the names it uses.

    reached.py [ROOT]     prints each fault; exit status 1 if there is one

Precompiled headers and batches of sources hide an include that a file lacks. Compilation of each file by itself would
show it (tests/releases/compile.py), and takes minutes. This looks at names of the standard library and of abseil, in
STANDARD. And it looks at those of our headers that are unique: classes, structs, enumerations, functions outside of
classes, and constants. (Functions and constants not in tests/, where GoogleTest's names are in the way.)
"""

import functools
import pathlib
import re
import sys

FOLDERS = ("store", "rdma", "client", "server", "tools", "bench", "tests", "examples")

TOP = ("tools/", "bench/", "tests/", "examples/")  # nothing below uses their headers

# The headers that declare a name: any of them is enough.
STANDARD = {
    "std": {
        "algorithm": "min max clamp sort find find_if any_of all_of none_of copy_n fill fill_n reverse nth_element lower_bound "
        "upper_bound shuffle stable_sort equal copy search rotate replace_if remove_if partition_point mismatch "
        "minmax_element min_element max_element is_sorted binary_search includes generate count_if unique",
        "array": "array to_array",
        "atomic": "atomic atomic_ref memory_order_relaxed memory_order_acquire memory_order_release memory_order_seq_cst "
        "atomic_thread_fence",
        "bit": "bit_width bit_ceil countr_zero popcount endian has_single_bit",
        "charconv": "from_chars to_chars",
        "chrono": "chrono",
        "cmath": "pow log10 log1p sqrt ceil floor isinf isfinite fmod cbrt ldexp",
        "condition_variable": "condition_variable condition_variable_any cv_status",
        "coroutine": "coroutine_handle suspend_never suspend_always noop_coroutine",
        "cstddef": "byte ptrdiff_t",
        "cstdint": "uint8_t uint16_t uint32_t uint64_t int8_t int16_t int32_t int64_t uintptr_t",
        "cstdio": "printf fprintf fflush snprintf rename fgets fputs fopen fclose fwrite setvbuf sscanf",
        "cstdlib": "getenv abort exit free malloc calloc strtoull strtoll atoi _Exit",
        "cstring": "memcpy memset memcmp memmove strerror strstr strcmp strcpy",
        "deque": "deque",
        "exception": "terminate uncaught_exceptions rethrow_exception current_exception exception_ptr",
        "filesystem": "filesystem",
        "fstream": "ifstream ofstream fstream",
        "functional": "function",
        "future": "promise future async launch",
        "iostream": "cout cerr",
        "latch": "latch",
        "limits": "numeric_limits",
        "list": "list",
        "map": "map",
        "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this",
        "mutex": "mutex lock_guard scoped_lock unique_lock",
        "numeric": "accumulate iota",
        "optional": "optional nullopt",
        "random": "mt19937 mt19937_64 random_device",
        "set": "set",
        "span": "span as_bytes as_writable_bytes",
        "sstream": "ostringstream istringstream",
        "stop_token": "stop_token stop_source stop_callback",
        "string": "string to_string stoi stoull stoll stoul",
        "string_view": "string_view",
        "system_error": "error_code errc system_error",
        "thread": "thread jthread this_thread",
        "tuple": "tuple tie",
        "unordered_map": "unordered_map",
        "unordered_set": "unordered_set",
        "utility": "move exchange pair swap forward make_pair as_const",
        "variant": "variant get_if",
        "vector": "vector",
    },
    "absl": {
        "absl/container/flat_hash_map.h": "flat_hash_map",
        "absl/container/flat_hash_set.h": "flat_hash_set",
        "absl/functional/any_invocable.h": "AnyInvocable",
        "absl/functional/function_ref.h": "FunctionRef",
        "absl/status/status.h": "Status StatusCode OkStatus InvalidArgumentError UnavailableError FailedPreconditionError "
        "InternalError NotFoundError ResourceExhaustedError AbortedError PermissionDeniedError CancelledError "
        "DeadlineExceededError OutOfRangeError DataLossError AlreadyExistsError UnimplementedError UnknownError "
        "UnauthenticatedError ErrnoToStatus IsNotFound IsAborted IsInvalidArgument IsUnavailable IsCancelled "
        "IsDeadlineExceeded IsFailedPrecondition IsResourceExhausted IsPermissionDenied StatusCodeToString",
        "absl/status/statusor.h": "StatusOr",
        "absl/strings/str_cat.h": "StrCat StrAppend Hex AlphaNum",
        "absl/strings/str_format.h": "StrFormat StrAppendFormat",
        "absl/strings/str_join.h": "StrJoin",
        "absl/strings/str_split.h": "StrSplit SkipEmpty MaxSplits ByAnyChar",
    },
}
# A header of the standard that is known to bring another.
BRINGS = {
    "absl/status/statusor.h": ("absl/status/status.h", "utility"),
    "absl/strings/str_format.h": ("string", "string_view"),
    "absl/strings/str_cat.h": ("string", "string_view"),
    "algorithm": ("utility",),
    "array": ("utility",),
    "condition_variable": ("mutex",),
    "filesystem": ("string", "system_error"),
    "fstream": ("string",),
    "functional": ("utility",),
    "future": ("mutex", "thread"),
    "iostream": ("string",),
    "map": ("utility",),
    "memory": ("utility",),
    "mutex": ("chrono", "utility"),
    "optional": ("utility",),
    "semaphore": ("chrono",),
    "span": ("array", "cstddef"),
    "sstream": ("string",),
    "string": ("string_view", "utility"),
    "thread": ("chrono", "stop_token"),
    "tuple": ("utility",),
    "unordered_map": ("utility",),
    "variant": ("utility",),
    "vector": ("utility",),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
# As cmake/public_headers.cmake makes them: <remora/PATH>, and <remora/NAME> of some.
PUBLIC = re.compile(r"remora/(?:(client|async_client|client_metrics|client_pool|cluster_client|coroutine_client|store)\.h$)?")
PLACES = {"cluster_client": "client/cluster/cluster_client.h", "store": "store/store.h"}
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
QUALIFIED = re.compile(r"\b(std|absl)::(\w+)")
DEFINED = re.compile(r"^(?:class|struct|enum class|enum|union)\s+(?:\w+\([^)]*\)\s+|\[\[\w+\]\]\s+)*(\w+)[^;{]*\{", re.MULTILINE)
ALIAS = re.compile(r"^using (\w+) =|\b(?:typename|class)(?:\.\.\.)? (\w+)(?=[,>])", re.MULTILINE)
NESTED = re.compile(r"^[ \t]+(?:(?:class|struct|enum class|enum)\s+|using )(\w+)[^;(]*[{=]", re.MULTILINE)
# Of a name in the place of a type: not a member, nor a call.
USED = re.compile(r"(?<![.>:~\w])([A-Z]\w+)(?=[&*>{]|::| [a-z_])")
# Outside of classes, a declaration begins its line.
FUNCTION = re.compile(
    r"^(?!#|class |struct |enum |using |namespace |return |static_assert|TEST)[\w:<>,&*\[\]() ]*?[ &*>]([A-Z]\w+)\(", re.MULTILINE
)
METHOD = re.compile(r"^[ \t]+(?!return |if |else |for |while |case |co_)[\w:<>,&*\[\] ]*?[ &*>~]([A-Z]\w+)\(|\w::~?([A-Z]\w+)\(", re.MULTILINE)
CALLED = re.compile(r"(?<![.>:~\w])([A-Z]\w*[a-z]\w*)\(")  # no macro
CONSTANT = re.compile(r"^(?:inline )?constexpr [\w:<>, ]+? (k[A-Z]\w+)\b", re.MULTILINE)
INNER_CONSTANT = re.compile(r"^[ \t]+(?:static )?(?:inline )?(?:constexpr|const) [\w:<>, ]+?[ *](k[A-Z]\w+)\b|\b(k[A-Z]\w+)\s*(?:=|,|\}|>)", re.MULTILINE)
MENTIONED = re.compile(r"(?<![.>:\w])(k[A-Z]\w+)\b")
DECLARED = re.compile(r"^\s*(?:class|struct|enum class)\s+(\w+)[^{;(]*;", re.MULTILINE)
HEADERS = {(space, name): header for space, of in STANDARD.items() for header, names in of.items() for name in names.split()}


def source_of(include):
    """The header of ours that a public one is a copy of; another one stays as it is."""
    return PUBLIC.sub(lambda public: PLACES.get(public[1], f"client/{public[1]}.h") if public[1] else "", include, count=1)


class File:
    def __init__(self, text):
        self.includes = [source_of(include) for include in INCLUDE.findall(text)]
        self.code = NOISE.sub(" ", text)
        self.qualified = set(QUALIFIED.findall(self.code))
        self.words = set(USED.findall(self.code))
        self.nested = set(NESTED.findall(self.code))
        self.defined = set(DEFINED.findall(self.code)) | {one or other for one, other in ALIAS.findall(self.code)}
        self.declared = set(DECLARED.findall(self.code))
        self.values = set(FUNCTION.findall(self.code)) | set(CONSTANT.findall(self.code))
        self.inner = {one or other for pattern in (METHOD, INNER_CONSTANT) for one, other in pattern.findall(self.code)} - self.values
        self.used_values = set(CALLED.findall(self.code)) | set(MENTIONED.findall(self.code))


def check(root):
    files = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                files[path.relative_to(root).as_posix()] = File(path.read_text(encoding="utf-8"))

    owners = {}
    for name, file in files.items():
        for word in file.defined | file.declared if name.endswith(".cc") else file.defined:
            owners.setdefault(word, []).append(name)
    nested = set().union(*(file.nested for file in files.values()))
    unique = {
        word: found[0]
        for word, found in owners.items()
        if len(found) == 1 and found[0].endswith(".h") and word not in nested
    }

    values = {}
    for name, file in files.items():
        for word in file.values if name.endswith(".h") else ():
            values.setdefault(word, []).append(name)
    inner = set().union(*(file.inner for name, file in files.items() if name.endswith(".h")), owners)
    unique_values = {word: found[0] for word, found in values.items() if len(found) == 1 and word not in inner}

    @functools.cache
    def reached(name):
        found, below = set(), [name]
        while below:
            at = below.pop()
            for include in files[at].includes if at in files else BRINGS.get(at, ()):
                beside = (pathlib.PurePosixPath(at).parent / include).as_posix() if at in files else include
                include = beside if beside in files else include
                if include not in found:
                    found.add(include)
                    below.append(include)
        return frozenset(found)

    faults = []
    for name, file in files.items():
        has = reached(name)
        for space, word in sorted(file.qualified):
            header = HEADERS.get((space, word))
            if header and header not in has:
                faults.append(f"{name}: uses {space}::{word}, and does not reach <{header}>")
        known = file.defined | file.declared
        for word in sorted(file.words - known):
            header = unique.get(word)
            if header and header != name and header not in has and (name.startswith(TOP) or not header.startswith(TOP)):
                if not any(word in files[other].declared for other in has if other in files):
                    faults.append(f"{name}: uses {word}, and does not reach {header}")
        # Tests have names of GoogleTest's classes, too.
        for word in sorted(file.used_values - file.values - file.inner if not name.startswith("tests/") else ()):
            header = unique_values.get(word)
            if header and header != name and header not in has and (name.startswith(TOP) or not header.startswith(TOP)):
                faults.append(f"{name}: uses {word}, and does not reach {header}")
    return len(files), faults


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    count, faults = check(root)
    print(*faults, sep="\n")
    print(f"{count} files, {len(faults)} faults")
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main())
