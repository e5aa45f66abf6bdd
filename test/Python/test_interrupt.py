# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ctrl-C ends a compile."""

import os
import signal
import subprocess
import sys
import threading
import time

import mpc
import numpy as np
import pytest


def deep(layers):
    """Text of so many layers, whose sizes differ so that each has a kernel of its own."""
    sizes = [16 + (7 * i) % 61 for i in range(layers + 1)]
    arguments = ", ".join(f'%w{i}: tensor<{a}x{b}xf32> {{mpc.role = #mpc.role<parameter>, mpc.name = "w{i}"}}'
                          for i, (a, b) in enumerate(zip(sizes, sizes[1:])))
    lines = [f'func.func @main(%x: tensor<5x{sizes[0]}xf32> {{mpc.role = #mpc.role<input>, mpc.name = "x"}}, {arguments})',
             f'  -> (tensor<5x{sizes[-1]}xf32> {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{']
    value = "%x"
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        lines += [f"  %m{i} = mpc.matmul {value}, %w{i} : (tensor<5x{a}xf32>, tensor<{a}x{b}xf32>) -> tensor<5x{b}xf32>",
                  f"  %t{i} = mpc.tanh %m{i} : tensor<5x{b}xf32>"]
        value = f"%t{i}"
    return "\n".join([*lines, f"  return {value} : tensor<5x{sizes[-1]}xf32>", "}", ""])


def prepare(function):
    """Compiles for the shapes in the text."""
    return function.compile(*[np.zeros(i.shape, np.float32) for i in function.inputs])


def compiled(text):
    return prepare(mpc.compile(text, policy="float32", cache=False))


@pytest.fixture(autouse=True)
def heard():
    """Programs that a shell starts in the background ignore interrupts, as do theirs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_a_compile_and_the_next_one_works():
    function = mpc.compile(deep(60), policy="float32", cache=False)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        prepare(function)
    # A compile that had gone on to its end would have results.
    assert function.outputs == []
    assert prepare(function).outputs == ["y"]


def test_what_a_handler_raises_comes_through():
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            for _ in range(20):
                compiled(deep(40))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_program_ends_with_the_interrupt():
    program = f"import sys; sys.path[:0] = {sys.path!r}\nfrom test_interrupt import compiled, deep\n" \
              "print('ready', flush=True)\nwhile True:\n  compiled(deep(40))\n"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=120)
    finally:
        child.kill()
    assert child.returncode == -signal.SIGINT and error.rstrip().endswith("KeyboardInterrupt")
