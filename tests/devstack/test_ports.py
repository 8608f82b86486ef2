"""Ports: configured, remembered, preferred, free, in this order."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.errors import PortInvalid, PortTaken
from devstack.ports import PortBook


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        yield listener.getsockname()[1]


def test_a_taken_configured_port_names_the_port_the_variable_and_what_to_do(tmp_path: Path, taken: int) -> None:
    book = PortBook(tmp_path, {"GIVEWAY_PG_PORT": str(taken)}, {})
    with pytest.raises(PortTaken) as failure:
        book.take("postgres")
    assert failure.value.code == "port_taken"
    assert str(taken) in failure.value.message
    assert "GIVEWAY_PG_PORT" in failure.value.message
    assert "unset it" in failure.value.fix


def test_a_taken_preferred_port_gives_way_to_a_free_one_that_is_remembered(tmp_path: Path, taken: int) -> None:
    book = PortBook(tmp_path, {}, {"postgres": taken})
    chosen = book.take("postgres")
    book.close()
    assert chosen != taken
    assert PortBook(tmp_path, {}, {"postgres": taken}).take("postgres") == chosen


def test_two_servers_of_one_stack_never_share_a_port(tmp_path: Path) -> None:
    book = PortBook(tmp_path, {}, {"api": 21_111, "hub": 21_111})
    assert book.take("api") != book.take("hub")


def test_two_stacks_that_start_at_once_never_choose_the_same_port(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first = PortBook(tmp_path, {}, {"metrics": 21_222})
    preferred = first.take("metrics")
    second = PortBook(tmp_path / "other", {"GIVEWAY_HUB_PORT": str(preferred)}, {"metrics": preferred})
    assert second.take("metrics") != preferred
    with pytest.raises(PortTaken):
        second.take("hub")
    first.close()
    assert second.take("hub") == preferred


@pytest.mark.parametrize("value", ["http", "0", "65536", "-1", "８０８０", "80 "])
def test_what_is_not_a_port_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(PortInvalid, match="GIVEWAY_API_PORT"):
        PortBook(tmp_path, {"GIVEWAY_API_PORT": value}, {}).take("api")


def test_a_damaged_ports_file_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("{half")
    assert PortBook(tmp_path, {}, {}).take("epmd") > 0
