//===- Trainer.cpp - training steps ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainerImpl.h"

#include "ElementConversion.h"

#include "mpc/Runtime/RankDevice.h"

#include <algorithm>
#include <cstring>

using namespace mpc;
using namespace mpc::training;

//===----------------------------------------------------------------------===//
// Metrics
//===----------------------------------------------------------------------===//

void Totals::add(double value, const Buffer &output, const Buffer &labels,
                 std::optional<int64_t> ignored) {
  std::vector<int64_t> wanted;
  if (output || (ignored && labels && !labels.onDevice()))
    readElements(labels, 0, labels.size(),
                 [&](double label) { wanted.push_back(int64_t(label)); });
  // A mean over no labels is NaN, which is not a divergence.
  if (std::isnan(value) && ignored && !wanted.empty() &&
      std::ranges::all_of(wanted,
                          [&](int64_t label) { return label == *ignored; }))
    return;
  ++batches;
  finite += std::isfinite(value);
  loss += value;
  if (!output)
    return;
  std::span<const float> scores = output.as<float>();
  size_t classes = wanted.empty() ? 0 : scores.size() / wanted.size();
  for (size_t row = 0; classes > 0 && row < wanted.size(); ++row) {
    if (ignored && wanted[row] == *ignored)
      continue;
    std::span<const float> line = scores.subspan(row * classes, classes);
    auto best = std::max_element(line.begin(), line.end());
    hits += best - line.begin() == wanted[row];
    ++examples;
  }
}

void Totals::add(const Totals &other) {
  batches += other.batches;
  finite += other.finite;
  loss += other.loss;
  hits += other.hits;
  examples += other.examples;
}

TrainingMetrics Totals::metrics() const {
  TrainingMetrics metrics;
  metrics.batches = batches;
  metrics.loss = batches > 0 ? loss / double(batches)
                             : std::numeric_limits<double>::quiet_NaN();
  if (examples > 0)
    metrics.accuracy = double(hits) / double(examples);
  return metrics;
}

//===----------------------------------------------------------------------===//
// Making one
//===----------------------------------------------------------------------===//

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Trainer::Trainer(Trainer &&) noexcept = default;
Trainer &Trainer::operator=(Trainer &&) noexcept = default;
Trainer::~Trainer() {
  // Enqueued copies read memory that is freed with this object.
  if (impl && impl->state.stream())
    (void)impl->state.stream()->synchronize();
}

Result<BoundProgram> Trainer::Impl::compile(const ModelSource &source,
                                            TrainingPart part,
                                            std::optional<int64_t> batch) {
  CompileOptions choices = options;
  choices.training->part = part;
  if (batch)
    choices.batch = batch;
  std::vector<WeightChoice> said;
  choices.onDiagnostic = [&](const Diagnostic &message) {
    if (message.severity == Diagnostic::Severity::Remark)
      if (std::optional<WeightChoice> choice =
              WeightChoice::parse(message.op, message.text))
        said.push_back(std::move(*choice));
    if (options.onDiagnostic)
      options.onDiagnostic(message);
  };
  Result<Executable> executable = engine.compile(source, choices);
  if (!executable.ok())
    return executable.status();
  if (weightChoices.empty())
    weightChoices = std::move(said);
  Result<BoundProgram> bound =
      BoundProgram::create(*executable, state,
                           /*keeps=*/part != TrainingPart::Evaluate);
  if (bound.ok())
    bound->joinRanks(ranks.communicator());
  return bound;
}

bool Trainer::isOneProgram(const TrainingOptions &training) {
  if (training.accumulate <= 1)
    return true;
  // If every micro step is checked, the step accumulates by itself.
  std::string why;
  std::optional<LossScalePreset> preset =
      LossScalePreset::parse(training.lossScale, why);
  // The compile reports an invalid text.
  return preset &&
         preset->accumulation == LossScalePreset::Accumulation::MicroStep;
}

/// Checks a rank's own device and options.
static Status checkOptions(const Device &device, const CompileOptions &options,
                           const DataParallelGroup &ranks) {
  auto bad = [](const char *where, const std::string &text) {
    return Status(StatusCode::InvalidArgument, where, text);
  };
  if (!options.training)
    return bad("CompileOptions::training", "must describe the training step");
  const std::string &shard = options.training->distribution.shard;
  if (shard != "none" && shard != "optimizer")
    return bad("shard", "is 'none' or 'optimizer', found '" + shard + "'");
  if (ranks.alone())
    return {};
  if (!options.batch)
    return bad("batch", "must be set when " + std::to_string(ranks.size()) +
                            " ranks share it");
  if (device.hasOwnMemory() && ranksOf(device) != ranks.size())
    return Status(StatusCode::Unavailable, "device '" + device.name() + "'",
                  "trains one rank; several ranks need CPU devices, or GPUs "
                  "made by cudaForRanks()");
  return {};
}

