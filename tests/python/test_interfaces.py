"""Virtual interfaces and active messages in Python."""

from __future__ import annotations

import errno
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from weft.active_messages import ActiveError, Answer, Message, Node
from weft.virtual_interfaces import Adapter, Done, ViError

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = 30.0


@pytest.fixture
def meeting() -> Iterator[Path]:
    """Give a directory whose path leaves room for the name of a socket, of 108 bytes with it."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def other(directory: Path, text: str) -> subprocess.Popen[bytes]:
    """Run another program, in which `directory` is that of this test."""
    program = f"directory = {str(directory)!r}\n{textwrap.dedent(text)}"
    return subprocess.Popen([sys.executable, "-c", program])


def bytes_of(size: int) -> np.ndarray:
    return np.zeros(size, dtype=np.uint8)


def test_two_programs_exchange_through_virtual_interfaces(meeting: Path) -> None:
    directory = meeting / "meet"
    with Adapter(directory=directory) as adapter:
        region = adapter.register(bytes_of(4096), tag=3, writable=True)
        listener = adapter.listen("pair")
        child = other(
            directory,
            """
            import numpy as np
            from weft.virtual_interfaces import Adapter
            adapter = Adapter(directory=directory)
            region = adapter.register(np.arange(256, dtype=np.uint8), tag=5)
            vi = adapter.connect("pair", tag=5, timeout=30)
            vi.receive(region, 1, 128, 128)
            done = adapter.wait(30)
            handle, address = np.frombuffer(region.array[128:144].tobytes(), dtype=np.uint64)
            vi.write(region, 2, to=(int(handle), int(address)), length=100, is_told=True)
            assert adapter.wait(30).cookie == 2
            vi.send(region, 3, 0, 7)
            assert adapter.wait(30).cookie == 3
            """,
        )
        vi = listener.accept(tag=3, timeout=LONG)
        region.array[:16].view(np.uint64)[:] = [region.handle, region.address + 1000]
        vi.receive(region, 10, 2000, 8)
        vi.receive(region, 11, 2000, 8)
        vi.send(region, 12, 0, 16)
        found = sorted(
            (adapter.wait(LONG) for _ in range(3)), key=lambda it: it.cookie if it else 0
        )
        number = vi.number
        assert found == [
            Done(number, True, 10, 100, 0),
            Done(number, True, 11, 7, 0),
            Done(number, False, 12, 16, 0),
        ]
        assert region.array[1000:1100].tolist() == list(range(100))
        assert region.array[2000:2008].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
        vi.receive(region, 13, 0, 8)
        assert child.wait(LONG) == 0
        ended = adapter.wait(LONG)
        assert ended is not None
        assert (ended.cookie, ended.error) == (13, errno.ECONNRESET)


def test_what_a_virtual_interface_refuses_names_what_is_accepted(meeting: Path) -> None:
    with Adapter(directory=meeting / "meet") as adapter:
        with pytest.raises(ViError, match='nobody listens at "none"') as refused:
            adapter.connect("none")
        assert refused.value.errno == errno.ECONNREFUSED
        with pytest.raises(ValueError, match="accepted are unreliable_delivery, reliable_delivery"):
            adapter.connect("none", "perfect")  # type: ignore[arg-type]
        with pytest.raises(ViError, match=r"no request within 0\.01 s"):
            adapter.listen("quiet").accept(timeout=0.01)
        with pytest.raises(ValueError, match="must be contiguous"):
            adapter.register(bytes_of(64)[::2])
        assert adapter.wait(0.0) is None
    with pytest.raises(ViError, match="it is closed"):
        adapter.wait(0.0)


def member(number: int, directory: Path) -> Node:
    node = Node(number, directory=directory)
    node.open(4)
    for other_number in (0, 1):
        node.join((other_number, 4), network=1)
    return node


def sent(node: Node, arguments: tuple[int, ...], payload: bytes | None) -> bool:
    try:
        node.send(4, to=(1, 4), handler=0, arguments=arguments, payload=payload)
    except ActiveError as why:
        if why.errno != errno.EHOSTUNREACH:
            raise
        return False
    return True


def test_messages_call_handlers_which_may_answer(meeting: Path) -> None:
    directory = meeting / "meet"
    child = other(
        directory,
        """
        import time
        from weft.active_messages import Answer, Node
        node = Node(1, directory=directory)
        node.open(4)
        node.join((0, 4), network=1)
        node.join((1, 4), network=1)
        def twice(message):
            first, *rest = message.arguments
            payload = None if message.payload is None else message.payload[::-1]
            return Answer(1, (2 * first, *rest), payload)
        node.handle(4, 0, twice)
        until = time.monotonic() + 30
        while node.counts.handled < 200 or node.outstanding:
            assert time.monotonic() < until
            node.wait(0.1)
        time.sleep(0.2)
        """,
    )
    seen: list[Message] = []
    with member(0, directory) as node:
        node.handle(4, 1, seen.append)
        for number in range(200):
            payload = bytes(range(number)) if number % 2 else None
            # The other process may not have opened its node yet.
            while not sent(node, (number, 5), payload):
                pass
        while len(seen) < 200:
            assert node.wait(LONG)
        assert child.wait(LONG) == 0
        assert (node.counts.delivered, node.counts.failed) == (200, 0)
    assert [it.arguments for it in seen] == [(2 * number, 5, 0, 0, 0) for number in range(200)]
    assert seen[3].payload == bytes([2, 1, 0])
    assert (seen[4].payload, seen[4].initiator) == (None, (1, 4))


def test_what_a_handler_raises_is_raised_where_progress_is_made(meeting: Path) -> None:
    directory = meeting / "meet"

    def fails(message: Message) -> Answer:
        raise RuntimeError(f"no {message.arguments[0]}")

    with member(0, directory) as one, member(1, directory) as two:
        two.handle(4, 0, fails)
        one.send(4, to=(1, 4), handler=0, arguments=(7,))
        with pytest.raises(RuntimeError, match="no 7"):
            two.wait(LONG)
        with pytest.raises(ActiveError, match="outside of virtual network 1"):
            one.send(4, to=(1, 9), handler=0)
        with pytest.raises(ActiveError, match="at most 2048"):
            one.send(4, to=(1, 4), handler=0, payload=bytes(2049))
        with pytest.raises(ValueError, match="up to 5 of 32 bits"):
            one.send(4, to=(1, 4), handler=0, arguments=(-1,))
        with pytest.raises(ActiveError, match="node 0 is in use by another process"):
            Node(0, directory=directory)
