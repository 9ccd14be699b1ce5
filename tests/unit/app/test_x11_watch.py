"""What the window's watch tells of input, against a real X server and programs that make input on it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import pytest
from Xlib import display

from app.input_origin import InputOrigin, Stroke
from app.x11_watch import LOST, MOST, XWatch, real_devices_of
from tests.fakes.display import virtual_display
from tests.fakes.session_attacker import XAttacker


@dataclass
class Desk:
    """One display with a watch and an attacker on it."""

    name: str
    watch: XWatch
    attacker: XAttacker

    def hands(self) -> list[tuple[str, InputOrigin]]:
        """What is told of each event since the last time, as of a chord with Ctrl."""
        assert self.watch.catch_up(10)
        told = [
            (one.kind, self.watch.hand_of(Stroke(one.kind, one.time_ms, one.keycode, control=True)))
            for one in self.watch._strokes
        ]
        self.watch._strokes.clear()
        return told


@pytest.fixture
def desk() -> Iterator[Desk]:
    with virtual_display() as name:
        watch, attacker = XWatch(name), XAttacker(name)
        watch.watch_keys(True)
        # The server may hear the attacker first, and tells of a key only once it has been asked to.
        assert watch.catch_up(10)
        yield Desk(name, watch, attacker)
        with contextlib.suppress(*LOST):
            attacker.close()
        watch.close()


def server() -> psutil.Process:
    """The display's server, which is the newest of the children."""
    servers = [one for one in psutil.Process().children() if one.name() == "Xvfb"]
    return max(servers, key=lambda one: one.create_time())


def test_what_xtest_makes_is_synthetic(desk: Desk) -> None:
    desk.attacker.button(device=False)
    desk.attacker.keys(desk.attacker.enter, device=False)
    assert desk.hands() == [
        ("button down", InputOrigin.SYNTHETIC),
        ("button up", InputOrigin.SYNTHETIC),
        ("key down", InputOrigin.SYNTHETIC),
        ("key up", InputOrigin.SYNTHETIC),
    ]


def test_what_xtest_makes_in_the_name_of_a_real_device_is_synthetic_because_it_was_recorded(
    desk: Desk,
) -> None:
    desk.attacker.button(device=True)
    assert desk.watch.catch_up(10)
    assert [one.is_real for one in desk.watch._strokes] == [True, True]
    assert {hand for _kind, hand in desk.hands()} == {InputOrigin.SYNTHETIC}
    desk.attacker.button(device=True)
    assert desk.watch.catch_up(10)
    desk.watch._faked.clear()
    assert {hand for _kind, hand in desk.hands()} == {InputOrigin.REAL}


def test_a_device_is_believed_again_some_time_after_it_was_faked(desk: Desk) -> None:
    desk.attacker.keys(desk.attacker.enter, device=True)
    assert desk.watch.catch_up(10)
    [pressed, _released] = desk.watch._strokes
    told = Stroke("key down", pressed.time_ms, pressed.keycode, control=False)
    desk.watch._faked.clear()
    real, synthetic = InputOrigin.REAL, InputOrigin.SYNTHETIC
    for began, ended, hand in (
        (-9, -1, real), (-9, 0, synthetic), (0, 0, synthetic), (0, 9, synthetic),
        (1, 9, real), (-(pressed.time_ms + 9), 9, synthetic),
    ):  # fmt: skip
        # The server's time begins anew after 50 days.
        span = ((pressed.time_ms + began) % (1 << 32), (pressed.time_ms + ended) % (1 << 32))
        desk.watch._faked.append(span)
        assert desk.watch.hand_of(told) is hand, span
        desk.watch._faked.clear()
    # So many fakes that older ones are forgotten: what was pressed before the oldest may have been faked.
    desk.watch._faked.extend([(pressed.time_ms + 5, pressed.time_ms + 6)] * MOST)
    assert desk.watch.hand_of(told) is InputOrigin.SYNTHETIC


def test_a_request_that_waits_before_it_acts_is_found(desk: Desk) -> None:
    """The server may write it down with what came long before, under the time of that."""
    for after_ms in (1, 20, 300):
        desk.attacker.button(device=True, after_ms=after_ms)
        assert {hand for _kind, hand in desk.hands()} == {InputOrigin.SYNTHETIC}


