# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C API from Python's ctypes, as another language's binding would use it.

  c_api.py raw FILE.npz NAME OUTPUT      writes the elements of an array
  c_api.py run LIBMPC MODEL.onnx POLICY INPUTS.npz EXPECTED.npz
"""

import ctypes
import math
import pathlib
import struct
import sys
import zipfile
from ctypes import (POINTER, byref, c_char_p, c_double, c_int32, c_int64,
                    c_size_t, c_uint32, c_uint64, c_void_p, sizeof)


def elements(path, name):
    """The bytes of an array's elements, without NumPy."""
    data = zipfile.ZipFile(path).read(name + ".npy")
    wide = data[6] > 1
    size = struct.unpack_from("<I" if wide else "<H", data, 8)[0]
    return data[8 + (4 if wide else 2) + size:]


class Versioned(ctypes.Structure):
    def __init__(self, **members):
        super().__init__(size=sizeof(self), **members)


class ModelBytes(Versioned):
    _fields_ = [("size", c_size_t), ("data", c_void_p), ("bytes", c_size_t),
                ("name", c_char_p), ("external_folder", c_char_p),
                ("read_external", c_void_p), ("release", c_void_p),
                ("user", c_void_p)]


class Dim(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("extent", c_int64)]


class FirstCompileOptions(Versioned):
    """The leading members: an older caller."""
    _fields_ = [("size", c_size_t), ("policy", c_char_p),
                ("overrides", c_void_p), ("override_count", c_size_t),
                ("dims", POINTER(Dim)), ("dim_count", c_size_t)]


class ValueInfo(Versioned):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("element", c_int32),
                ("is_optional", c_int32), ("shape", POINTER(c_int64)),
                ("rank", c_size_t), ("symbols", POINTER(c_char_p)),
                ("bytes", c_size_t), ("role", c_char_p), ("alias", c_int64),
                ("integer_bound", c_int64), ("initial", c_void_p),
                # A newer caller, whose last member this library lacks.
                ("later", c_double)]


class Buffer(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class SamplerOptions(Versioned):
    _fields_ = [("size", c_size_t), ("temperature", c_double),
                ("top_k", c_int64), ("top_p", c_double), ("min_p", c_double),
                ("repetition_penalty", c_double), ("seed", c_uint64)]


class Failure(Exception):
    pass


class Library:
    """libmpc_c; failed calls raise the text of their error."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.mpc_error_text.restype = c_char_p
        self.c.mpc_version.restype = c_uint32

    def __getattr__(self, name):
        function = getattr(self.c, "mpc_" + name)

        def call(*arguments):
            if function(*arguments) != 0:
                raise Failure(self.c.mpc_error_text().decode())
        return call

    def make(self, name, *arguments):
        handle = c_void_p()
        getattr(self, name)(*arguments, byref(handle))
        return handle


def run(library, model_path, policy, inputs, expected):
    mpc = Library(library)
    model_bytes = pathlib.Path(model_path).read_bytes()
    held = ctypes.create_string_buffer(model_bytes, len(model_bytes))
    device = mpc.make("device_create", None)
    model = mpc.make("model_from_bytes", byref(ModelBytes(
        data=ctypes.addressof(held), bytes=len(model_bytes), name=b"held.onnx")))
    program = mpc.make("compile", device, model,
                       byref(FirstCompileOptions(policy=policy.encode())))

    def describe(kind):
        info = ValueInfo(later=1)
        getattr(mpc, "program_" + kind)(program, c_size_t(0), byref(info))
        shape = info.shape[:info.rank]
        assert info.bytes == 4 * math.prod(shape) and info.later == 0
        return info.name.decode(), info.bytes, shape

    name, size, _ = describe("input")
    image = ctypes.create_string_buffer(elements(inputs, name), size)
    name, size, shape = describe("output")
    result = ctypes.create_string_buffer(size)
    one = c_size_t(1)
    mpc.run(program, byref(Buffer(ctypes.addressof(image), len(image))), one,
            byref(Buffer(ctypes.addressof(result), size)), one, None)
    print(name, shape, "same bits" if result.raw == elements(expected, name)
          else "other bits")

    for call in (lambda: mpc.make("model_open", None),
                 lambda: mpc.make("compile", model, model, None),
                 lambda: mpc.make("sampler_create",
                                  byref(SamplerOptions(temperature=-1)))):
        try:
            call()
            print("no error")
        except Failure as failure:
            print(failure)
    for kind, handle in (("program", program), ("model", model),
                         ("device", device)):
        getattr(mpc.c, f"mpc_{kind}_destroy")(handle)


if __name__ == "__main__":
    if sys.argv[1] == "raw":
        pathlib.Path(sys.argv[4]).write_bytes(elements(*sys.argv[2:4]))
    else:
        run(*sys.argv[2:])
