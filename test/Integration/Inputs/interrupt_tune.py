# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a command, interrupts it after the Nth line of stderr that starts with a word, and prints
its output. With a plus after N it also gets SIGTERM at once.

usage: interrupt_tune.py N[+] WORD COMMAND...
"""
import signal
import subprocess
import sys
import threading

count, word, command = int(sys.argv[1].rstrip("+")), sys.argv[2], sys.argv[3:]
with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
    out = []
    reader = threading.Thread(target=lambda: out.append(process.stdout.read()))
    reader.start()
    for line in process.stderr:
        print(line, end="")
        if line.startswith(word):
            count -= 1
            if count == 0:
                process.send_signal(signal.SIGINT)
                if sys.argv[1].endswith("+"):
                    process.send_signal(signal.SIGTERM)
    reader.join()
print(out[0], end="")
print("exit code", process.returncode)
