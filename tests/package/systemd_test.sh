#!/usr/bin/env bash
# systemd_test.sh BUILD SOURCE
# The units under a systemd that runs, as the first process of namespaces of its own. Its root is this machine's, with
# kvserver installed over it; writes go to memory. The package's scripts start the service and remove it. In between it is used,
# reloaded, killed, stopped in its tracks, and given a bad configuration. Needs root.
set -euo pipefail

build=$(readlink -f "$1") source=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
[ "$(id -u)" -eq 0 ] || { echo "systemd_test: skipped: needs root, for namespaces"; exit 77; }
for name in /lib/systemd/systemd /usr/bin/deb-systemd-helper /usr/sbin/adduser; do
  [ -x "$name" ] || { echo "systemd_test: skipped: there is no $name"; exit 77; }
done
# Mounts end with this namespace.
[ -n "${REMORA_SYSTEMD_TEST-}" ] || REMORA_SYSTEMD_TEST=inside exec unshare --mount "$0" "$@"
mount --make-rprivate /
scratch=$(mktemp -d /tmp/remora-systemd.XXXXXX)
root=$scratch/root
outer=
init=
groups=()
# shellcheck disable=SC2317  # called by the trap
clean_up() {
  [ -z "$outer" ] || { kill -KILL "$outer" && wait "$outer"; } 2>/dev/null || true  # all in its namespace end with it
  for group in "${groups[@]}"; do
    for _ in {1..100}; do
      ! find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || break
      sleep 0.1  # until the last process is gone
    done
  done
  umount --recursive "$scratch" 2>/dev/null || true
  rmdir "$scratch"
}
trap clean_up EXIT

fail() {
  echo "systemd_test: $*"
  inside journalctl --no-pager --lines=40 2>/dev/null || cat "$scratch/boot"
  exit 1
}
say() { echo "== $* (${SECONDS} s)"; }
inside() { nsenter --target "$init" --mount --pid --cgroup --ipc --uts --net --root --wd "$@"; }
property() { inside systemctl show --property="$2" --value "$1"; }
# until_so WHAT COMMAND...: asks again until it is so.
until_so() {
  local what=$1 deadline=$((SECONDS + 120))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || fail "still not so after two minutes: $what"
    sleep 0.1
  done
}
runs() {
  init=$(pgrep --parent "$outer") || return 1
  inside systemctl is-system-running
}
# script NAME ARGUMENT...: of the package, as dpkg runs it.
script() {
  local name=$1
  shift
  inside env DPKG_MAINTSCRIPT_PACKAGE=remora-server DPKG_MAINTSCRIPT_NAME="$name" sh "/root/remora-server.$name" "$@"
}
serves() { inside kvctl --server="local:///run/$1/kvserver.sock" ping; }
has_another_process() { [ "$(property kvserver.service MainPID)" != "$1" ] && serves remora; }
as() { local user=$1; shift; inside setpriv --reuid="$user" --regid="$user" --init-groups "$@"; }
journal_has() { inside journalctl --no-pager --unit=kvserver.service | grep -- "$1" >/dev/null; }

say "a systemd"
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$root" ||
  { echo "systemd_test: skipped: this kernel lays no file system over its root"; exit 77; }
DESTDIR=$root cmake --install "$build" --prefix /usr --component server >/dev/null
cp "$build/bin/kvctl" "$root/usr/bin"
cp "$source"/tools/package/debian/remora-server.* "$root/root"
rm -f "$root/usr/sbin/policy-rc.d" "$root/etc/machine-id"
: >"$root/etc/machine-id"
printf '[Unit]\nDescription=Nothing but what it needs\n' >"$root/etc/systemd/system/remora-test.target"
for folder in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
  [ ! -e "$folder/cgroup.procs" ] || groups+=("$folder/remora-systemd-test.$$")
done
mkdir "${groups[@]}"
(
  for group in "${groups[@]}"; do echo "$BASHPID" >"$group/cgroup.procs"; done
  exec unshare --mount --pid --cgroup --ipc --uts --net --fork --kill-child "$here/systemd_init.sh" "$root"
) >"$scratch/boot" 2>&1 </dev/null &
outer=$!
until_so "systemd runs" runs

say "the package is installed"
script postinst configure || fail "postinst"
until_so "the service serves" serves remora
[ "$(inside systemctl is-active kvserver.service)" = active ] || fail "it is not active"
[ "$(inside systemctl is-enabled kvserver.service)" = enabled ] || fail "it is not enabled"
[ "$(property kvserver.service StatusText)" = serving ] || fail "its status is no \"serving\""
main=$(property kvserver.service MainPID)
inside cat "/proc/$main/status" >"$scratch/status"
for line in 'CapBnd: 0000000000000000' 'CapEff: 0000000000000000' 'NoNewPrivs: 1' 'Seccomp: 2'; do
  tr '\t' ' ' <"$scratch/status" | grep -x "$line" >/dev/null || { cat "$scratch/status"; fail "it is not: $line"; }
