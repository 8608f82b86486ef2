#!/usr/bin/env bash
# Set-up of a clone: `setup.sh venv` makes .venv from requirements.lock, `setup.sh broker` installs RabbitMQ and
# `setup.sh browser` Chromium from the distribution where there is none. All are quick when there is nothing to do.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=$PWD/.venv
stamp=$venv/.installed
# In a .venv that this script made; another one is its owner's, and not ours to delete.
made=$venv/.made-by-giveway
# What a set-up that was killed during apt left is known by the line with its pid, and removed by the next one.
policy=${GIVEWAY_POLICY_RC_D:-/usr/sbin/policy-rc.d}
policy_line='# giveway set-up, process '

say() { printf '%s\n' "$*" >&2; }
stop() { say "error: $1"; say "  What to do: $2"; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }

policy_owner() { sed -n "s/^$policy_line//p" "$policy" 2>/dev/null || true; }

drop_policy() { [ "$(policy_owner)" != "$$" ] || rm -f "$policy"; }

drop_stale_policy() {
  local owner
  owner=$(policy_owner)
  # Gone, and so ours to remove: one of another clone may be at work.
  [ -n "$owner" ] && [ -w "$policy" ] && ! kill -0 "$owner" 2>/dev/null || return 0
  say "removing $policy, left by a set-up that was killed"
  rm -f "$policy"
}

apt_install() {
  # A package must not start its service: our own node is started by devstack, and containers have no init.
  if [ ! -e "$policy" ]; then
    trap drop_policy EXIT
    printf '#!/bin/sh\n%s%s\nexit 101\n' "$policy_line" "$$" >"$policy"
    chmod 755 "$policy"
  fi
  export DEBIAN_FRONTEND=noninteractive
  local options=(-q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  apt-get "${options[@]}" update </dev/null
  apt-get "${options[@]}" install --no-install-recommends "$@" </dev/null
}

require_python() {
  command -v "$python" >/dev/null || stop "$python is not installed" \
    "install Python 3.11 or newer, or name one: make setup PYTHON=/path/to/python3.12"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || stop \
    "$("$python" --version 2>&1) is too old: giveway needs Python 3.11 or newer" \
    "name another: make setup PYTHON=/path/to/python3.12"
}

fingerprint() {
  # The folder is part of it: the scripts of a venv that was moved name an interpreter that is gone.
  { cat requirements.lock pyproject.toml devstack/setup.sh; "$python" --version; echo "$venv"; } | sha256sum
}

is_usable() { "$venv/bin/python" -m pip --version >/dev/null 2>&1; }

is_broken() { [ -e "$venv/pyvenv.cfg" ] && ! "$venv/bin/python" -c '' 2>/dev/null; }

is_installed() {
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$1" ] && "$venv/bin/python" -c '' 2>/dev/null
}

remove_venv() {
  if [ -e "$made" ] || is_broken; then
    rm -rf "$venv"
  fi
  [ -e "$venv" ] || [ -L "$venv" ] || return 0
  stop "$1, and this set-up did not make it" \
    "move it away (mv .venv .venv.mine) and run make setup again${2:+, or $2}"
}

make_venv() {
  is_usable && return
  remove_venv ".venv has no pip" "add pip to it: .venv/bin/python -m ensurepip"
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    local package
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    is_root && command -v apt-get >/dev/null || stop "$python has no venv module" "apt-get install $package"
    say "installing $package"
    apt_install "$package" >&2
  fi
  say "making .venv"
  mkdir "$venv"
  : >"$made"
  "$python" -m venv "$venv"
}

install_locked() {
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --require-hashes --only-binary :all: -r requirements.lock
}

link_clone() {
  # Not an editable install: that needs a build backend, which pip would fetch unpinned.
  local site
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n' "$PWD" >"$site/giveway.pth"
  # -P: a cli.py in the caller's folder is not ours.
  printf '#!/bin/sh\nexec "%s/bin/python" -P -m cli "$@"\n' "$venv" >"$venv/bin/giveway"
  chmod 755 "$venv/bin/giveway"
}

setup_venv() {
  require_python
  local wanted
  wanted=$(fingerprint)
  is_installed "$wanted" && return
  rm -f "$stamp"
  make_venv
  say "installing requirements.lock"
  if ! install_locked; then
    remove_venv "the dependencies could not be installed into .venv (pip's message is above)"
    say "that failed: trying once more in a new .venv"
    make_venv
    install_locked || stop "the dependencies could not be installed" "read pip's message above, then make setup"
  fi
  link_clone
  printf '%s\n' "$wanted" >"$stamp"
}

has_broker() { [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || [ -x "${GIVEWAY_RABBITMQ_SERVER:-}" ]; }

setup_broker() {
  has_broker && return
  if [ -n "${AMQP_URL:-}" ]; then
    return # used if it answers; if not, starting the stack says what to do
  fi
  is_root && command -v apt-get >/dev/null || stop "RabbitMQ is not installed and AMQP_URL is not set" \
    "set AMQP_URL=amqp://user:password@host:5672/, or: sudo apt-get install --no-install-recommends rabbitmq-server"
  say "installing rabbitmq-server"
  apt_install rabbitmq-server >&2
}

has_browser() {
  command -v chromium || command -v chromium-browser ||
    command -v google-chrome-stable || command -v google-chrome
} >/dev/null

setup_browser() {
  has_browser && return
  # Only Debian's package is the browser itself: Ubuntu's installs a snap, which containers cannot run.
  if is_root && command -v apt-get >/dev/null && [ -e /etc/debian_version ] && ! is_ubuntu; then
    say "installing chromium"
    apt_install chromium >&2
  else
    say "Chromium is not installed: the browser driver does not run, and its tests are skipped"
    say "  What to do: sudo apt-get install --no-install-recommends chromium (Debian), or Google's package for Chrome"
  fi
}

is_ubuntu() { grep -qi '^ID=ubuntu' /etc/os-release 2>/dev/null; }

# One set-up at a time: two would write one .venv.
mkdir -p .giveway
if command -v flock >/dev/null; then
  exec 9>.giveway/setup.lock
  flock 9
fi

drop_stale_policy

case "${1:-}" in
  venv) setup_venv ;;
  broker) setup_broker ;;
  browser) setup_browser ;;
  *) stop "usage: setup.sh venv|broker|browser" "use make setup" ;;
esac
