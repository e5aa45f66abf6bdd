//===- Arrays.cpp - arrays of Python and buffers --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arrays.h"

#include "ArrayTypes.h"
#include "Errors.h"
#include "GpuArrays.h"

#include <nanobind/ndarray.h>

#include <cstring>
#include <optional>
#include <string_view>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

Framework python::frameworkOf(nb::handle object) {
  // The class says it without an import of what may not be there.
  nb::object module = nb::getattr(object.type(), "__module__", nb::none());
  const char *name =
      PyUnicode_Check(module.ptr()) ? PyUnicode_AsUTF8(module.ptr()) : nullptr;
  std::string_view text = name ? name : "";
  if (text.starts_with("torch"))
    return Framework::PyTorch;
  if (text.starts_with("cupy"))
    return Framework::CuPy;
  return text.starts_with("jax") ? Framework::Jax : Framework::NumPy;
}

//===----------------------------------------------------------------------===//
// From Python
//===----------------------------------------------------------------------===//

static Status wrongInput(const std::string &input, const std::string &text) {
  return Status(StatusCode::InvalidArgument, "input '" + input + "'", text);
}

/// Copies `array`, whatever its strides, in the order of its indices.
static void copyInOrder(const nb::ndarray<nb::ro> &array, size_t axis,
                        const std::byte *source, size_t bytes,
                        std::byte *&target) {
  if (axis == array.ndim()) {
    std::memcpy(target, source, bytes);
    target += bytes;
    return;
  }
  for (size_t i = 0; i < array.shape(axis); ++i)
    copyInOrder(array, axis + 1,
                source + int64_t(i) * array.stride(axis) * int64_t(bytes),
                bytes, target);
}

Buffer python::toBuffer(nb::handle object, const std::string &input) {
  if (nb::isinstance<SharedResult>(object))
    return *nb::cast<SharedResult &>(object).buffer;
  nb::object held = nb::borrow(object);
  // PyTorch's DLPack refuses what is part of a graph of gradients.
  if (frameworkOf(held) == Framework::PyTorch &&
      nb::cast<bool>(held.attr("requires_grad")))
    held = held.attr("detach")();
  bool brain = false;
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(held, array)) {
    // A number, a list of numbers, or a type that NumPy does not export, since
    // another package brought it.
    try {
      held = nb::module_::import_("numpy").attr("asarray")(held);
    } catch (nb::python_error &) {
      throw StatusError(wrongInput(input, "is no array"));
    }
    nb::object dtype = held.attr("dtype");
    nb::str type{nb::handle(dtype)};
    brain = std::string_view(type.c_str()) == "bfloat16";
    if (brain)
      held = held.attr("view")("uint16");
    if (!nb::try_cast(held, array))
      throw StatusError(wrongInput(
          input, "has elements of type " + std::string(type.c_str()) +
                     ", which no model takes; convert it"));
  }
  if (array.device_type() != nb::device::cpu::value &&
      array.device_type() != nb::device::cuda_host::value)
    throw StatusError(wrongInput(
        input, "lies on device " + std::to_string(array.device_id()) +
                   ", where this does not run; compile for that device "
                   "(device=\"cuda\"), or copy the array to host memory"));
  std::optional<ElementType> known = elementOf(array.dtype());
  if (!known)
    throw StatusError(wrongInput(
        input, "has a type of " + std::to_string(array.dtype().bits) +
                   " bits that no model takes; convert it"));
  TensorType type{brain ? ElementType::BF16 : *known, {}};
  for (size_t axis = 0; axis < array.ndim(); ++axis)
    type.shape.push_back(int64_t(array.shape(axis)));
  size_t bytes = size_t(elementBytes(type.element));
  const std::byte *data = static_cast<const std::byte *>(array.data());
  bool aligned = reinterpret_cast<uintptr_t>(data) % bytes == 0;
  if (!isContiguous(array) || !aligned) {
    Buffer copy = valueOf(Buffer::allocate(type));
    std::byte *target = static_cast<std::byte *>(copy.data());
    copyInOrder(array, 0, data, bytes, target);
    return copy;
  }
  auto *keeper = new nb::ndarray<nb::ro>(std::move(array));
  return valueOf(Buffer::fromHost(type, {data, bytes * keeper->size()},
                                  HostMemory::Borrow, [keeper] {
                                    nb::gil_scoped_acquire lock;
                                    delete keeper;
                                  }));
}

//===----------------------------------------------------------------------===//
// To Python
//===----------------------------------------------------------------------===//

template <typename Kind>
static nb::object wrap(const SharedResult &result, nb::dlpack::dtype type) {
  const std::vector<int64_t> &extents = result.buffer->type().shape;
  std::vector<size_t> shape(extents.begin(), extents.end());
  auto *held = new SharedResult(result);
  nb::capsule owner(held, [](void *pointer) noexcept {
    delete static_cast<SharedResult *>(pointer);
  });
  return nb::cast(nb::ndarray<Kind>(held->buffer->data(), shape.size(),
                                    shape.data(), owner, nullptr, type));
}

nb::object python::toArray(Buffer buffer, Framework framework) {
  return toArray(SharedResult{std::make_shared<Buffer>(std::move(buffer)), {}},
                 framework);
}

nb::object python::toArray(const SharedResult &result, Framework framework) {
  if (result.gpu)
    return toGpuArray(result, framework);
  ElementType element = result.buffer->type().element;
  nb::dlpack::dtype type = dlpackType(element);
  switch (framework) {
  case Framework::PyTorch:
    return wrap<nb::pytorch>(result, type);
  case Framework::Jax:
    return wrap<nb::jax>(result, type);
  case Framework::CuPy:
  case Framework::NumPy:
    break;
  }
  if (element != ElementType::BF16)
    return wrap<nb::numpy>(result, type);
  nb::object bits = wrap<nb::numpy>(result, dlpackType(ElementType::UI16));
  return bits.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
}