done
[ "$(inside stat --format=%U "/proc/$main")" = remora ] || fail "it runs as another user"
if sh -c 'ulimit -l unlimited' 2>/dev/null; then  # not in every container
  inside grep -qE '^Max locked memory +unlimited +unlimited' "/proc/$main/limits" || fail "locked memory is limited"
fi

say "it is used"
quiet_user() { inside adduser --quiet --disabled-password --gecos '' "$1" >/dev/null; }
quiet_user alice
quiet_user mallory
inside adduser --quiet alice remora
socket=local:///run/remora/kvserver.sock
as alice kvctl --server=$socket put greeting "hello, world" || fail "alice cannot write"
! as mallory kvctl --server=$socket get greeting >/dev/null 2>&1 || fail "mallory, who is not in the group, can read"

say "it is reloaded"
echo "log_level = warning" >>"$root/etc/remora/kvserver.conf"
inside systemctl reload kvserver.service || fail "reload"
until_so "the log tells of the new level" journal_has "config_reloaded: .*log_level"
[ "$(property kvserver.service MainPID)" = "$main" ] || fail "a reload is no restart"

say "it is killed"
inside kill -KILL "$main"
until_so "another process serves" has_another_process "$main"
[ "$(property kvserver.service NRestarts)" = 1 ] || fail "it was not restarted once"
[ "$(as alice kvctl --server=$socket get greeting)" = "hello, world" ] || fail "the data are gone"

say "it hangs"
mkdir "$root/etc/systemd/system/kvserver.service.d"
printf '[Service]\nWatchdogSec=20\nTimeoutAbortSec=1\n' >"$root/etc/systemd/system/kvserver.service.d/quick.conf"
inside systemctl daemon-reload
inside systemctl restart kvserver.service || fail "restart"
main=$(property kvserver.service MainPID)
inside kill -STOP "$main"
until_so "another process serves, in the place of the one that hung" has_another_process "$main"
journal_has "Watchdog timeout" || fail "it was not the watchdog"

say "one of several"
sed 's|/remora/|/remora-one/|; s|/var/lib/remora/|/var/lib/remora-one/|' "$root/etc/remora/kvserver.conf" >"$root/etc/remora/one.conf"
inside systemctl start kvserver@one.service || fail "kvserver@one"
until_so "the second server serves" serves remora-one

say "the package is upgraded"
main=$(property kvserver.service MainPID)
other=$(property kvserver@one.service MainPID)
script postinst configure 0.0 || fail "postinst of an upgrade"
until_so "a new process serves" has_another_process "$main"
[ "$(property kvserver@one.service MainPID)" != "$other" ] || fail "kvserver@one runs the program of before"
until_so "a new process of the second server serves" serves remora-one

say "its disk stays full for a while"
# More starts in a short time than systemd permits by default.
printf '[Service]\nRestartSec=0\nExecStartPre=/bin/sh -c "exit 74"\n' >"$root/etc/systemd/system/kvserver.service.d/full.conf"
inside systemctl daemon-reload
inside systemctl restart kvserver.service 2>/dev/null || true
restarts() { [ "$(property kvserver.service NRestarts)" -ge 12 ]; }
until_so "it is started again and again" restarts
rm "$root/etc/systemd/system/kvserver.service.d/full.conf"
inside systemctl daemon-reload
until_so "it serves once the disk has space" serves remora

say "its configuration is wrong"
cp "$root/etc/remora/kvserver.conf" "$scratch/good"
echo "memroy = 1G" >>"$root/etc/remora/kvserver.conf"
! inside systemctl restart kvserver.service 2>/dev/null || fail "it starts with a bad configuration"
[ "$(inside systemctl is-failed kvserver.service)" = failed ] || fail "it is started again and again"
[ "$(property kvserver.service ExecMainStatus)" = 78 ] || fail "it ended with $(property kvserver.service ExecMainStatus)"
until_so "the log names the line" journal_has "kvserver.conf: line [0-9]*: there is no key memroy; the nearest is memory"
cp "$scratch/good" "$root/etc/remora/kvserver.conf"
inside systemctl restart kvserver.service || fail "it does not start with its old configuration"
[ "$(as alice kvctl --server=$socket get greeting)" = "hello, world" ] || fail "the data are gone"

say "the package is removed"
script prerm remove || fail "prerm"
[ "$(inside systemctl is-active kvserver.service)" = inactive ] || fail "it is still there"
[ "$(inside systemctl is-active kvserver@one.service)" = inactive ] || fail "the second server is still there"
[ "$(property kvserver.service ExecMainStatus)" = 0 ] || fail "it did not stop well"
[ ! -e "$root/run/remora/kvserver.sock" ] || fail "it left its socket"
script postrm remove || fail "postrm"
script postrm purge 2>"$scratch/said" || fail "postrm purge"
grep -q "the data stay in /var/lib/remora" "$scratch/said" || fail "the purge does not say that the data stay"
[ -d "$root/var/lib/remora/data" ] || fail "the purge took the data"
say "all done"
