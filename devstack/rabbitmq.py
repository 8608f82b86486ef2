"""A RabbitMQ node of our own, from the distribution's package, beside any other node on the machine."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from devstack import probes
from devstack.accounts import is_root
from devstack.errors import BinaryMissing
from devstack.files import stack_id, write_private
from devstack.part import Part

# Not /usr/sbin/rabbitmq-server: Debian's wrapper there changes to the account and folders of the system service.
_SERVERS = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "/opt/rabbitmq/sbin/rabbitmq-server")
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INSTALL = "apt-get update && apt-get install --no-install-recommends rabbitmq-server"


@dataclass(frozen=True, slots=True)
class Node:
    """One broker: its folder, its name, its ports."""

    home: Path
    name: str
    port: int
    dist_port: int
    epmd_port: int

    @property
    def url(self) -> str:
        """Its AMQP address. The guest login works over loopback only, which is all it listens on."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"


def server(environ: Mapping[str, str] = os.environ) -> Path:
    """The real server script, or `BinaryMissing` saying how to get one."""
    for candidate in (environ.get("GIVEWAY_RABBITMQ_SERVER", ""), *_SERVERS):
        if candidate and os.access(candidate, os.X_OK) and shutil.which("erl", path=_search_path(environ)):
            return Path(candidate)
    raise BinaryMissing("RabbitMQ is not installed and AMQP_URL names no broker that answers", how_to_get())


def how_to_get() -> str:
    """What to do where there is no RabbitMQ."""
    command = INSTALL if is_root() else f"sudo sh -c '{INSTALL}'"
    return f"set AMQP_URL=amqp://user:password@host:5672/ to a running broker, or install one: {command}"


def make_node(state_dir: Path, port: int, dist_port: int, epmd_port: int) -> Node:
    """Write the node's folder: configuration, no plugins, a cookie of its own."""
    home = state_dir / "rabbitmq"
    home.mkdir(mode=0o700, exist_ok=True)
    node = Node(home, f"giveway-{stack_id(state_dir)}@localhost", port, dist_port, epmd_port)
    write_private(home / "rabbitmq.conf", _CONFIG.format(port=port))
    write_private(home / "enabled_plugins", "[].\n")
    write_private(home / "rabbitmq-env.conf", "")
    cookie = home / ".erlang.cookie"
    if not cookie.exists():
        write_private(cookie, os.urandom(16).hex())
        cookie.chmod(0o400)
    return node


_CONFIG = """\
listeners.tcp.loopback = 127.0.0.1:{port}
log.console = true
log.console.level = warning
log.file = false
"""


def parts(node: Node, environ: Mapping[str, str] = os.environ) -> list[Part]:
    """The name server and the broker.

    The name server (epmd) is a part of its own: started by the broker it would become a daemon that
    outlives every stop and serves other nodes of the machine.
    """
    env = environment(node, environ)
    epmd = shutil.which("epmd", path=_search_path(environ)) or "epmd"
    return [
        Part(
            name="epmd",
            argv=(epmd, "-port", str(node.epmd_port), "-address", "127.0.0.1"),
            env=env,
            ready=partial(probes.tcp, "127.0.0.1", node.epmd_port),
            cwd=node.home,
        ),
        Part(
            name="rabbitmq",
            argv=(str(server(environ)),),
            env=env,
            ready=partial(probes.amqp, node.url),
            cwd=node.home,
            grace=60.0,
        ),
    ]


def environment(node: Node, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Everything that keeps this node apart from the system's. `rabbitmqctl` needs the same."""
    home = node.home
    return {
        "PATH": _search_path(environ),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(node.epmd_port),
        "RABBITMQ_NODENAME": node.name,
        "RABBITMQ_DIST_PORT": str(node.dist_port),
        "RABBITMQ_CONF_ENV_FILE": str(home / "rabbitmq-env.conf"),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_SCHEMA_DIR": str(home / "schema"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(home / "config"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        # The script then becomes the broker instead of waiting for it, so that our pid is the broker's.
        "RUNNING_UNDER_SYSTEMD": "true",
    }


def control_command(node: Node, *arguments: str, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """`rabbitmqctl` for this node; run it with `environment(node)`."""
    return (str(server(environ).with_name("rabbitmqctl")), *arguments)


def _search_path(environ: Mapping[str, str]) -> str:
    return f"{environ.get('PATH', '')}:{_SYSTEM_PATH}".lstrip(":")
