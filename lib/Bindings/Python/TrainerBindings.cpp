//===- TrainerBindings.cpp - bindings of Trainer --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainerBindings.h"

#include "InterpreterLock.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string_view>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

/// Suffix of parameter names in Trainer::gradients().
static constexpr std::string_view kSuffix = ".gradient";

/// Returns an array in host memory, copying GPU arrays.
static Buffer toHostBuffer(nb::handle array, const std::string &name) {
  if (!placeOf(array).onGpu)
    return toBuffer(array, name);
  return toBuffer(nb::module_::import_("mpc._source").attr("to_host")(array),
                  name);
}

static std::vector<NamedTensor> toTensors(const nb::dict &arrays,
                                          std::string_view suffix = {}) {
  std::vector<NamedTensor> tensors;
  for (auto [key, array] : arrays) {
    auto name = nb::cast<std::string>(key);
    tensors.push_back({name + std::string(suffix), toHostBuffer(array, name)});
  }
  return tensors;
}

static Training::Metrics toTuple(const TrainingMetrics &metrics) {
  return {metrics.loss, metrics.accuracy, metrics.batches};
}

//===----------------------------------------------------------------------===//
// Construction
//===----------------------------------------------------------------------===//

Training::Training(const Device &device, std::shared_ptr<Gpu> gpu,
                   const ModelSource &model, CompileOptions options,
                   const nb::dict &values, uint64_t seed,
                   std::shared_ptr<Communicator> communicator)
    : gpu(std::move(gpu)) {
  for (NamedTensor &value : toTensors(values))
    options.inputValues[value.name] = std::move(value.data);
  watch = CompileMonitor::over(options);
  {
    GilRelease release;
    trainer = std::make_unique<Trainer>(watch->valueOf(Trainer::create(
        device, model, options, seed, std::move(communicator))));
  }
  watch->issue();
}

std::vector<ProgramValue> Training::batchTypes() const {
  std::span<const ProgramValue> types = trainer->batchTypes();
  return {types.begin(), types.end()};
}

std::vector<ProgramValue> Training::arguments() const {
  return trainer->program().arguments;
}