Result<Trainer> Trainer::create(const Device &device, const ModelSource &model,
                                const CompileOptions &options, uint64_t seed,
                                std::shared_ptr<Communicator> communicator) {
  DataParallelGroup ranks(std::move(communicator));
  Result<Engine> engine = Engine::create(device);
  Result<SharedProgramState> state =
      SharedProgramState::create(device, seed, ranks);
  // A failure on one rank ends the others before they wait for it.
  Status fits = checkOptions(device, options, ranks);
  for (const Status &status : {engine.status(), state.status()})
    if (fits.ok())
      fits = status;
  if (Status status = ranks.allOk(fits); !status.ok())
    return status;
  auto impl = std::make_unique<Impl>(*engine, model, std::move(*state));
  impl->options = options;
  impl->ranks = std::move(ranks);
  if (Status status = impl->partitionBatch(); !status.ok())
    return status;
  bool whole = isOneProgram(*options.training);
  Result<BoundProgram> first = impl->compile(
      model, whole ? TrainingPart::Step : TrainingPart::ForwardBackward);
  Status made = first.ok() ? impl->hasShards(*first) : first.status();
  if (Status status = impl->ranks.allOk(made); !status.ok())
    return status;
  if (Status status = impl->checkRanksAgree(first->program()); !status.ok())
    return status;
  auto program = std::make_unique<BoundProgram>(std::move(*first));
  const std::vector<ProgramValue> &types = program->batchTypes();
  if (types.size() < 2 || types.back().role != "label" ||
      types.front().type.shape.empty() || program->resultOf("loss") < 0)
    return Status(StatusCode::InvalidArgument, model.name(),
                  "has no input with a batch dimension, no label or no loss to "
                  "train with");
  (whole ? impl->first : impl->forward) = std::move(program);
  if (!whole)
    if (Status status = impl->compileGradientAndUpdate(); !status.ok())
      return status;
  if (Status status = impl->recomputeNarrowCopies(); !status.ok())
    return status;
  return Trainer(std::move(impl));
}

Status Trainer::Impl::recomputeNarrowCopies() {
  for (const SharedProgramState::Entry &entry : state.entries())
    if (entry.value.role == "parameter_copy")
      renewed.insert(entry.value.name);
  return state.recomputeNarrowCopies();
}

Status Trainer::Impl::recomputeNarrowCopiesFor(const BoundProgram &reader) {
  if (recorder == &reader)
    return {};
  for (const ProgramValue &value : reader.program().arguments)
    if (value.role == "parameter_copy" &&
        !(recorder && recorder->replaces(value.name)) &&
        renewed.insert(value.name).second)
      if (Status status = state.recomputeNarrowCopies(&value.name);
          !status.ok())
        return status;
  return {};
}

void Trainer::Impl::noteUpdate(const BoundProgram &program) {
  recorder = &program;
  renewed.clear();
}

Status Trainer::Impl::compileGradientAndUpdate() {
  for (auto [part, place] : {std::pair{TrainingPart::ForwardBackward, &forward},
                             std::pair{TrainingPart::Apply, &update}}) {
    if (*place)
      continue;
    Result<BoundProgram> made = compile(model, part);
    if (!made.ok())
      return made.status();
    *place = std::make_unique<BoundProgram>(std::move(*made));
  }
  return {};
}

std::span<const ProgramValue> Trainer::batchTypes() const {
  return (impl->first ? impl->first : impl->forward)->batchTypes();
}

std::span<const WeightChoice> Trainer::weightChoices() const {
  return impl->weightChoices;
}

const Stream *Trainer::stream() const { return impl->state.stream(); }

int64_t Trainer::batch() const { return batchTypes()[0].type.shape.front(); }

