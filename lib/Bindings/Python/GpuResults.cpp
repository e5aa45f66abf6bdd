//===- GpuResults.cpp - export of GPU results to Python arrays ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArrayTypes.h"
#include "Errors.h"
#include "GpuArrays.h"
#include "InterpreterLock.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <bit>
#include <string>
#include <vector>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

static nb::tuple shapeOf(const TensorType &type) {
  nb::list extents;
  for (int64_t extent : type.shape)
    extents.append(extent);
  return nb::tuple(extents);
}

nb::object GpuArray::dlpack(nb::handle stream, const nb::kwargs &wishes) const {
  const Gpu &gpu = *result.gpu;
  int64_t wanted =
      stream.is_none() ? int64_t(kDefaultStream) : nb::cast<int64_t>(stream);
  if (wanted != -1) {
    // 0 is ambiguous in DLPack; consumers mean the default stream.
    Stream consumer = valueOf(Stream::fromHandle(
        gpu.device(), std::bit_cast<void *>(uintptr_t(
                          wanted ? wanted : int64_t(kDefaultStream)))));
    if (Status status = consumer.waitFor(gpu.own()); !status.ok())
      throw StatusError(status);
  }
  const TensorType &type = result.buffer->type();
  std::vector<size_t> shape(type.shape.begin(), type.shape.end());
  auto *held = new SharedResult(result);
  nb::capsule owner(held, [](void *pointer) noexcept {
    delete static_cast<SharedResult *>(pointer);
  });
  nb::object array = nb::cast(nb::ndarray<nb::array_api>(
      std::bit_cast<void *>(result.buffer->address()), shape.size(),
      shape.data(), owner, nullptr, dlpackType(type.element), kCuda,
      gpu.ordinal()));
  return array.attr("__dlpack__")(**wishes);
}

nb::dict GpuArray::interface() const {
  const TensorType &type = result.buffer->type();
  nb::dict fields;
  fields["shape"] = shapeOf(type);
  fields["typestr"] = numpyType(type.element).attr("str");
  fields["data"] = nb::make_tuple(result.buffer->address(), false);
  fields["strides"] = nb::none();
  fields["stream"] = numberOf(result.gpu->own());
  fields["version"] = 3;
  return fields;
}

Buffer GpuArray::toHost() const {
  GilRelease release;
  return valueOf(result.buffer->toHost(result.gpu->own()));
}

nb::object python::toGpuArray(const SharedResult &result, Framework framework) {
  nb::object array = nb::cast(GpuArray{result});
  if (framework == Framework::Jax)
    return nb::module_::import_("jax.dlpack").attr("from_dlpack")(array);
  if (framework == Framework::PyTorch)
    return nb::module_::import_("torch").attr("from_dlpack")(array);
  if (framework == Framework::CuPy)
    return nb::module_::import_("cupy").attr("from_dlpack")(array);
  return array;
}

void python::addGpuArrays(nb::module_ &module) {
  nb::class_<Gpu>(module, "Gpu")
      .def(nb::init<Device>(), nb::arg("device"))
      .def_prop_ro("ordinal", &Gpu::ordinal);
  nb::class_<GpuArray>(module, "GpuArray",
                       "A result on a GPU, for whoever speaks DLPack or "
                       "__cuda_array_interface__; numpy() copies it.")
      .def(
          "__dlpack__",
          [](const GpuArray &array, nb::handle stream,
             const nb::kwargs &wishes) { return array.dlpack(stream, wishes); },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("wishes"))
      .def("__dlpack_device__",
           [](const GpuArray &array) {
             return nb::make_tuple(kCuda, array.result.gpu->ordinal());
           })
      .def_prop_ro("__cuda_array_interface__", &GpuArray::interface)
      .def_prop_ro("shape",
                   [](const GpuArray &array) {
                     return shapeOf(array.result.buffer->type());
                   })
      .def_prop_ro("dtype",
                   [](const GpuArray &array) {
                     return numpyType(array.result.buffer->type().element);
                   })
      .def("numpy",
           [](const GpuArray &array) {
             return toArray(array.toHost(), Framework::NumPy);
           })
      .def("__repr__", [](const GpuArray &array) {
        return "<mpc array " + array.result.buffer->type().toString() + " on " +
               gpuName(array.result.gpu->ordinal()) + ">";
      });
}
