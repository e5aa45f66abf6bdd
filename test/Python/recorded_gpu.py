# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays on an emulated GPU: the memory of the recording driver is host memory, and enqueued work is
deferred until somebody waits for it. A mock framework in place of PyTorch runs on it."""

import ctypes
import sys
import types

import numpy as np

_BODY = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Driver:
    """The recording driver under the name of the real one, loaded before mpc looks for it."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self._body = None
        self._memory, self._streams = [], []

    def start(self):
        """Called after the first device of mpc exists: pushes a context for this thread."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)

    def close(self):
        """Releases the objects that this class allocated."""
        for address in self._memory:
            self.call("cuMemFree_v2", ctypes.c_ulonglong(address))
        for handle in self._streams:
            self.call("cuStreamDestroy_v2", ctypes.c_void_p(handle))
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        self.call("cuDevicePrimaryCtxRelease_v2", 0)

    def call(self, name, *arguments):
        assert getattr(self.library, name)(*arguments) == 0, name

    def count(self, *names):
        return sum(self.library.recordingCount(name.encode()) for name in names)

    def copies(self):
        return self.count("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync")

    def complaints(self):
        return self.library.recordingComplaints()

    def kernels_do(self, work):
        """Calls `work` with the addresses of each later kernel launch."""
        # Freeing memory waits for all enqueued work.
        self.call("cuMemFree_v2", ctypes.c_ulonglong(self.allocate(8)))
        self._memory.pop()

        def body(parameters, count):
            work([parameters[i] for i in range(count)])

        self._body = _BODY(body)
        self.library.recordingSetBody(self._body)

    def allocate(self, size):
        address = ctypes.c_ulonglong()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self._memory.append(address.value)
        return address.value

    def stream(self):
        handle = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(handle), 1)
        self._streams.append(handle.value)
        return handle.value

    def fetch(self, address, like, stream):
        """The contents of the memory after the work on `stream`."""
        found = np.empty_like(like)
        self.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(found.ctypes.data), ctypes.c_ulonglong(address),
                  ctypes.c_size_t(found.nbytes), ctypes.c_void_p(stream))
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))
        return found


def at(address, shape, dtype=np.float32):
    """The memory at an address of the driver's."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype).reshape(shape)


def _capsule(array, ordinal):
    """NumPy's DLPack capsule of an array, with a GPU as its device."""
    made = array.__dlpack__()
    device = _pointer(made, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)
    (ctypes.c_int32 * 2).from_address(device)[:] = 2, ordinal
    return made


class Array:
    """An array on GPU `ordinal` that speaks DLPack; `streams` are those that consumers named."""

    def __init__(self, driver, values, ordinal=0):
        self.address = driver.allocate(values.nbytes)
        self.view = at(self.address, values.shape, values.dtype)
        self.view[...] = values
        self.ordinal, self.streams = ordinal, []

    def __dlpack_device__(self):
        return 2, self.ordinal

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return _capsule(self.view, self.ordinal)


class Interface:
    """The same by __cuda_array_interface__ alone."""

    def __init__(self, array, stream=None, strides=None):
        self._array = array
        self.__cuda_array_interface__ = {"shape": array.view.shape, "typestr": array.view.dtype.str, "version": 3,
                                         "data": (array.address, True), "strides": strides, "stream": stream}


def stand_in_for_torch(driver, monkeypatch):
    """Installs a mock torch module whose tensors are on the GPU; its current stream is `module.stream`."""
    module = types.ModuleType("torch")
    module.stream, module.float32 = driver.stream(), "float32"

    class Tensor(Array):
        is_cuda, requires_grad = True, False

        @property
        def device(self):
            return types.SimpleNamespace(index=self.ordinal)

        def data_ptr(self):
            return self.address

        def contiguous(self):
            return self if self.view.flags.c_contiguous else Tensor(driver, self.view)

        def detach(self):
            made = Tensor.__new__(Tensor)
            made.__dict__.update(self.__dict__)
            made.requires_grad = False
            return made

        def __dlpack__(self, *, stream=None):
            assert not self.requires_grad, "PyTorch refuses it"
            return super().__dlpack__(stream=stream)

    Tensor.__module__ = "torch"
    module.tensor = lambda values: Tensor(driver, values)
    module.empty = lambda shape, dtype, device: Tensor(driver, np.zeros(shape, dtype))
    module.device = lambda kind, index: (kind, index)
    module.cuda = types.SimpleNamespace(
        current_stream=lambda index: types.SimpleNamespace(cuda_stream=module.stream))
    monkeypatch.setitem(sys.modules, "torch", module)
    return module
