import os
import signal
import threading

import pytest

from pruner.display import Display
from pruner.interrupt import stop_on_interrupt, terminated_like_interrupted


class Messages(Display):
    def __init__(self):
        self.said = []

    def message(self, text):
        self.said.append(text)


def send(number=signal.SIGINT):
    os.kill(os.getpid(), number)
    signal.sigpending()  # a Python call, so that the handler runs here


def test_the_first_asks_and_the_second_stops():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    display = Messages()
    with stop_on_interrupt(display) as stop:
        assert not stop.is_set()
        send()
        assert stop.is_set()
        assert len(display.said) == 1
        with pytest.raises(KeyboardInterrupt):
            send()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_second_one_waits_for_what_must_be_whole():
    with stop_on_interrupt(Messages()) as stop:
        stop.check()
        send()
        with stop.held():
            send()
            send()
        with pytest.raises(KeyboardInterrupt):
            stop.check()
        stop.check()  # told once


def test_a_request_to_terminate_stops_at_once():
    with stop_on_interrupt(Messages()) as stop:
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGTERM)
        assert stop.is_set()


def test_other_threads_leave_the_signals_alone():
    handlers = []

    def run():
        with stop_on_interrupt(Messages()) as stop:
            handlers.append((signal.getsignal(signal.SIGINT), stop.is_set()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [(signal.getsignal(signal.SIGINT), False)]


def test_a_command_ends_on_a_request_to_terminate_as_on_ctrl_c():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminated_like_interrupted():
        send(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
