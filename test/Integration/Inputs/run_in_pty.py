# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a command in a terminal of COLUMNS and prints what it shows: each redrawn line once more,
without control characters. After the first one that holds WORD it presses Ctrl-C.

usage: run_in_pty.py COLUMNS WORD COMMAND...
"""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

columns, word, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
main, side = pty.openpty()
fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
with subprocess.Popen(command, stdin=side, stdout=side, stderr=side, start_new_session=True,
                      preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) as process:
    os.close(side)
    seen, pressed = b"", False
    while True:
        try:
            data = os.read(main, 4096)
        except OSError:  # The other side is closed.
            break
        if not data:
            break
        seen += data
        if word.encode() in seen and not pressed and word:
            pressed = True
            os.write(main, b"\x03")
    process.wait()
for line in re.split(r"[\r\n]+", seen.decode()):
    plain = line.replace("\x1b[K", "")
    if plain:
        print(plain)
    if len(plain) >= columns and plain.startswith("["):
        print(f"WRAPS: {len(plain)} characters in {columns} columns")
print("erases" if b"\x1b[K" in seen else "never erases")
print("exit code", process.returncode)
