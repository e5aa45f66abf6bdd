//===- DecoderBindings.cpp - bindings of Decoder --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecoderBindings.h"

#include "ArrayConversion.h"
#include "CompileMonitor.h"
#include "InterpreterLock.h"

#include "mpc/JIT/Decoder.h"
#include "mpc/JIT/Sampler.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

using Tokens = std::vector<int64_t>;

/// Converts logits to a NumPy array.
static nb::object toArray(const std::vector<float> &logits) {
  return toArray(valueOf(Buffer::fromValues<float>(
                     {ElementType::F32, {int64_t(logits.size())}}, logits)),
                 Framework::NumPy);
}

static Decoder openDecoder(const Engine &engine, const ModelSource &model,
                           CompileOptions compile, int64_t capacity,
                           int64_t chunk, int64_t slots, bool endless) {
  std::shared_ptr<CompileMonitor> watch = CompileMonitor::over(compile);
  DecoderOptions options{std::move(compile), capacity, endless, chunk, slots};
  std::optional<Result<Decoder>> made;
  {
    GilRelease release;
    made = Decoder::open(engine, model, options);
  }
  Decoder decoder = watch->valueOf(std::move(*made));
  watch->issue();
  return decoder;
}

static nb::object feed(Sequence &sequence, const Tokens &tokens) {
  std::optional<Result<std::vector<float>>> logits;
  {
    GilRelease release;
    logits = sequence.feed(tokens);
  }
  return toArray(valueOf(std::move(*logits)));
}

static std::vector<nb::object> advance(const Decoder &decoder,
                                       const std::vector<Sequence> &sequences,
                                       const Tokens &tokens) {
  std::optional<Result<std::vector<std::vector<float>>>> logits;
  {
    GilRelease release;
    logits = decoder.advance(sequences, tokens);
  }
  std::vector<nb::object> arrays;
  for (const std::vector<float> &row : valueOf(std::move(*logits)))
    arrays.push_back(toArray(row));
  return arrays;
}

/// Samples the next token from logits of any framework.
static int64_t draw(Sampler &sampler, nb::handle logits) {
  Buffer row = toBuffer(logits, "logits");
  if (row.type().element != ElementType::F32)
    throw StatusError(Status(StatusCode::InvalidArgument, "logits",
                             "are " + row.type().toString() + ", not f32"));
  return valueOf(sampler.next(std::as_const(row).as<float>()));
}

void python::addDecoding(nb::module_ &module) {
  nb::class_<Sequence>(module, "Sequence")
      .def("feed", &feed)
      .def(
          "fork",
          [](const Sequence &sequence, std::optional<int64_t> length) {
            std::optional<Result<Sequence>> made;
            {
              GilRelease release;
              made = sequence.fork(length);
            }
            return valueOf(std::move(*made));
          },
          nb::arg("length") = nb::none())
      .def_prop_ro("length", &Sequence::length);
  nb::class_<Decoder>(module, "Decoder")
      .def("start",
           [](const Decoder &decoder) { return valueOf(decoder.start()); })
      .def("advance", &advance)
      .def_prop_ro("capacity", &Decoder::capacity)
      .def_prop_ro("positions", &Decoder::positions)
      .def_prop_ro("slots", &Decoder::slots)
      .def_prop_ro("vocabulary", &Decoder::vocabulary);
  module.def("decoder", &openDecoder);
  nb::class_<Sampler>(module, "Sampler")
      .def("draw", &draw)
      .def("observe", [](Sampler &sampler,
                         const Tokens &tokens) { sampler.observe(tokens); })
      .def("copy", [](const Sampler &sampler) { return sampler; });
  module.def("sampler",
             [](double temperature, int64_t topK, double topP, uint64_t seed,
                double minP, double repetitionPenalty) {
               return valueOf(Sampler::create(
                   {temperature, topK, topP, seed, minP, repetitionPenalty}));
             });
}
