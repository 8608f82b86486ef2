#!/usr/bin/env bash
# Set-up of a clone: `setup.sh venv` makes .venv from requirements.lock, `setup.sh broker` installs RabbitMQ
# from the distribution where there is none. Both are quick when there is nothing to do.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=$PWD/.venv
stamp=$venv/.installed

say() { printf '%s\n' "$*" >&2; }
stop() { say "error: $1"; say "  What to do: $2"; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }

apt_install() {
  # A package must not start its service: our own node is started by devstack, and containers have no init.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap "rm -f $policy" EXIT
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

is_installed() {
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$1" ] && "$venv/bin/python" -c '' 2>/dev/null
}

make_venv() {
  is_usable && return
  rm -rf "$venv"
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    local package
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    is_root && command -v apt-get >/dev/null || stop "$python has no venv module" "apt-get install $package"
    say "installing $package"
    apt_install "$package" >&2
  fi
  say "making .venv"
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
    say "that failed: trying once more in a new .venv"
    rm -rf "$venv"
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

# One set-up at a time: two would write one .venv.
mkdir -p .giveway
if command -v flock >/dev/null; then
  exec 9>.giveway/setup.lock
  flock 9
fi

case "${1:-}" in
  venv) setup_venv ;;
  broker) setup_broker ;;
  *) stop "usage: setup.sh venv|broker" "use make setup" ;;
esac
