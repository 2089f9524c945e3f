#!/usr/bin/env python3
"""Applies the mutants of tests/mutation/mutants/*.toml to copies of the sources, each behind a switch.

    generate.py ROOT OUT     writes OUT/include/FILE for each mutated FILE of ROOT, OUT/mutants.cc with the
                             switches, and OUT/mutants.cmake for tests/mutation/CMakeLists.txt
    generate.py --check ROOT OUT     writes nothing; an output that would change is an error

README.md describes the tables. A file is written only if it changes; other copies are removed. Prints each
error; the exit status is 1 if there is one.
"""

import pathlib
import re
import sys
import tomllib

FOLDERS = ("store", "client", "server", "rdma", "tools/kvgate")
TABLES = "tests/mutation/mutants"

# The program of a suite: the folders whose mutated sources it has, and those that it links as they are.
SUITES = {
    "store": ({"store"}, set()),
    "conformance": ({"store", "client", "server"}, {"rdma"}),
    "cluster": ({"store", "client", "server"}, {"rdma"}),
    "adversarial": ({"rdma"}, {"store", "client", "server"}),
    "crash": ({"store", "server", "rdma"}, set()),
    "simulation": ({"store", "client", "server"}, {"rdma"}),
    "guest": ({"rdma"}, set()),
    "transport": ({"rdma"}, set()),
    "gate": ({"tools/kvgate"}, {"store", "client", "server", "rdma"}),
    "gate_parts": ({"tools/kvgate"}, {"store"}),
}
TABLE_SUITES = {
    "crash": {"cuts": int, "breaks": list, "commit_log": str},
    "simulation": {"finds": list, "one_sided": bool},
}
NEEDED = {"crash": "breaks", "simulation": "finds"}

