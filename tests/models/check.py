#!/usr/bin/env python3
"""Checks one model with Spin, exhaustively: it holds, and none of its deliberate faults does.

  check.py MODEL.pml [NAME]...      (names of faults; none: the model as it is)

A model holds when Spin searched all of its states, found no assertion violated, and reached every statement in at
least one of the settings that the model names (CHECK lines). A fault passes when an assertion is violated in one of
them: the one that the model names for it (FAULT lines).

  CHECK  -DNAME=VALUE...                    a setting
  FAULT  NAME  in SETTING  violates TEXT    TEXT: part of the assertion; SETTING: the number of a CHECK line, from 1
"""
import os
import re
import subprocess
import sys
import tempfile

MOST_DEPTH = 10_000_000
MEMORY_MB = 3000


def run(command, directory):
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


class Outcome:
    """What Spin said of one setting."""

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
        return Outcome(text)


def main():
    model, wanted = sys.argv[1], sys.argv[2:]
    with open(model, encoding='utf-8') as file:
        source = file.read()
    settings = [line.split() for line in re.findall(r'^ \*\s+CHECK\b(.*)$', source, re.MULTILINE)]
    faults = {name: (int(setting), text.strip()) for name, setting, text in
              re.findall(r'^ \*\s+FAULT\s+(\S+)\s+in (\d+)\s+violates (.*)$', source, re.MULTILINE)}
    block = re.search(r'^#define NOTHING +0\n((?:#define .*\n)+)', source, re.MULTILINE).group(1)
    named = set(re.findall(r'^#define (\S+)', block, re.MULTILINE))
    if not settings or named != set(faults):
        sys.exit(f'{model}: no settings, or its FAULT lines are not of the faults that it has: {named ^ set(faults)}')
    for name in wanted:
        setting, text = faults[name]
        outcome = search(model, [*settings[setting - 1], f'-DBROKEN={name}'])
        print(f'{name}: {outcome.states} states, violated: {outcome.violated}', flush=True)
        if outcome.violated is None or text not in outcome.violated:
            sys.exit(f'{model} with the fault {name} does not violate "{text}":\n{outcome.text[-3000:]}')
    if wanted:
        return
    unreached = None
    for setting in settings:
        outcome = search(model, setting)
        print(f'{" ".join(setting) or "as it is"}: {outcome.states} states, errors: {outcome.errors}', flush=True)
        if outcome.errors != 0 or not outcome.complete or outcome.states < 1000:
            sys.exit(f'{model} does not hold, or was not searched through:\n{outcome.text[-3000:]}')
        unreached = outcome.unreached if unreached is None else unreached & outcome.unreached
    if unreached:
        sys.exit(f'{model}: statements that are never reached:\n' + '\n'.join(sorted(unreached)))


main()