def test_a_fake_behind_thousands_of_other_requests_is_found(desk: Desk) -> None:
    desk.attacker.moves(20_000)
    desk.attacker.button(device=True)
    assert {hand for _kind, hand in desk.hands()} == {InputOrigin.SYNTHETIC}


def test_requests_of_other_programs_are_not_taken_for_marks(desk: Desk) -> None:
    assert desk.watch.catch_up(10)
    before = desk.watch._marks_recorded
    desk.attacker.versions(50)
    assert desk.watch.catch_up(10)
    assert desk.watch._marks_recorded == before + 1


@pytest.mark.parametrize("attack", [XAttacker.leave_record, XAttacker.end_record])
def test_a_recording_that_another_program_changes_confirms_no_hand(
    desk: Desk, attack: Callable[[XAttacker, int], None]
) -> None:
    assert desk.watch.catch_up(10)
    attack(desk.attacker, desk.watch._context)
    desk.attacker.button(device=True)
    assert desk.watch.catch_up(10) is False
    # Nor later.
    assert desk.watch.catch_up(10) is False


def test_a_chord_counts_when_a_device_holds_ctrl(desk: Desk) -> None:
    control, enter = desk.attacker.control, desk.attacker.enter
    desk.attacker.keys(control, enter, device=True)
    assert desk.watch.catch_up(10)
    desk.watch._faked.clear()
    assert desk.hands()[1] == ("key down", InputOrigin.REAL)
    desk.attacker.key(control, down=True, device=False)
    desk.attacker.keys(enter, device=True)
    assert desk.watch.catch_up(10)
    desk.watch._faked.clear()
    assert desk.hands()[1:] == [("key down", InputOrigin.SYNTHETIC), ("key up", InputOrigin.SYNTHETIC)]


def test_an_event_that_the_server_did_not_make_is_no_hand(desk: Desk) -> None:
    desk.attacker.keys(desk.attacker.enter, device=True)
    assert desk.watch.catch_up(10)
    desk.watch._faked.clear()
    [pressed, _released] = desk.watch._strokes
    for kind, time_ms, keycode in (
        ("key down", pressed.time_ms - 1, pressed.keycode),
        ("key down", pressed.time_ms, pressed.keycode + 1),
        ("button down", pressed.time_ms, 0),
    ):
        assert desk.watch.hand_of(Stroke(kind, time_ms, keycode, control=False)) is InputOrigin.SYNTHETIC  # type: ignore[arg-type]


def test_keys_are_followed_only_while_they_are_wanted(desk: Desk) -> None:
    desk.watch.watch_keys(False)
    # The server has taken that once it answers; the keys come over another connection.
    assert desk.watch.catch_up(10)
    desk.attacker.keys(desk.attacker.enter, device=True)
    desk.attacker.button(device=True)
    assert [kind for kind, _hand in desk.hands()] == ["button down", "button up"]


def test_when_devices_come_none_is_real_until_they_are_known(desk: Desk) -> None:
    known = real_devices_of(desk.name)
    other = desk.attacker.add_master()
    desk.attacker.button(device=True)
    assert desk.watch.catch_up(10)
    desk.watch._faked.clear()
    assert {hand for _kind, hand in desk.hands()} == {InputOrigin.SYNTHETIC}
    assert desk.watch.devices_changed
    assert real_devices_of(desk.name) == known
    assert other not in known
    desk.watch.know_devices(real_devices_of(desk.name))
    desk.attacker.button(device=True)
    assert desk.watch.catch_up(10)
    desk.watch._faked.clear()
    assert {hand for _kind, hand in desk.hands()} == {InputOrigin.REAL}


def test_a_server_that_does_not_answer_is_not_waited_for(desk: Desk) -> None:
    process = server()
    os.kill(process.pid, signal.SIGSTOP)
    try:
        assert desk.watch.catch_up(0.01) is False
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert desk.watch.catch_up(10) is True


def test_a_server_that_is_lost_is_an_error(desk: Desk) -> None:
    process = server()
    process.kill()
    process.wait()
    with pytest.raises(LOST):
        desk.watch.catch_up(10)


def test_without_xtest_there_is_nothing_to_record() -> None:
    with virtual_display(options=("-extension", "XTEST")) as name:
        connection = display.Display(name)
        assert not connection.has_extension("XTEST")
        connection.close()
        watch = XWatch(name)
        assert watch.catch_up(10)
        assert len(list(watch.sockets())) == 1
        watch.close()
