//===- ArrayConversion.cpp - conversion of Python arrays and buffers ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArrayConversion.h"

#include "ArrayTypes.h"
#include "Errors.h"
#include "GpuArrays.h"
#include "InterpreterLock.h"

#include <nanobind/ndarray.h>

#include <cstring>
#include <optional>
#include <string_view>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

/// Returns true if `name` is the module `package` or a submodule.
static bool isOf(std::string_view name, std::string_view package) {
  return name.starts_with(package) &&
         (name.size() == package.size() || name[package.size()] == '.');
}

/// Returns the framework of a class by its module name, without importing the
/// framework; nullopt for other classes.
static std::optional<Framework> frameworkOfClass(nb::handle type) {
  nb::object module = nb::getattr(type, "__module__", nb::none());
  const char *text = PyUnicode_Check(module.ptr())
                         ? PyUnicode_AsUTF8AndSize(module.ptr(), nullptr)
                         : nullptr;
  std::string_view name = text ? text : "";
  if (isOf(name, "torch"))
    return Framework::PyTorch;
  if (isOf(name, "cupy"))
    return Framework::CuPy;
  if (isOf(name, "jax") || isOf(name, "jaxlib"))
    return Framework::Jax;
  if (isOf(name, "numpy") || isOf(name, "builtins"))
    return Framework::NumPy;
  return std::nullopt;
}

Framework python::frameworkOf(nb::handle object) {
  nb::handle type = object.type();
  if (std::optional<Framework> known = frameworkOfClass(type))
    return *known;
  // A user's subclass of a framework's class.
  for (nb::handle base : nb::tuple(type.attr("__mro__")))
    if (std::optional<Framework> known = frameworkOfClass(base))
      return *known;
  return Framework::NumPy;
}

//===----------------------------------------------------------------------===//
// From Python
//===----------------------------------------------------------------------===//

static Status wrongInput(const std::string &input, const std::string &text) {
  return Status(StatusCode::InvalidArgument, "input '" + input + "'", text);
}

/// Copies `array` with any strides in row-major order.
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

static bool isMasked(nb::handle object) {
  nb::object module = nb::getattr(object.type(), "__module__", nb::none());
  return PyUnicode_Check(module.ptr()) &&
         std::string_view(nb::str(module).c_str()).starts_with("numpy.ma");
}

nb::object python::plainTensor(nb::object tensor) {
  auto says = [&](const char *question) {
    nb::object answer = nb::getattr(tensor, question, nb::none());
    return PyObject_IsTrue(answer.ptr()) == 1;
  };
  // PyTorch's DLPack export refuses tensors that require gradients, and ignores
  // the lazy negation bit.
  if (says("requires_grad"))
    tensor = tensor.attr("detach")();
  if (nb::hasattr(tensor, "is_neg") && nb::cast<bool>(tensor.attr("is_neg")()))
    tensor = tensor.attr("resolve_neg")();
  return tensor;
}

nb::object python::convertElements(nb::handle object, ElementType element,
                                   const std::string &input) {
  PyObject *plain = object.ptr();
  nb::object given = nb::borrow(object);
  if (!PyList_CheckExact(plain) && !PyTuple_CheckExact(plain) &&
      !PyFloat_CheckExact(plain) && !PyLong_CheckExact(plain))
    return given;
  try {
    nb::module_ numpy = nb::module_::import_("numpy");
    nb::object array = numpy.attr("asarray")(given);
    nb::object type = numpyType(element);
    auto kindOf = [](const nb::object &dtype) {
      return std::string(nb::str(dtype.attr("kind")).c_str());
    };
    auto isInteger = [](const std::string &kind) {
      return kind == "i" || kind == "u";
    };
    std::string from = kindOf(array.attr("dtype"));
    std::string to = element == ElementType::BF16 ? "f" : kindOf(type);
    bool integers = isInteger(from) && isInteger(to);
    if (!integers && !(to == "f" && (from == "f" || isInteger(from))))
      return array;
    nb::object made = array.attr("astype")(type);
    if (integers && !nb::cast<bool>(numpy.attr("array_equal")(made, array)))
      throw StatusError(
          wrongInput(input, "has a number that no " +
                                std::string(elementTypeName(element)) + " is"));
    return made;
  } catch (nb::python_error &) {
    // toBuffer() reports the error.
    return given;
  }
}

Buffer python::toBuffer(nb::handle object, const std::string &input) {
  if (nb::isinstance<SharedResult>(object))
    return *nb::cast<SharedResult &>(object).buffer;
  nb::object held = nb::borrow(object);
  if (frameworkOf(held) == Framework::PyTorch)
    held = plainTensor(held);
  if (isMasked(held))
    throw StatusError(
        wrongInput(input, "is a masked array, which is not supported; replace "
                          "masked elements (filled()) first"));
  bool brain = false;
  nb::ndarray<nb::ro> array;
  if (!nb::hasattr(held, "__dlpack__") || !nb::try_cast(held, array)) {
    // Converts numbers, lists, objects with only the buffer protocol (NumPy
    // also accepts those without strides), and types that NumPy does not export
    // because another package defines them.
    try {
      held = nb::module_::import_("numpy").attr("asarray")(held);
    } catch (nb::python_error &error) {
      std::string why = nb::str(error.value()).c_str();
      throw StatusError(wrongInput(input, "is not an array: " +
                                              why.substr(0, why.find('\n'))));
    }
    nb::object dtype = held.attr("dtype");
    nb::str type{nb::handle(dtype)};
    brain = std::string_view(type.c_str()) == "bfloat16";
    if (brain)
      held = held.attr("view")("uint16");
    if (!nb::try_cast(held, array))
      throw StatusError(wrongInput(
          input, "has elements of type " + std::string(type.c_str()) +
                     ", which models do not support; convert it"));
  }
  if (array.device_type() != nb::device::cpu::value &&
      array.device_type() != nb::device::cuda_host::value)
    throw StatusError(wrongInput(
        input,
        "is on device " + std::to_string(array.device_id()) +
            ", but the model does not run there; compile for that device "
            "(device=\"cuda\"), or copy the array to host memory"));
  std::optional<ElementType> known = elementOf(array.dtype());
  if (!known)
    throw StatusError(wrongInput(
        input, "has a type of " + std::to_string(array.dtype().bits) +
                   " bits that models do not support; convert it"));
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
                                    GilAcquire lock;
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
