//===- CompilerBindings.cpp - compiler part of the extension mpc._mpc -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArrayConversion.h"
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
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

/// Shares an object with owners that may not hold the GIL.
template <typename T> static std::shared_ptr<T> share(T object) {
  return std::shared_ptr<T>(new T(std::move(object)), [](T *kept) {
    GilAcquire lock;
    delete kept;
  });
}

static SourceBytes sourceBytes(nb::bytes bytes) {
  std::shared_ptr<nb::bytes> owner = share(std::move(bytes));
  std::span<const char> data(static_cast<const char *>(owner->data()),
                             owner->size());
  return {std::as_bytes(data), owner};
}

/// Returns a reader of arrays by name, which it keeps.
static ExternalDataReader readerOf(const nb::dict &weights) {
  auto buffers = std::make_shared<NamedBuffers>();
  for (auto [key, array] : weights) {
    auto weight = nb::cast<std::string>(key);
    buffers->emplace(weight, toBuffer(array, weight));
  }
  return [buffers](const std::string &weight) -> Result<SourceBytes> {
    auto found = buffers->find(weight);
    if (found == buffers->end())
      return Status(StatusCode::NotFound, weight, "is not among the weights");
    const Buffer &buffer = found->second;
    std::span<const char> data(static_cast<const char *>(buffer.data()),
                               buffer.size());
    return SourceBytes{std::as_bytes(data), buffers};
  };
}

/// Creates a source that owns the bytes; `weights` are the arrays of its
/// external constants.
static ModelSource makeSource(const std::string &name, nb::bytes bytes,
                              const nb::dict &weights) {
  return ModelSource::fromBytes(name, sourceBytes(std::move(bytes)),
                                weights.empty() ? ExternalDataReader()
                                                : readerOf(weights));
}

/// Name, element type, shape and symbols of an input.
using InputTuple = std::tuple<std::string, std::string, std::vector<int64_t>,
                              std::vector<std::string>>;

/// Creates a source whose text `write` returns for a dictionary of shapes, or
/// the text of an error; `weights` are the arrays of its external constants.
static ModelSource makeShapedSource(const std::string &name,
                                    const std::vector<InputTuple> &inputs,
                                    nb::callable write,
                                    const nb::dict &weights) {
  std::vector<ModelInput> declared;
  declared.reserve(inputs.size());
  for (const auto &[input, element, shape, symbols] : inputs)
    declared.push_back({input, parseElementType(element), shape, symbols});
  auto text = [name, call = share(std::move(write))](
                  const InputShapes &shapes) -> Result<SourceBytes> {
    GilAcquire lock;
    try {
      nb::object made = (*call)(shapes);
      if (nb::isinstance<nb::bytes>(made))
        return sourceBytes(nb::cast<nb::bytes>(made));
      return Status(StatusCode::InvalidArgument, name,
                    nb::cast<std::string>(made));
    } catch (nb::python_error &error) {
      return Status(StatusCode::Internal, name, error.what());
    }
  };
  return ModelSource::fromShapes(name, std::move(declared), std::move(text),
                                 readerOf(weights));
}

namespace {

/// Some bytes of arrays in host memory, which must outlive this object, all of
/// small ones: finds changes that frameworks do not count.
class MemorySamples {
public:
  /// Address and size in bytes of each array.
  explicit MemorySamples(
      const std::vector<std::pair<uintptr_t, size_t>> &arrays) {
    constexpr size_t kSamples = 16, kSmall = 1024;
    for (auto [address, size] : arrays) {
      if (size < sizeof(uint32_t))
        continue;
      size_t count = (size + sizeof(uint32_t) - 1) / sizeof(uint32_t);
      if (count > kSmall)
        count = kSamples;
      for (size_t i = 0; i < count; ++i) {
        size_t last = size - sizeof(uint32_t);
        samples.emplace_back(std::bit_cast<const char *>(address) +
                                 (count > 1 ? last * i / (count - 1) : 0),
                             0);
        samples.back().second = read(samples.back().first);
      }
    }
  }
  bool changed() const {
    return std::ranges::any_of(samples, [](const auto &sample) {
      return read(sample.first) != sample.second;
    });
  }

private:
  static uint32_t read(const char *address) {
    uint32_t value;
    std::memcpy(&value, address, sizeof(value));
    return value;
  }

  std::vector<std::pair<const char *, uint32_t>> samples;
};

} // namespace

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
      [](const std::string &target) {
        PolicyChoice choice = valueOf(explainBestPolicy(target));
        return std::pair(choice.policy, choice.reason);
      },
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
  module.def("source_bytes", &makeSource, nb::arg("name"), nb::arg("bytes"),
             nb::arg("weights") = nb::dict());
  nb::class_<MemorySamples>(module, "MemorySamples")
      .def(nb::init<const std::vector<std::pair<uintptr_t, size_t>> &>(),
           nb::arg("arrays"))
      .def("changed", &MemorySamples::changed);
  module.def("source_shaped", &makeShapedSource, nb::arg("name"),
             nb::arg("inputs"), nb::arg("write"), nb::arg("weights"));

  addTraining(module);
  nb::class_<CompileOptions>(module, "CompileOptions")
      .def("__init__",
           [](CompileOptions *self) {
             new (self) CompileOptions();
             self->caller = Caller::Python;
           })
      .def_rw("policy", &CompileOptions::policy)
      .def_rw("sets", &CompileOptions::sets)
      .def_rw("dims", &CompileOptions::dims)
      .def_rw("buckets", &CompileOptions::buckets)
      .def_rw("batch", &CompileOptions::batch, nb::arg().none())
      .def_rw("target", &CompileOptions::target)
      .def_rw("reproducible", &CompileOptions::reproducible)
      .def_rw("step_loss_scale", &CompileOptions::stepLossScale)
      .def_rw("dump_dir", &CompileOptions::dumpDir)
      .def_rw("use_cache", &CompileOptions::useCache)
      .def_rw("verify_files", &CompileOptions::verifyFiles)
      .def_prop_rw(
          "verify",
          [](const CompileOptions &options) {
            return bool(options.onValidation);
          },
          [](CompileOptions &options, bool verify) {
            // A difference fails the compile.
            options.onValidation = {};
            if (verify)
              options.onValidation = [](const Validation &) {};
          })
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
