//===- GpuArrays.cpp - conversion of Python arrays on a GPU ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuArrays.h"

#include "ArrayTypes.h"
#include "Errors.h"
#include "InterpreterLock.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

static Status wrong(const std::string &input, const std::string &text) {
  return Status(StatusCode::InvalidArgument, "input '" + input + "'", text);
}

static bool isTruthy(nb::handle value) {
  return PyObject_IsTrue(value.ptr()) == 1;
}

//===----------------------------------------------------------------------===//
// Array locations
//===----------------------------------------------------------------------===//

std::string python::gpuName(int ordinal) {
  return "cuda:" + std::to_string(ordinal);
}

ArrayLocation python::placeOf(nb::handle object) {
  if (nb::isinstance<SharedResult>(object)) {
    const SharedResult &result = nb::cast<SharedResult &>(object);
    return result.gpu ? ArrayLocation{true, result.gpu->ordinal()}
                      : ArrayLocation();
  }
  if (frameworkOf(object) == Framework::PyTorch) {
    // Fast path for host tensors: a single look-up.
    if (!isTruthy(nb::getattr(object, "is_cuda", nb::bool_(false))))
      return {};
    return {true, nb::cast<int>(object.attr("device").attr("index"))};
  }
  if (nb::hasattr(object, "__dlpack_device__")) {
    auto [kind, number] = nb::cast<std::pair<int, int>>(
        nb::tuple(object.attr("__dlpack_device__")()));
    return {kind == kCuda || kind == kCudaManaged, number};
  }
  return {nb::hasattr(object, "__cuda_array_interface__"), -1};
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

static int ordinalOf(const std::string &name) {
  int number = 0;
  if (size_t colon = name.find(':'); colon != std::string::npos)
    (void)std::from_chars(name.data() + colon + 1, name.data() + name.size(),
                          number);
  return number;
}

Gpu::Gpu(Device device)
    : on(std::move(device)), number(ordinalOf(on.name())),
      queue(valueOf(Stream::create(on))) {}

Gpu::~Gpu() {
  GilRelease release;
  // keep() makes this stream wait for all others.
  (void)queue.synchronize();
  pending.clear();
}

Stream Gpu::streamOf(Framework framework) const {
  nb::object handle;
  if (framework == Framework::PyTorch)
    handle = nb::module_::import_("torch")
                 .attr("cuda")
                 .attr("current_stream")(number)
                 .attr("cuda_stream");
  else if (framework == Framework::CuPy)
    handle = nb::module_::import_("cupy")
                 .attr("cuda")
                 .attr("get_current_stream")(number)
                 .attr("ptr");
  else
    return queue;
  return valueOf(Stream::fromHandle(
      on, std::bit_cast<void *>(nb::cast<uintptr_t>(handle))));
}

uintptr_t python::numberOf(const Stream &stream) {
  auto number = std::bit_cast<uintptr_t>(stream.handle());
  return number ? number : kDefaultStream;
}

void Gpu::keep(const Stream &stream, std::vector<Buffer> held) {
  std::vector<Held> over;
  {
    std::lock_guard guard(lock);
    auto isDone = [](const Held &one) { return one.done->load(); };
    auto rest =
        std::partition(pending.begin(), pending.end(), std::not_fn(isDone));
    std::move(rest, pending.end(), std::back_inserter(over));
    pending.erase(rest, pending.end());
  }
  if (held.empty())
    return;
  auto done = std::make_shared<std::atomic<bool>>(false);
  Status status = queue.waitFor(stream);
  if (status.ok())
    status = queue.then([done](const Status &) { done->store(true); });
  if (!status.ok()) {
    (void)stream.synchronize();
    return;
  }
  std::lock_guard guard(lock);
  pending.push_back({std::move(done), std::move(held)});
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// Returns true if a framework frees memory in the order of the calling
/// thread's stream, so that work enqueued there may still read it.
static bool ordersMemory(Framework framework) {
  return framework == Framework::PyTorch || framework == Framework::CuPy;
}

/// Returns the array, or a contiguous copy if the framework can make one.
static nb::object withoutGaps(nb::handle object, Framework framework) {
  if (framework == Framework::PyTorch)
    return plainTensor(nb::borrow(object)).attr("contiguous")();
  if (framework == Framework::CuPy)
    return nb::module_::import_("cupy").attr("ascontiguousarray")(object);
  return nb::borrow(object);
}

namespace {

/// Description of an array by either protocol.
struct Described {
  TensorType type;
  uintptr_t address = 0;
  bool contiguous = true;
  nb::object owner;
};

} // namespace

/// Describes an array that has __cuda_array_interface__ but no DLPack. Makes
/// `stream` wait for the array's stream.
static Described describeInterface(nb::handle object, const std::string &input,
                                   const Stream &stream) {
  Described found;
  found.owner = nb::borrow(object);
  auto fields = nb::cast<nb::dict>(object.attr("__cuda_array_interface__"));
  auto has = [&](const char *key) {
    return fields.contains(key) && !fields[key].is_none();
  };
  nb::object type =
      nb::module_::import_("numpy").attr("dtype")(fields["typestr"]);
  nb::str name(type);
  std::optional<ElementType> element = elementNamed(name.c_str());
  if (!element)
    throw StatusError(
        wrong(input, "has elements of type " + std::string(name.c_str()) +
                         ", which models do not support; convert it"));
  found.type.element = *element;
  for (nb::handle extent : fields["shape"])
    found.type.shape.push_back(nb::cast<int64_t>(extent));
  found.address = nb::cast<uintptr_t>(fields["data"][nb::int_(0)]);
  if (has("strides")) {
    int64_t wanted = elementBytes(*element);
    nb::tuple strides(fields["strides"]);
    for (size_t axis = found.type.shape.size(); axis-- > 0;) {
      found.contiguous &= found.type.shape[axis] == 1 ||
                          nb::cast<int64_t>(strides[axis]) == wanted;
      wanted *= found.type.shape[axis];
    }
  }
  if (has("stream")) {
    Stream made = valueOf(Stream::fromHandle(
        stream.device(),
        std::bit_cast<void *>(nb::cast<uintptr_t>(fields["stream"]))));
    if (Status status = stream.waitFor(made); !status.ok())
      throw StatusError(status);
  }
  return found;
}

/// Describes an array by DLPack, passing `stream`, or -1 for none, to its
/// framework.
static Described describe(nb::handle object, const std::string &input,
                          nb::int_ stream) {
  nb::object capsule =
      object.attr("__dlpack__")(nb::arg("stream") = std::move(stream));
  nb::ndarray<nb::ro> array;
  std::optional<ElementType> element;
  if (nb::try_cast(capsule, array))
    element = elementOf(array.dtype());
  if (!element)
    throw StatusError(wrong(
        input, "has an element type that models do not support; convert it"));
  Described found;
  found.type.element = *element;
  for (size_t axis = 0; axis < array.ndim(); ++axis)
    found.type.shape.push_back(int64_t(array.shape(axis)));
  found.address = std::bit_cast<uintptr_t>(array.data());
  found.contiguous = isContiguous(array);
  // The capsule is consumed now: the array owns its contents.
  auto *keeper = new nb::ndarray<nb::ro>(std::move(array));
  found.owner = nb::capsule(keeper, [](void *pointer) noexcept {
    delete static_cast<nb::ndarray<nb::ro> *>(pointer);
  });
  return found;
}

Buffer Gpu::take(nb::handle object, const std::string &input,
                 Framework framework, const Stream &stream,
                 std::vector<Buffer> &held) const {
  if (nb::isinstance<SharedResult>(object))
    return *nb::cast<SharedResult &>(object).buffer;
  ArrayLocation place = placeOf(object);
  if (!place.onGpu) {
    Buffer host = python::toBuffer(object, input);
    if (!host.type().shape.empty())
      throw StatusError(
          wrong(input, "is in host memory, but other inputs are on " +
                           gpuName(number) + "; move it there too"));
    Buffer copy = valueOf(Buffer::allocateOn(stream, host.type()));
    if (Status status = copy.copyFrom(host, stream); !status.ok())
      throw StatusError(status);
    held.push_back(std::move(host));
    return copy;
  }
  if (place.ordinal >= 0 && place.ordinal != number)
    throw StatusError(wrong(
        input, "is on " + gpuName(place.ordinal) + ", but the model runs on " +
                   gpuName(number) + "; move it, or compile for that GPU"));
  Framework from = frameworkOf(object);
  nb::object whole = withoutGaps(object, from);
  bool ordered = from == framework && ordersMemory(from);
  Described found =
      nb::hasattr(whole, "__dlpack__")
          ? describe(whole, input,
                     ordered ? nb::int_(-1) : nb::int_(numberOf(stream)))
          : describeInterface(whole, input, stream);
  if (!found.contiguous)
    throw StatusError(wrong(
        input,
        "is not contiguous in row-major order; copy it on the GPU first"));
  std::optional<int64_t> bytes = found.type.byteCount();
  if (!bytes)
    throw StatusError(wrong(input, "has no size that fits in memory"));
  auto release = [kept = found.owner.release().ptr()] {
    GilAcquire interpreter;
    Py_DECREF(kept);
  };
  Buffer buffer = valueOf(Buffer::fromDevice(on, found.type, found.address,
                                             size_t(*bytes), release));
  if (!ordered)
    held.push_back(buffer);
  return buffer;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Creates an uninitialized PyTorch or CuPy array.
static std::pair<nb::object, uintptr_t>
emptyArray(const TensorType &type, Framework framework, int ordinal) {
  nb::list extents;
  for (int64_t extent : type.shape)
    extents.append(extent);
  nb::tuple shape(extents);
  if (framework == Framework::PyTorch) {
    nb::module_ torch = nb::module_::import_("torch");
    nb::object made = torch.attr("empty")(
        shape, nb::arg("dtype") = torch.attr(arrayTypeName(type.element)),
        nb::arg("device") = torch.attr("device")("cuda", ordinal));
    return {made, nb::cast<uintptr_t>(made.attr("data_ptr")())};
  }
  nb::module_ cupy = nb::module_::import_("cupy");
  nb::object gpu = cupy.attr("cuda").attr("Device")(ordinal);
  gpu.attr("__enter__")();
  nb::object made = cupy.attr("empty")(shape, numpyType(type.element));
  gpu.attr("__exit__")();
  return {made, nb::cast<uintptr_t>(made.attr("data").attr("ptr"))};
}

GpuResult Gpu::allocate(const TensorType &type, Framework framework,
                        const Stream &stream) const {
  if (!ordersMemory(framework))
    return {valueOf(Buffer::allocateOn(stream, type)), {}};
  auto [array, address] = emptyArray(type, framework, number);
  std::optional<int64_t> bytes = type.byteCount();
  return {
      valueOf(Buffer::fromDevice(on, type, address, size_t(bytes.value_or(0)))),
      array};
}
