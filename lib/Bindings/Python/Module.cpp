//===- Module.cpp - the extension mpc._mpc --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the modules in Python stand on; users call those.
//
//===----------------------------------------------------------------------===//

#include "Communicators.h"
#include "Decoding.h"
#include "Errors.h"
#include "Function.h"
#include "Training.h"

#include "mpc/JIT/BestPolicy.h"
#include "mpc/JIT/PolicySummary.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

/// "cpu", "cuda", "cuda:1" or "null".
static Device makeDevice(const std::string &name, int threads) {
  nb::gil_scoped_release release;
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
                           "is none of 'cpu', 'cuda' and 'cuda:N'"));
}

/// Bytes that are kept as long as the source.
static ModelSource makeSource(const std::string &name, nb::bytes bytes) {
  auto *keeper = new nb::bytes(std::move(bytes));
  std::span<const char> data(static_cast<const char *>(keeper->data()),
                             keeper->size());
  std::shared_ptr<const void> owner(keeper, [](nb::bytes *kept) {
    nb::gil_scoped_acquire lock;
    delete kept;
  });
  return ModelSource::fromBytes(name, {std::as_bytes(data), owner});
}

static void addPolicies(nb::module_ &module) {
  nb::class_<PolicySummary>(module, "PolicySummary")
      .def_ro("name", &PolicySummary::name)
      .def_ro("description", &PolicySummary::description)
      .def_ro("algorithm", &PolicySummary::algorithm)
      .def_ro("compute", &PolicySummary::compute)
      .def_ro("store", &PolicySummary::store)
      .def_ro("variable", &PolicySummary::variable)
      .def_ro("accumulate", &PolicySummary::accumulate)
      .def_ro("output", &PolicySummary::output);
  module.def(
      "best_policy",
      [](const std::string &target) { return valueOf(bestPolicy(target)); },
      nb::arg("target"));
  module.def("builtin_policies", &builtinPolicies);
  module.def(
      "read_policy",
      [](const std::string &name) { return valueOf(summarisePolicy(name)); },
      nb::arg("name_or_path"));
  module.def(
      "parse_policy",
      [](const std::string &json, const std::string &where) {
        return valueOf(summarisePolicyText(json, where));
      },
      nb::arg("json"), nb::arg("where"));
}

NB_MODULE(_mpc, module) {
  registerErrors();
  nb::enum_<Framework>(module, "Framework")
      .value("NumPy", Framework::NumPy)
      .value("PyTorch", Framework::PyTorch)
      .value("JAX", Framework::Jax);

  nb::class_<Device>(module, "Device")
      .def_prop_ro("name", &Device::name)
      .def_prop_ro("architecture", &Device::architecture)
      .def_prop_ro("threads", &Device::threads);
  module.def("device", &makeDevice, nb::arg("name"), nb::arg("threads"));

  [[maybe_unused]] nb::class_<Engine> engine(module, "Engine");
  module.def(
      "engine",
      [](const Device &device) { return valueOf(Engine::create(device)); },
      nb::arg("device"));

  nb::class_<ModelSource>(module, "ModelSource")
      .def_prop_ro("name", &ModelSource::name)
      .def_prop_ro("is_file", &ModelSource::isFile)
      .def("read", [](const ModelSource &source) {
        SourceBytes read = valueOf(source.read());
        return nb::bytes(read.bytes.data(), read.bytes.size());
      });
  nb::class_<SharedResult>(module, "SharedResult")
      .def_prop_ro("is_unique", &SharedResult::isUnique)
      .def("to_array", [](const SharedResult &result, Framework framework) {
        return toArray(result, framework);
      });
  module.def(
      "source_file", [](const std::string &path) { return ModelSource(path); },
      nb::arg("path"));
  module.def("source_bytes", &makeSource, nb::arg("name"), nb::arg("bytes"));

  addCommunicators(module);
  addTraining(module);
  nb::class_<CompileOptions>(module, "CompileOptions")
      .def(nb::init<>())
      .def_rw("policy", &CompileOptions::policy)
      .def_rw("sets", &CompileOptions::sets)
      .def_rw("dims", &CompileOptions::dims)
      .def_rw("buckets", &CompileOptions::buckets)
      .def_rw("batch", &CompileOptions::batch, nb::arg().none())
      .def_rw("target", &CompileOptions::target)
      .def_rw("step_loss_scale", &CompileOptions::stepLossScale)
      .def_rw("dump_dir", &CompileOptions::dumpDir)
      .def_rw("use_cache", &CompileOptions::useCache)
      .def_rw("max_memory", &CompileOptions::maxMemory)
      .def_rw("threads", &CompileOptions::threads)
      .def_rw("training", &CompileOptions::training, nb::arg().none())
      .def_prop_rw(
          "relaxed_rounding",
          [](const CompileOptions &options) {
            return options.rounding == RoundingMode::Relaxed;
          },
          [](CompileOptions &options, bool relaxed) {
            options.rounding =
                relaxed ? RoundingMode::Relaxed : RoundingMode::Strict;
          });

  nb::class_<ModelInput>(module, "Input")
      .def_ro("name", &ModelInput::name)
      .def_ro("shape", &ModelInput::shape)
      .def_ro("symbols", &ModelInput::symbols)
      .def_prop_ro("dtype", [](const ModelInput &input) {
        return input.element ? std::string(elementTypeName(*input.element))
                             : std::string();
      });

  nb::class_<SpecialisationCounts>(module, "Counts")
      .def_ro("compiles", &SpecialisationCounts::compiles)
      .def_ro("hits", &SpecialisationCounts::hits)
      .def_ro("evictions", &SpecialisationCounts::evictions)
      .def_ro("kept", &SpecialisationCounts::kept)
      .def_ro("bytes", &SpecialisationCounts::bytes);

  nb::class_<Function>(module, "Function")
      .def(nb::init<const Engine &, const ModelSource &, CompileOptions>())
      .def(nb::init<const Device &, const std::string &>())
      .def("__call__", &Function::call)
      .def("call_in_place", &Function::callInPlace)
      .def("prepare", &Function::prepare)
      .def("time", &Function::time)
      .def("save", &Function::save)
      .def_prop_ro("inputs", &Function::inputs)
      .def_prop_ro("outputs", &Function::outputs)
      .def_prop_ro("layers", &Function::layers)
      .def_prop_ro("shapes", &Function::shapes)
      .def_prop_ro("counts", &Function::counts);
  addDecoding(module);
  addPolicies(module);
}
