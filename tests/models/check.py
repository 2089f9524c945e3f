#!/usr/bin/env python3
"""Checks one model with Spin, exhaustively: it holds, and does not with any of its deliberate faults.

  check.py MODEL.pml [NAME]...      (names of faults; none: the model as it is)
  check.py --first MODEL.pml        the model as it is, in its first setting only
  check.py --record                 searches all models and faults, and writes `verified` if all passed
  check.py --is-verified MODEL.pml  exit status 0 if `verified` has the digest of this model, 1 if not

A model holds when Spin searched all of its states and found no assertion violated. Each statement must also be reached
in at least one of the settings that the model names (CHECK lines). A fault passes when it violates the assertion that
the model names for it, in the setting named there (FAULT lines).

  CHECK  -DNAME=VALUE...                    a setting
  FAULT  NAME  in SETTING  violates TEXT    TEXT: part of the assertion; SETTING: the number of a CHECK line, from 1

The result of a search depends on nothing but the model, this program and Spin. `verified` holds the SHA-256 of these
three for each model, from the last search of everything. As long as it is the same, the search need not be repeated.
Comments and blanks of a model are left out of it, but for the CHECK and FAULT lines.
"""
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
VERIFIED = HERE / 'verified'
MOST_DEPTH = 10_000_000
MEMORY_MB = 3000


def run(command, directory):
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


class SearchResult:
    """The result of the search in one setting, as Spin stated it."""

    def __init__(self, text):
        self.text = text
        violated = re.search(r'assertion violated \(?(.*?)\)? \(at depth', text)
        self.violated = violated.group(1) if violated else None
        errors = re.search(r'errors: (\d+)', text)
        states = re.search(r'(\S+) states, stored', text)
        self.errors = int(errors.group(1)) if errors else None
        self.states = int(float(states.group(1))) if states else 0
        self.complete = not re.search(r'too small|Search not completed|truncated|out of memory|reached -DMEMLIM', text)
        self.unreached = set(re.findall(r'^\s\S+\.pml:\d+, state \d+, "(?!-end-)(.*)"$', text, re.MULTILINE))


def search(model, defines):
    with tempfile.TemporaryDirectory() as directory:
        status, text = run(['spin', *defines, '-a', os.path.abspath(model)], directory)
        if status != 0 or 'rror' in text:
            sys.exit(f'{model}: Spin does not take it:\n{text}')
        status, text = run(['cc', '-O2', '-w', '-DSAFETY', f'-DMEMLIM={MEMORY_MB}', '-o', 'pan', 'pan.c'], directory)
        if status != 0:
            sys.exit(f'{model}: what Spin made of it does not compile:\n{text}')
        status, text = run(['./pan', '-E', f'-m{MOST_DEPTH}', '-w22'], directory)
        return SearchResult(text)


class Model:
    """A file, its settings, and its faults: {name: (number of the setting, violated text)}."""

    def __init__(self, path):
        self.path = path
        source = pathlib.Path(path).read_text(encoding='utf-8')
        self.settings = [line.split() for line in re.findall(r'^ \*\s+CHECK\b(.*)$', source, re.MULTILINE)]
        self.faults = {name: (int(setting), text.strip()) for name, setting, text in
                       re.findall(r'^ \*\s+FAULT\s+(\S+)\s+in (\d+)\s+violates (.*)$', source, re.MULTILINE)}
        block = re.search(r'^#define NOTHING +0\n((?:#define .*\n)+)', source, re.MULTILINE).group(1)
        named = set(re.findall(r'^#define (\S+)', block, re.MULTILINE))
        if not self.settings or named != set(self.faults):
            sys.exit(f'{path}: no settings, or its FAULT lines are not of the faults that it has: '
                     f'{named ^ set(self.faults)}')

    def code(self):
        source = pathlib.Path(self.path).read_text(encoding='utf-8')
        code = [' '.join(line.split()) for line in re.sub(r'/\*.*?\*/', ' ', source, flags=re.DOTALL).splitlines()]
        return '\n'.join([*filter(None, code), repr(self.settings), repr(self.faults)])

    def digest(self):
        _, spin = run(['spin', '-V'], HERE)
        digest = hashlib.sha256()
        for part in self.code().encode(), pathlib.Path(__file__).read_bytes(), spin.encode():
            digest.update(len(part).to_bytes(8, 'little') + part)
        return digest.hexdigest()

    def check_fault(self, name):
        setting, text = self.faults[name]
        result = search(self.path, [*self.settings[setting - 1], f'-DBROKEN={name}'])
        print(f'{name}: {result.states} states, violated: {result.violated}', flush=True)
        if result.violated is None or text not in result.violated:
            sys.exit(f'{self.path} with the fault {name} does not violate "{text}":\n{result.text[-3000:]}')

    def check(self, settings):
        """Returns the statements that none of the settings reached."""
        unreached = None
        for setting in settings:
            result = search(self.path, setting)
            print(f'{" ".join(setting) or "as it is"}: {result.states} states, errors: {result.errors}', flush=True)
            if result.errors != 0 or not result.complete or result.states < 1000:
                sys.exit(f'{self.path} does not hold, or was not searched through:\n{result.text[-3000:]}')
            unreached = result.unreached if unreached is None else unreached & result.unreached
        return unreached

    def check_all_settings(self):
        unreached = self.check(self.settings)
        if unreached:
            sys.exit(f'{self.path}: statements that are never reached:\n' + '\n'.join(sorted(unreached)))


def verified():
    """The digests of the last search of everything: {file name: digest}."""
    if not VERIFIED.exists():
        return {}
    return {name: digest for digest, name in (line.split() for line in VERIFIED.read_text().splitlines())}


def record():
    models = [Model(path) for path in sorted(HERE.glob('*.pml'))]
    for model in models:
        model.check_all_settings()
        for name in model.faults:
            model.check_fault(name)
    VERIFIED.write_text(''.join(f'{model.digest()}  {model.path.name}\n' for model in models))
    print(f'wrote {VERIFIED}: {len(models)} models, {sum(len(model.faults) for model in models)} faults')


def main():
    options = [argument for argument in sys.argv[1:] if argument.startswith('--')]
    names = [argument for argument in sys.argv[1:] if not argument.startswith('--')]
    if options == ['--record'] and not names:
        record()
    elif options == ['--is-verified'] and len(names) == 1:
        sys.exit(0 if verified().get(os.path.basename(names[0])) == Model(names[0]).digest() else 1)
    elif options == ['--first'] and len(names) == 1:
        model = Model(names[0])
        model.check(model.settings[:1])
    elif not options and names:
        model = Model(names[0])
        for name in names[1:]:
            if name not in model.faults:
                sys.exit(f'{model.path} has no fault {name}; it has {", ".join(model.faults)}')
            model.check_fault(name)
        if len(names) == 1:
            model.check_all_settings()
    else:
        sys.exit(__doc__)


main()