const Program &Trainer::program() const {
  return (impl->first ? impl->first : impl->forward)->program();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

int Trainer::Impl::judged(const BoundProgram &program) const {
  const LossOptions &loss = options.training->loss;
  // For a model that computes its loss: the output besides the loss.
  return program.resultOf("output", loss.kind == "output" ? "" : loss.output);
}

bool Trainer::Impl::comparable(const BoundProgram &program) const {
  int index = judged(program);
  const TensorType &label = program.batchTypes().back().type;
  if (index < 0 || isFloat(label.element))
    return false;
  const TensorType &output = program.result(index).type();
  return output.element == ElementType::F32 &&
         output.shape.size() == label.shape.size() + 1;
}

Result<Trainer::Impl::Pending>
Trainer::Impl::stage(std::span<const Buffer> batch, const Buffer &loss,
                     const Buffer &output) {
  Pending next;
  if (!spare.empty()) {
    next = std::move(spare.back());
    spare.pop_back();
  } else {
    next.batch.resize(batch.size());
  }
  auto isStaged = [&](size_t i) {
    bool compared = output && i + 1 == batch.size();
    return !batch[i].onDevice() || compared;
  };
  std::vector<std::pair<const Buffer *, Buffer *>> places = {
      {&loss, &next.loss}, {&output, &next.output}};
  for (size_t i = 0; i < batch.size(); ++i)
    if (isStaged(i))
      places.emplace_back(&batch[i], &next.batch[i]);
  for (auto [like, place] : places) {
    if (!*like || *place)
      continue;
    Result<Buffer> made = Buffer::allocatePinned(state.device(), like->type());
    if (!made.ok())
      return made.status();
    *place = *made;
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].onDevice() && isStaged(i)) {
      if (Status status = next.batch[i].copyFrom(batch[i], *state.stream());
          !status.ok())
        return status;
    } else if (batch[i].data()) {
      std::memcpy(next.batch[i].data(), batch[i].data(), batch[i].size());
    }
  }
  return next;
}

Status Trainer::Impl::runForward(BoundProgram &program,
                                 std::span<const Buffer> batch) {
  if (Status status = program.check(batch); !status.ok())
    return status;
  if (Status status = recomputeNarrowCopiesFor(program); !status.ok())
    return status;
  const Buffer &loss = program.result(program.resultOf("loss"));
  Buffer output;
  if (comparable(program)) {
    output = program.result(judged(program));
    // Checked again although data sets are checked: batches may come from the
    // host.
    const Buffer &labels = batch.back();
    if (!labels.onDevice() && !isFloat(labels.type().element))
      if (Status status = training::checkClasses(
              labels, output.type().shape.back(), ignored());
          !status.ok())
        return status;
  }
  if (!state.stream()) {
    if (Status status = program.run(batch, state); !status.ok())
      return status;
    totals.add(scalarOf(loss), output, batch.back(), ignored());
    return {};
  }
  Result<Pending> staged = stage(batch, loss, output);
  if (!staged.ok())
    return staged.status();
  std::vector<Buffer> inputs(batch.begin(), batch.end());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].onDevice())
      inputs[i] = staged->batch[i];
  if (Status status = program.run(inputs, state); !status.ok())
    return status;
  for (auto [from, to] :
       {std::pair{loss, staged->loss}, std::pair{output, staged->output}})
    if (from)
      if (Status status = to.copyFrom(from, *state.stream()); !status.ok())
        return status;
  pending.push_back(std::move(*staged));
  // Page-locked memory is scarce.
  constexpr size_t kMostPending = 64, kMostBytes = size_t(64) << 20;
  size_t bytes = 0;
  for (const Buffer &buffer : batch)
    bytes += buffer.size();
  if (pending.size() >= kMostPending || bytes * pending.size() > kMostBytes)
    return drain();
  return {};
}

Status Trainer::Impl::drain() {
  if (pending.empty())
    return {};
  if (Status status = state.stream()->synchronize(); !status.ok())
    return status;
  for (Pending &step : pending) {
    totals.add(scalarOf(step.loss), step.output, step.batch.back(), ignored());
    spare.push_back(std::move(step));
  }
  pending.clear();
  return {};
}

Status Trainer::step(std::span<const Buffer> batch) {
  if (impl->first) {
    Status status = impl->runForward(*impl->first, batch);
    impl->noteUpdate(*impl->first);
    return status;
  }
  if (Status status = forwardBackward(batch); !status.ok())
    return status;
  if (++impl->inWindow < impl->options.training->accumulate)
    return {};
  return apply();
}

Status Trainer::forwardBackward(std::span<const Buffer> batch) {
  if (Status status = impl->compileGradientAndUpdate(); !status.ok())
    return status;
  if (Status status = impl->runForward(*impl->forward, batch); !status.ok())
    return status;
  impl->hasGradients = true;
  return {};
}

Status Trainer::apply() {
  if (Status status = impl->compileGradientAndUpdate(); !status.ok())
    return status;
  if (!impl->hasGradients)
    return Status(StatusCode::InvalidArgument, "update",
                  "has no gradients; call forwardBackward() first");
  impl->inWindow = 0;
  impl->hasGradients = false;
  impl->noteUpdate(*impl->update);
  return impl->update->run({}, impl->state);
}

Result<TrainingMetrics> Trainer::takeMetrics() {
  if (Status status = impl->drain(); !status.ok())
    return status;
  TrainingMetrics metrics = impl->totals.metrics();
  impl->totals = {};
  return metrics;
}