NAME = re.compile(r"[a-z][a-z0-9_]*")
WORDS = re.compile(r"[\w ,.:/*?-]+")
SOURCE = re.compile(rf"({'|'.join(FOLDERS)})/[\w/]+\.(cc|h)")
SWITCH = re.compile(r"\bMUTANT\((\w+)\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
PRELUDE = '#include "tests/mutation/mutant.h"\nnamespace remora::mutation {{\nextern Mutant {};\n}}\n'


def folder_of(file):
    """The folder of FOLDERS that has the file; that of the first level if there is none."""
    return next((folder for folder in FOLDERS if file.startswith(f"{folder}/")), file.split("/")[0])


class Errors(list):
    def add(self, mutant, problem):
        table, name = mutant.get("table", TABLES), mutant.get("name", "?")
        self.append(f"{table}: mutant {name}: {problem}")


def read_tables(root, errors):
    mutants = []
    for path in sorted((root / TABLES).glob("*.toml")):
        table = path.relative_to(root).as_posix()
        try:
            entries = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            errors.append(f"{table}: is not TOML: {error}")
            continue
        if others := sorted(set(entries) - {"mutant"}):
            errors.append(f"{table}: has {', '.join(others)}; it may have [[mutant]] only")
        mutants += [entry | {"table": table} for entry in entries.get("mutant", [])]
    if not mutants and not errors:
        errors.append(f"{TABLES}: has no mutant")
    return mutants


def check_suites(mutant, errors):
    suites = mutant.get("killed_by")
    if not isinstance(suites, dict) or not suites:
        return errors.add(mutant, "names no suite that must notice it; add killed_by.SUITE")
    for suite, value in suites.items():
        if suite not in SUITES:
            errors.add(mutant, f"killed_by.{suite}: no such suite; there are {', '.join(SUITES)}")
        elif suite not in TABLE_SUITES:
            if not isinstance(value, str) or not WORDS.fullmatch(value) or " " in value:
                errors.add(mutant, f"killed_by.{suite}: is not a filter of GoogleTest")
        elif not isinstance(value, dict) or not value.get(NEEDED[suite]):
            errors.add(mutant, f"killed_by.{suite}: needs {NEEDED[suite]}, a list of what convicts it")
        else:
            for key, of in value.items():
                if not isinstance(of, TABLE_SUITES[suite].get(key, ())):
                    errors.add(mutant, f"killed_by.{suite}.{key}: is unknown, or of the wrong type")
            for words in value[NEEDED[suite]]:
                if not isinstance(words, str) or not WORDS.fullmatch(words):
                    errors.add(mutant, f"killed_by.{suite}: has {words!r}, which is no plain text")


def check_entry(mutant, names, errors):
    name = mutant.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return errors.add(mutant, "name: must be lower-case letters, digits and _")
    if name in names:
        errors.add(mutant, f"is also in {names[name]['table']}; give one of them another name")
    check_suites(mutant, errors)
    keys = {"shares_text_of"} if "shares_text_of" in mutant else {"file", "old", "new"}
    for key in sorted(keys - set(mutant)):
        errors.add(mutant, f"lacks {key}")
    for key in sorted(set(mutant) - keys - {"name", "killed_by", "table"}):
        errors.add(mutant, f"{key}: is unknown here")
    for key in sorted(keys & set(mutant)):
        if not isinstance(mutant[key], str):
            errors.add(mutant, f"{key}: is not a string")
        elif key == "file" and not SOURCE.fullmatch(mutant[key]):
            errors.add(mutant, f"file: {mutant[key]} is no source of {', '.join(FOLDERS)}")


def check_switches(mutants, errors):
    """Each `new` has the switch of its own mutant and of those that share its text, and no other."""
    names = {mutant["name"]: mutant for mutant in mutants}
    for mutant in mutants:
        owner = names.get(mutant.get("shares_text_of", mutant["name"]))
        if owner is None or "new" not in owner:
            text = mutant["shares_text_of"]
            errors.add(mutant, f"shares_text_of: no mutant {text} has a text of its own")
            continue
        if mutant["name"] not in SWITCH.findall(owner["new"]):
            errors.add(mutant, f"`new` of {owner['name']} does not mention MUTANT({mutant['name']})")
        mutant["file"] = owner["file"]
        for suite in mutant["killed_by"]:
            if folder_of(mutant["file"]) not in SUITES[suite][0]:
                file = mutant["file"]
                errors.add(mutant, f"killed_by.{suite}: that program has no mutated source of {file}")
        for other in sorted(set(SWITCH.findall(mutant.get("new", "")))):
            if other != mutant["name"] and names.get(other, {}).get("shares_text_of") != mutant["name"]:
                errors.add(mutant, f"`new` mentions MUTANT({other}), which does not share its text")


def mutate(root, file, mutants, errors):
    """The copy of `file` with all its mutants; None if there was an error."""
    path = root / file
    if not path.is_file():
        return errors.add(mutants[0], f"file: there is no {file}")
    text = path.read_text(encoding="utf-8")
    spans = []
    for mutant in mutants:
        if "old" not in mutant:
            continue
        if mutant["new"] == mutant["old"]:
            errors.add(mutant, "`new` equals `old`")
        count = text.count(mutant["old"]) if mutant["old"] else 0
        if count != 1:
            problem = f"`old` stands {count} times in {file}, not once; make it fit the source:"
            errors.add(mutant, f"{problem}\n{mutant['old']}")
            continue
        begin = text.index(mutant["old"])
        spans.append((begin, begin + len(mutant["old"]), mutant))
    spans.sort(key=lambda span: span[:2])
    for (_, end, mutant), (begin, _, next_one) in zip(spans, spans[1:]):
        if begin < end:
            problem = f"its `old` overlaps that of {mutant['name']} in {file}"
            errors.add(next_one, f"{problem}; write both in one `new` and use shares_text_of")
    for begin, end, mutant in reversed(spans):
        text = text[:begin] + mutant["new"] + text[end:]
    return PRELUDE.format(", ".join(mutant["name"] for mutant in mutants)) + text


def includes_of(root):
    """file -> all files of ours that it includes, directly or not."""
    paths = [path for folder in (*FOLDERS, "tests") for path in (root / folder).rglob("*")]
    direct = {}
    for path in paths:
        if path.suffix not in (".h", ".cc"):
            continue
        found = set()
        for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
            for candidate in (path.parent / include, root / include):
                if candidate.is_file():
                    found.add(candidate.resolve().relative_to(root).as_posix())
                    break
        direct[path.relative_to(root).as_posix()] = found
    closed = {}
    for file in direct:
        seen, rest = set(), [file]
        while rest:
            for include in direct.get(rest.pop(), ()):
                if include not in seen:
                    seen.add(include)
                    rest.append(include)
        closed[file] = seen
    return closed


def spread_headers(root, by_file, errors):
    """The sources, and the tests' sources, that include a mutated header. Each program with mutants compiles them
    with the copy of the header: no program may have two bodies of one function."""
    headers = [file for file in by_file if file.endswith(".h")]
    if not headers:
        return [], []
    users = {file: used for file, used in includes_of(root).items() if file.endswith(".cc")}
    for header in headers:
        folder, name = header.rsplit("/", 1)
        for path in (root / folder).glob("*"):
            if path.is_file() and name in INCLUDE.findall(path.read_text(encoding="utf-8")):
                problem = f"{path.relative_to(root)} includes {name} without its folder"
                errors.add(by_file[header][0], f"{problem}, and would miss the mutated copy")
        folders = {folder_of(file) for file, used in users.items() if header in used} - {"tests"}
        for suite, (mutated, linked) in SUITES.items():
            if folders & mutated and folders & linked:
                problem = f"{header} is in mutated and other sources of the program of {suite}"
                errors.add(by_file[header][0], problem)
    affected = sorted(file for file, used in users.items() if used.intersection(headers))
    return ([file for file in affected if file.startswith(FOLDERS) and file not in by_file],
            [file for file in affected if file.startswith("tests/")])


def switches(mutants):
    names = sorted(mutant["name"] for mutant in mutants)
    define = "".join(f'Mutant {name}{{"{name}"}};\n' for name in names)
    pointers = "".join(f"    &{name},\n" for name in names)
    return (
        '// Made by tests/mutation/generate.py.\n#include "tests/mutation/mutant.h"\n\n'
        f"namespace remora::mutation {{\n\n{define}\n"
        f"Mutant* const all[] = {{\n{pointers}    nullptr}};\n\n}}  // namespace remora::mutation\n"
    )


def quote(text):
    return f'"{text}"'  # check_suites has seen to it


def cmake(root, out, mutants, by_file, affected, tests):
    lines = ["# Made by tests/mutation/generate.py."]

    def set_list(name, values):
        lines.append(f"set({name}{''.join(f' {quote(str(value))}' for value in values)})")

    def is_source(file, folder):
        return file.startswith(f"{folder}/") and file.endswith(".cc")

    for folder in FOLDERS:
        copies = [out / "include" / file for file in by_file if is_source(file, folder)]
        set_list(f"MUTATED_{folder.replace('/', '_')}", copies + [root / file for file in affected if is_source(file, folder)])
    set_list("MUTATED_HEADER_TESTS", [root / test for test in tests])
    tables = sorted((root / TABLES).glob("*.toml"))
    set_list("MUTATION_INPUTS", [root / file for file in (*by_file, *affected, *tests)] + tables)
    for suite in SUITES:
        if suite not in TABLE_SUITES:
            filters = [mutant["killed_by"][suite] for mutant in mutants if suite in mutant["killed_by"]]
            set_list(f"MUTATION_FILTER_{suite}", [":".join(dict.fromkeys(":".join(filters).split(":")))])
    set_list("MUTANTS_IN_GUEST", [mutant["name"] for mutant in mutants if "guest" in mutant["killed_by"]])
    for mutant in mutants:
        for suite, value in mutant["killed_by"].items():
            test = mutant["name"] + (f".{suite}" if len(mutant["killed_by"]) > 1 else "")
            if suite == "crash":
                rules = map(quote, value["breaks"])
                call = "in_crash", test, mutant["name"], value.get("cuts", 0), value.get("commit_log", "1G"), *rules
            elif suite == "gate":
                call = "in_gate", test, mutant["name"], quote(value)
            elif suite == "simulation":
                flag = ["--one_sided"] if value.get("one_sided") else []
                call = "in_simulation", test, mutant["name"], *flag, *map(quote, value["finds"])
            elif suite != "guest":  # tests/guest runs those
                call = "in_program", suite, test, mutant["name"], quote(value)
            else:
                continue
            lines.append(f"mutation_{call[0]}({' '.join(map(str, call[1:]))})")
    return "\n".join(lines) + "\n"


def generate(root, out, errors):
    """path -> text of all outputs."""
    mutants = read_tables(root, errors)
    names = {}
    for mutant in mutants:
        check_entry(mutant, names, errors)
        names.setdefault(mutant.get("name"), mutant)
    if errors:
        return {}
    check_switches(mutants, errors)
    if errors:
        return {}
    by_file = {}
    for mutant in mutants:
        by_file.setdefault(mutant["file"], []).append(mutant)
    by_file = dict(sorted(by_file.items()))
    outputs = {out / "include" / file: mutate(root, file, by_file[file], errors) for file in by_file}
    affected, tests = spread_headers(root, by_file, errors) if not errors else ([], [])
    outputs[out / "mutants.cc"] = switches(mutants)
    outputs[out / "mutants.cmake"] = cmake(root, out, mutants, by_file, affected, tests)
    return outputs


def main(arguments):
    only_check = arguments[:1] == ["--check"]
    if len(arguments) != 2 + only_check:
        print(__doc__)
        return 64
    root, out = (pathlib.Path(argument).resolve() for argument in arguments[-2:])
    errors = Errors()
    outputs = generate(root, out, errors)
    for path, text in outputs.items() if not errors else ():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if only_check:
            errors.append(f"{path} is not up to date; configure the build again")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in (out / "include").rglob("*") if not errors and not only_check else ():
        if path.is_file() and path not in outputs:
            path.unlink()  # a copy of a header would still be found
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
