"""Connections over TLS move to threads and back: every byte arrives once and in order, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import hashlib
import random
import ssl
from collections.abc import Iterator

import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.unit.runtime.tls_scene import Scene, all_heard, other_of
from waymesh_amqp.performatives import Open
from waymesh_router.runtime.loop import Loop
from waymesh_router.runtime.transport import tls_threads
from waymesh_router.runtime.transport.tls_threads import (
    RING_BYTES,
    TlsThreads,
    why_not,
)
from waymesh_router.runtime.worker_threads import added_threads


@pytest.fixture(autouse=True)
def _no_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that are quiet return by themselves only where a test wants it."""
    monkeypatch.setattr(tls_threads, "QUIET_S", 1e6)


@pytest.fixture
def scene(authority: Authority, server: KeyPair) -> Iterator[Scene]:
    with contextlib.closing(Scene(authority, server)) as scene:
        yield scene


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("seed", range(6))
def test_connections_that_move_at_random_lose_nothing(
    authority: Authority, server: KeyPair, seed: int, version: ssl.TLSVersion
) -> None:
    rng = random.Random(seed)
    with contextlib.closing(Scene(authority, server, version=version)) as scene:
        one, other = scene.ends
        steps = 400

        def step() -> bool:
            nonlocal steps
            if steps:
                steps -= 1
                end = rng.choice(scene.ends)
                what = rng.random()
                if what < 0.5 and end.octets_said - other_of(scene, end).octets_heard < 4 << 20:
                    end.tell(rng.randbytes(rng.choice((1, 100, 5000, 40_000, 300_000))))
                elif what < 0.7:
                    scene.threads.move(end.io)
                elif what < 0.8:
                    end.io.give_back()
            return not steps and all_heard(one, other)

        scene.run(step)
        assert [one.heard.digest(), other.heard.digest()] == [other.said.digest(), one.said.digest()]
        assert not one.ends + other.ends


@pytest.mark.parametrize("seed", range(12))
def test_an_end_that_closes_in_order_delivers_all_it_said(authority: Authority, server: KeyPair, seed: int) -> None:
    rng = random.Random(seed)
    with contextlib.closing(Scene(authority, server)) as scene:
        closing = rng.choice(scene.ends)
        staying = other_of(scene, closing)
        for end in scene.ends:
            if rng.random() < 0.7:
                scene.threads.move(end.io)
        said = 0

        def step() -> bool:
            nonlocal said
            if said < 6:
                said += 1
                closing.tell(rng.randbytes(rng.choice((10, 10_000, 900_000))))
                if rng.random() < 0.3:
                    scene.threads.move(rng.choice(scene.ends).io)
                if said == 6:
                    closing.done = True
                    closing.io.flush()
            return bool(staying.ends)

        scene.run(step)
        assert staying.heard.digest() == closing.said.digest()
        assert (staying.ends, closing.ends) == (["closed by the peer"], ["finished"])
        assert not scene.moved


@pytest.mark.parametrize("seed", range(12))
def test_an_end_that_is_cut_leaves_the_beginning_of_what_it_said(
    authority: Authority, server: KeyPair, seed: int
) -> None:
    rng = random.Random(seed)
    with contextlib.closing(Scene(authority, server)) as scene:
        cut = rng.choice(scene.ends)
        staying = other_of(scene, cut)
        for end in scene.ends:
            scene.threads.move(end.io)
        data = rng.randbytes(3_000_000)
        told = 0

        def step() -> bool:
            nonlocal told
            if cut.io.open and told < len(data):
                size = rng.choice((1, 1000, 100_000, 500_000))
                cut.tell(data[told : told + size])
                told += size
                staying.tell(data[told : told + size])
                if rng.random() < 0.2:
                    cut.ended(cut.io, "cut")
            elif cut.io.open:
                cut.ended(cut.io, "cut")
            return bool(staying.ends)

        scene.run(step)
        assert hashlib.sha256(data[: staying.octets_heard]).digest() == staying.heard.digest()
        assert not scene.moved


