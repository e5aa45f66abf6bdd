//===- CompilerBindings.cpp - compiler part of the extension mpc._mpc -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledFunction.h"
#include "DecoderBindings.h"
#include "Errors.h"
#include "InterpreterLock.h"
#include "TrainerBindings.h"

#include "mpc/JIT/BestPolicy.h"
#include "mpc/JIT/PolicySummary.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

/// Creates a source that owns the bytes.
static ModelSource makeSource(const std::string &name, nb::bytes bytes) {
  auto *keeper = new nb::bytes(std::move(bytes));
  std::span<const char> data(static_cast<const char *>(keeper->data()),
                             keeper->size());
  std::shared_ptr<const void> owner(keeper, [](nb::bytes *kept) {
    GilAcquire lock;
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

void python::addCompiler(nb::module_ &module) {
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
  module.def(
      "source_file", [](const std::string &path) { return ModelSource(path); },
      nb::arg("path"));
  module.def("source_bytes", &makeSource, nb::arg("name"), nb::arg("bytes"));

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
      .def_rw("verify_files", &CompileOptions::verifyFiles)
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

  nb::class_<CompiledFunction, Function>(module, "CompiledFunction")
      .def(nb::init<const Engine &, std::shared_ptr<Gpu>, const ModelSource &,
                    CompileOptions>(),
           nb::arg("engine"), nb::arg("gpu").none(), nb::arg("source"),
           nb::arg("options"))
      .def("save", &CompiledFunction::save);
  addDecoding(module);
  addPolicies(module);
}
