//===- Module.cpp - the extension mpc._mpc --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Internals of the Python modules, which users call instead. Compiler.cpp adds
// the compiler part.
//
//===----------------------------------------------------------------------===//

#include "Communicators.h"
#include "Errors.h"
#include "Function.h"
#include "GpuArrays.h"
#include "InterpreterLock.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

static std::string dtypeOf(const ModelInput &input) {
  return input.element ? std::string(elementTypeName(*input.element))
                       : std::string();
}

/// Creates a device by name: "cpu", "cuda", "cuda:1" or "null".
static Device makeDevice(const std::string &name, int threads) {
  GilRelease release;
  if (name == "cpu")
    return valueOf(Device::cpu({.threads = threads}));
  if (name == "null")
    return Device::null();
  if (name == "cuda")
    return valueOf(Device::cuda());
  const std::string prefix = "cuda:";
  bool number =
      name.size() > prefix.size() && name.size() < 9 &&
      name.starts_with(prefix) &&
      name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
  if (number)
    return valueOf(
        Device::cuda({.ordinal = std::stoi(name.substr(prefix.size()))}));
  throw StatusError(Status(StatusCode::InvalidArgument, "device '" + name + "'",
                           "is not one of 'cpu', 'cuda' and 'cuda:N'"));
}

NB_MODULE(_mpc, module) {
  rememberMainThread();
  module.def("end_under_threads", [] {
    // Objects still alive are not freed any more.
    nb::set_leak_warnings(false);
    blockThreadsAtExit();
  });
  registerErrors();
  nb::enum_<Framework>(module, "Framework")
      .value("NumPy", Framework::NumPy)
      .value("PyTorch", Framework::PyTorch)
      .value("JAX", Framework::Jax)
      .value("CuPy", Framework::CuPy);

  nb::class_<Device>(module, "Device")
      .def_prop_ro("name", &Device::name)
      .def_prop_ro("architecture", &Device::architecture)
      .def_prop_ro("threads", &Device::threads)
      .def_prop_ro("has_own_memory", &Device::hasOwnMemory);
  module.def("device", &makeDevice, nb::arg("name"), nb::arg("threads"));

  nb::class_<SharedResult>(module, "SharedResult")
      .def_prop_ro("is_unique", &SharedResult::isUnique)
      .def("to_array", [](const SharedResult &result, Framework framework) {
        return toArray(result, framework);
      });
  addGpuArrays(module);
  addCommunicators(module);

  nb::class_<ModelInput>(module, "Input")
      .def_ro("name", &ModelInput::name)
      .def_ro("shape", &ModelInput::shape)
      .def_ro("symbols", &ModelInput::symbols)
      .def_prop_ro("dtype", &dtypeOf)
      .def("__repr__", [](const ModelInput &input) {
        std::string text = "<mpc.Input " + input.name + ": " + dtypeOf(input);
        for (size_t i = 0; i < input.shape.size(); ++i) {
          bool isFixed = input.shape[i] >= 0;
          text += i ? ", " : "[";
          text += isFixed                    ? std::to_string(input.shape[i])
                  : input.symbols[i].empty() ? "?"
                                             : input.symbols[i];
        }
        return text + (input.shape.empty() ? "[]>" : "]>");
      });

  nb::class_<SpecialisationCounts>(module, "Counts")
      .def_ro("compiles", &SpecialisationCounts::compiles)
      .def_ro("hits", &SpecialisationCounts::hits)
      .def_ro("evictions", &SpecialisationCounts::evictions)
      .def_ro("kept", &SpecialisationCounts::kept)
      .def_ro("bytes", &SpecialisationCounts::bytes);

  nb::class_<Function>(module, "Function")
      .def("__call__", &Function::call)
      .def("call_in_place", &Function::callInPlace)
      .def("prepare", &Function::prepare)
      .def("time", &Function::time)
      .def_prop_ro("inputs", &Function::inputs)
      .def_prop_ro("outputs", &Function::outputs)
      .def_prop_ro("layers", &Function::layers)
      .def_prop_ro("shapes", &Function::shapes)
      .def_prop_ro("counts", &Function::counts);
  nb::class_<LoadedFunction, Function>(module, "LoadedFunction")
      .def(
          nb::init<const Device &, std::shared_ptr<Gpu>, const std::string &>(),
          nb::arg("device"), nb::arg("gpu").none(), nb::arg("path"))
      .def_prop_ro("policy", &LoadedFunction::policy);
  addCompiler(module);
}