def test_a_connection_moves_after_three_large_reads_or_writes(scene: Scene) -> None:
    one, other = scene.ends
    for end in scene.ends:
        end.remote = Open("peer")
    one.tell(b"x" * 100)
    scene.run(lambda: all_heard(one, other))
    assert scene.moved == 0
    for _ in range(3):
        one.tell(b"x" * 8192)
        scene.run(lambda: all_heard(one, other))
    assert scene.moved == 2


def test_a_connection_that_has_not_opened_does_not_move(scene: Scene) -> None:
    one, other = scene.ends
    for _ in range(5):
        one.tell(b"x" * 8192)
        scene.run(lambda: all_heard(one, other))
    assert scene.moved == 0


def test_no_more_connections_move_than_there_is_memory_for(authority: Authority, server: KeyPair) -> None:
    with contextlib.closing(Scene(authority, server)) as scene:
        few = TlsThreads(scene.loop, 1, RING_BYTES + 1)
        for end in scene.ends:
            few.move(end.io)
        assert len(few.threads[0].moved) == few.most == 1
        few.stop()


def test_a_quiet_connection_returns(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_threads, "QUIET_S", 0.2)
    one, other = scene.ends
    for end in scene.ends:
        scene.threads.move(end.io)
    one.tell(b"x" * 100_000)
    scene.run(lambda: all_heard(one, other) and not scene.moved)
    other.tell(b"y" * 100)
    scene.run(lambda: all_heard(one, other))


def test_who_needs_the_object_of_openssl_gets_it_back(scene: Scene) -> None:
    one, other = scene.ends
    scene.threads.move(one.io)
    one.tell(b"x" * 700_000)
    assert scene.moved == 1
    assert one.io.tls.tls.version() == "TLSv1.3"
    assert scene.moved == 0
    scene.run(lambda: all_heard(one, other))
    assert other.heard.digest() == one.said.digest()


def test_a_peer_that_does_not_read_is_waited_for(scene: Scene) -> None:
    one, other = scene.ends
    scene.threads.move(one.io)
    other.be_deaf()
    for _ in range(100):
        one.tell(b"x" * 100_000)
    assert one.pending(), "there is room without end"
    other.hear_again()
    scene.run(lambda: all_heard(one, other))
    assert other.heard.digest() == one.said.digest()


def test_who_does_not_read_from_the_thread_stops_the_peer(scene: Scene) -> None:
    one, other = scene.ends
    scene.threads.move(one.io)
    one.io.limit_unsent()
    other.be_deaf()
    while len(one.pending()) <= 2 << 20:
        one.tell(b"x" * 1_000_000)
    for _ in range(200):  # what it sends has no place
        other.tell(b"y" * 100_000)
    assert other.pending()
    other.hear_again()
    scene.run(lambda: all_heard(one, other))
    assert (one.heard.digest(), other.heard.digest()) == (other.said.digest(), one.said.digest())


def test_little_waits_for_a_slow_router_so_that_urgent_frames_overtake(scene: Scene) -> None:
    one, other = scene.ends
    one.io.keep_little_unsent()
    scene.threads.move(one.io)
    other.be_deaf()
    one.tell(b"x" * (24 << 20))
    taken = -1
    while taken != one.octets_out:
        taken = one.octets_out
        scene.turns(50)
    assert one.pending()
    other.hear_again()
    scene.run(lambda: all_heard(one, other))
    assert other.heard.digest() == one.said.digest()


def test_the_objects_of_openssl_are_found() -> None:
    assert why_not() == ""


@pytest.mark.parametrize("wanted", [1, 2, 64])
def test_how_many_threads_are_added(wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    monkeypatch.setattr("waymesh_router.runtime.worker_threads.cores", lambda: 3)
    threads, reason = added_threads(loop, wanted, 1 << 20)
    count = 0 if threads is None else len(threads.threads)
    assert count == min(wanted, 3) - 1
    assert reason == ("only 3 have an effect: the process may use 3 cores" if wanted > 3 else "")
    if threads is not None:
        threads.stop()
    loop.close()