std::vector<std::pair<std::string, std::string>> Training::layers() const {
  std::vector<std::pair<std::string, std::string>> found;
  for (const LayerTypes &layer : trainer->program().layers)
    if (!layer.isFolded())
      found.emplace_back(layer.path, layer.computeType());
  return found;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void Training::runOn(const nb::args &batch, Run run) {
  std::span<const ProgramValue> types = trainer->batchTypes();
  auto onGpu = [&](nb::handle array) { return gpu && placeOf(array).onGpu; };
  auto first = std::find_if(batch.begin(), batch.end(), onGpu);
  Framework framework = Framework::NumPy;
  std::optional<Stream> stream;
  if (first != batch.end()) {
    framework = frameworkOf(*first);
    stream = gpu->streamOf(framework);
  }
  std::vector<Buffer> buffers, held;
  for (size_t i = 0; i < batch.size(); ++i) {
    std::string name =
        i < types.size() ? types[i].name : "argument " + std::to_string(i);
    if (onGpu(batch[i])) {
      buffers.push_back(gpu->take(batch[i], name, framework, *stream, held));
      continue;
    }
    nb::object array =
        i < types.size()
            ? convertElements(batch[i], types[i].type.element, name)
            : nb::borrow(batch[i]);
    buffers.push_back(toBuffer(array, name));
  }
  {
    GilRelease release;
    if (stream)
      watch->check(trainer->stream()->waitFor(*stream));
    watch->check(((*trainer).*run)(buffers, models));
    if (stream) {
      watch->check(stream->waitFor(*trainer->stream()));
      gpu->keep(*stream, std::move(held));
    }
  }
  watch->issue();
}

std::vector<std::pair<std::string, std::string>>
Training::weightChoices(bool trained) const {
  std::vector<std::pair<std::string, std::string>> choices;
  WeightChoice::Use use =
      trained ? WeightChoice::Use::Trained : WeightChoice::Use::Frozen;
  for (const WeightChoice &choice : trainer->weightChoices())
    if (choice.use == use)
      choices.emplace_back(choice.name, choice.reason);
  return choices;
}

void Training::step(const nb::args &batch) { runOn(batch, &Trainer::step); }

void Training::forwardBackward(const nb::args &batch) {
  runOn(batch, &Trainer::forwardBackward);
}

void Training::apply() {
  {
    GilRelease release;
    watch->check(trainer->apply());
  }
  watch->issue();
}

static GradientForm formOf(bool unscaled) {
  return unscaled ? GradientForm::Unscaled : GradientForm::Scaled;
}

nb::dict Training::gradients(bool unscaled, Framework framework) {
  std::vector<NamedTensor> found;
  {
    GilRelease release;
    found = watch->valueOf(trainer->gradients(formOf(unscaled)));
  }
  return toArrays(std::move(found), framework, kSuffix.size());
}

void Training::setGradients(const nb::dict &gradients, bool unscaled) {
  std::vector<NamedTensor> tensors = toTensors(gradients, kSuffix);
  GilRelease release;
  watch->check(trainer->setGradients(tensors, formOf(unscaled)));
}

//===----------------------------------------------------------------------===//
// Metrics and state
//===----------------------------------------------------------------------===//

Training::Metrics Training::metrics() {
  GilRelease release;
  return toTuple(watch->valueOf(trainer->takeMetrics()));
}

std::tuple<double, int64_t, std::string> Training::lossScale() {
  GilRelease release;
  LossScaleReport report = watch->valueOf(trainer->lossScale());
  return {report.scale, report.skippedSteps, report.overflowed};
}

std::map<std::string, double> Training::scalerState() {
  GilRelease release;
  std::map<std::string, double> numbers;
  for (const NamedNumber &number :
       watch->valueOf(trainer->lossScaleState(LossScaleNames::Torch)))
    numbers[number.name] = number.value;
  return numbers;
}

void Training::setScalerState(const std::map<std::string, double> &numbers) {
  GilRelease release;
  std::vector<NamedNumber> given;
  given.reserve(numbers.size());
  for (const auto &[name, value] : numbers)
    given.push_back({name, value});
  watch->check(trainer->setLossScaleState(given));
}

nb::dict Training::toArrays(std::vector<NamedTensor> tensors,
                            Framework framework, size_t suffix) const {
  nb::dict arrays;
  for (NamedTensor &tensor : tensors) {
    std::string name(tensor.name, 0, tensor.name.size() - suffix);
    arrays[nb::cast(name)] = toArray(std::move(tensor.data), framework);
  }
  return arrays;
}

nb::dict Training::state(Framework framework) {
  std::vector<NamedTensor> found;
  {
    GilRelease release;
    found = watch->valueOf(trainer->state());
  }
  return toArrays(std::move(found), framework);
}

void Training::setState(const nb::dict &arrays) {
  std::vector<NamedTensor> tensors = toTensors(arrays);
  GilRelease release;
  watch->check(trainer->setState(tensors));
}

Training::Metrics
Training::evaluate(const nb::dict &inputs, nb::handle labels,
                   const std::map<int64_t, ModelSource> &models) {
  std::vector<NamedTensor> tensors = toTensors(inputs);
  Buffer wanted = toHostBuffer(labels, "labels");
  TrainingMetrics metrics;
  {
    GilRelease release;
    Dataset data = watch->valueOf(
        Dataset::fromArrays(std::move(tensors), std::move(wanted)));
    metrics = watch->valueOf(trainer->evaluate(data, Normalization(), models));
  }
  watch->issue();
  return toTuple(metrics);
}

void Training::exportOnnx(const std::string &path) {
  GilRelease release;
  watch->check(trainer->exportOnnx(path));
}

//===----------------------------------------------------------------------===//
// The extension
//===----------------------------------------------------------------------===//

static void addOptions(nb::module_ &module) {
  nb::class_<LossOptions>(module, "LossOptions")
      .def(nb::init<>())
      .def_rw("kind", &LossOptions::kind)
      .def_rw("output", &LossOptions::output)
      .def_rw("labels", &LossOptions::labels)
      .def_rw("label_smoothing", &LossOptions::labelSmoothing)
      .def_rw("ignore_index", &LossOptions::ignoreIndex, nb::arg().none())
      .def_rw("delta", &LossOptions::delta);
  nb::class_<OptimizerOptions>(module, "OptimizerOptions")
      .def(nb::init<>())
      .def_rw("kind", &OptimizerOptions::kind)
      .def_rw("form", &OptimizerOptions::form)
      .def_rw("numbers", &OptimizerOptions::numbers)
      .def_rw("weight_decay", &OptimizerOptions::weightDecay, nb::arg().none());
  nb::class_<ScheduleOptions>(module, "ScheduleOptions")
      .def(nb::init<>())
      .def_rw("kind", &ScheduleOptions::kind)
      .def_rw("base", &ScheduleOptions::base)
      .def_rw("warmup", &ScheduleOptions::warmup)
      .def_rw("steps", &ScheduleOptions::steps)
      .def_rw("final", &ScheduleOptions::final)
      .def_rw("period", &ScheduleOptions::period)
      .def_rw("gamma", &ScheduleOptions::gamma);
  nb::class_<TrainingOptions>(module, "TrainingOptions")
      .def(nb::init<>())
      .def_rw("loss", &TrainingOptions::loss)
      .def_rw("optimizer", &TrainingOptions::optimizer)
      .def_rw("schedule", &TrainingOptions::schedule)
      .def_rw("loss_scale", &TrainingOptions::lossScale)
      .def_rw("clip_norm", &TrainingOptions::clipNorm, nb::arg().none())
      .def_rw("clip_value", &TrainingOptions::clipValue, nb::arg().none())
      .def_rw("accumulate", &TrainingOptions::accumulate)
      .def_prop_rw(
          "sync_batch_norm",
          [](const TrainingOptions &options) {
            return options.distribution.syncBatchNorm;
          },
          [](TrainingOptions &options, bool sync) {
            options.distribution.syncBatchNorm = sync;
          })
      .def_rw("dropout", &TrainingOptions::dropout)
      .def_rw("freeze", &TrainingOptions::freeze)
      .def_rw("trainable", &TrainingOptions::trainable)
      .def_rw("parameters", &TrainingOptions::parameters)
      .def_rw("gradients", &TrainingOptions::gradients)
      .def_rw("cotangent", &TrainingOptions::cotangent)
      .def_rw("initial_seed", &TrainingOptions::initialSeed, nb::arg().none())
      .def_rw("statistics_momentum", &TrainingOptions::statisticsMomentum);
}

void python::addTraining(nb::module_ &module) {
  addOptions(module);
  nb::class_<ProgramValue>(module, "Value")
      .def_ro("name", &ProgramValue::name)
      .def_ro("role", &ProgramValue::role)
      .def_ro("field", &ProgramValue::field)
      .def_prop_ro("shape",
                   [](const ProgramValue &value) { return value.type.shape; })
      .def_prop_ro("dtype", [](const ProgramValue &value) {
        return std::string(elementTypeName(value.type.element));
      });
  nb::class_<Training>(module, "Training")
      .def(nb::init<const Device &, std::shared_ptr<Gpu>, const ModelSource &,
                    CompileOptions, const nb::dict &, uint64_t,
                    std::shared_ptr<Communicator>>(),
           nb::arg("device"), nb::arg("gpu").none(), nb::arg("model"),
           nb::arg("options"), nb::arg("values"), nb::arg("seed"),
           nb::arg("communicator").none())
      .def_prop_ro("batch_types", &Training::batchTypes)
      .def_prop_ro("arguments", &Training::arguments)
      .def_prop_ro("layers", &Training::layers)
      .def("weight_choices", &Training::weightChoices, nb::arg("trained"))
      .def("add_model", &Training::addModel, nb::arg("size"), nb::arg("model"))
      .def("step", &Training::step)
      .def("forward_backward", &Training::forwardBackward)
      .def("apply", &Training::apply)
      .def("gradients", &Training::gradients)
      .def("set_gradients", &Training::setGradients)
      .def("metrics", &Training::metrics)
      .def("loss_scale", &Training::lossScale)
      .def("scaler_state", &Training::scalerState)
      .def("set_scaler_state", &Training::setScalerState)
      .def("state", &Training::state)
      .def("set_state", &Training::setState)
      .def("evaluate", &Training::evaluate)
      .def("export_onnx", &Training::exportOnnx);
}
