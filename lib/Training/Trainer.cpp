//===- Trainer.cpp - training steps ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementConversion.h"
#include "TensorFile.h"
#include "TrainerImpl.h"

#include "JIT/Compiler.h"
#include "mpc/Import/OnnxWeights.h"
#include "mpc/Runtime/RankDevice.h"
#include "mpc/Support/Files.h"
#include "mpc/Support/StepNames.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <list>
#include <numeric>

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
// Construction
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
  const mpc::TensorType &label = program.batchTypes().back().type;
  if (index < 0 || isFloat(label.element))
    return false;
  const mpc::TensorType &output = program.result(index).type();
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

Result<BoundProgram *>
Trainer::Impl::forSize(BoundProgram &usual, TrainingPart part,
                       std::span<const Buffer> batch,
                       const std::map<int64_t, ModelSource> &models) {
  const std::vector<int64_t> &shape = usual.batchTypes().front().type.shape;
  if (batch.empty() || !batch.front() || batch.front().type().shape.empty())
    return &usual;
  int64_t size = batch.front().type().shape.front();
  // Ranks share the usual size only.
  if (size < 1 || size == shape.front() || !ranks.alone())
    return &usual;
  auto found = otherSizes.find({part, size});
  if (found == otherSizes.end()) {
    auto given = models.find(size);
    if (given == models.end() && !options.training->gradients.empty())
      return &usual;
    Result<BoundProgram> made =
        compile(given == models.end() ? model : given->second, part, size);
    if (!made.ok())
      return made.status();
    // A model in mpc text has a fixed batch.
    if (made->batchTypes().front().type.shape.front() != size)
      return &usual;
    found = otherSizes.emplace(std::pair{part, size}, std::move(*made)).first;
  }
  return &found->second;
}

Status Trainer::step(std::span<const Buffer> batch,
                     const std::map<int64_t, ModelSource> &models) {
  if (impl->first) {
    Result<BoundProgram *> program =
        impl->forSize(*impl->first, TrainingPart::Step, batch, models);
    if (!program.ok())
      return program.status();
    Status status = impl->runForward(**program, batch);
    impl->noteUpdate(**program);
    return status;
  }
  if (Status status = forwardBackward(batch, models); !status.ok())
    return status;
  if (++impl->inWindow < impl->options.training->accumulate)
    return {};
  return apply();
}

Status Trainer::forwardBackward(std::span<const Buffer> batch,
                                const std::map<int64_t, ModelSource> &models) {
  if (Status status = impl->compileGradientAndUpdate(); !status.ok())
    return status;
  Result<BoundProgram *> program = impl->forSize(
      *impl->forward, TrainingPart::ForwardBackward, batch, models);
  if (!program.ok())
    return program.status();
  if (Status status = impl->runForward(**program, batch); !status.ok())
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

//===----------------------------------------------------------------------===//
// Data-parallel set-up
//
// Agreement of ranks before training: parts of a batch, network parameters, and
// that all have compiled the same step from the same values.
//===----------------------------------------------------------------------===//

/// Returns the minimum time of an exchange of `bytes`, in seconds.
static Result<double> secondsOf(Communicator &group, size_t bytes) {
  constexpr int kTries = 5;
  size_t piece = std::max<size_t>(1, bytes / size_t(group.size()));
  std::vector<char> send(piece * size_t(group.size())), receive(send.size());
  double least = INFINITY;
  for (int i = 0; i < kTries; ++i) {
    auto start = std::chrono::steady_clock::now();
    if (Status status = group.allToAll(send.data(), receive.data(), piece);
        !status.ok())
      return status;
    if (Status status = group.allGather(send.data(), receive.data(), piece);
        !status.ok())
      return status;
    least = std::min(least, std::chrono::duration<double>(
                                std::chrono::steady_clock::now() - start)
                                .count());
  }
  return least;
}

/// Rounds down to a power of two: raw measurements would change the compiled
/// step each time and miss the cache.
static double rounded(double value) {
  return std::exp2(std::floor(std::log2(value)));
}

static Status measure(Communicator &group, DistributionOptions &distribution) {
  constexpr size_t kLarge = size_t(1) << 20;
  Result<double> small = secondsOf(group, 1), large = secondsOf(group, kLarge);
  if (!small.ok() || !large.ok())
    return small.ok() ? large.status() : small.status();
  double network[] = {
      rounded(std::max(*small, 1e-7)),
      rounded(double(kLarge) / std::max(*large - *small, 1e-7))};
  if (Status status = group.broadcast(network, sizeof(network), 0);
      !status.ok())
    return status;
  distribution.latency = network[0];
  distribution.bandwidth = network[1];
  return {};
}

Status Trainer::Impl::partitionBatch() {
  int64_t size = ranks.size();
  DistributionOptions &distribution = options.training->distribution;
  distribution.ranks = size;
  if (ranks.alone())
    return {};
  if (Status status = ranks.agree("the batch", std::to_string(*options.batch));
      !status.ok())
    return status;
  if (*options.batch < size || *options.batch % size)
    return ranks.known(Status(
        StatusCode::InvalidArgument, "batch",
        "of " + std::to_string(*options.batch) +
            " examples cannot be divided evenly among " + std::to_string(size) +
            " ranks; use a multiple of " + std::to_string(size)));
  // Without a target: the step itself shows whether ranks agree on it.
  const PipelineOptions choices = pipelineOptions(options, TargetInfo());
  if (Status status = ranks.agree("the options", printFlags(choices));
      !status.ok())
    return status;
  *options.batch /= size;
  return measure(*ranks.communicator(), distribution);
}

Status Trainer::Impl::hasShards(const BoundProgram &program) const {
  const std::vector<ProgramValue> &types = program.batchTypes();
  int64_t part = types.empty() || types[0].type.shape.empty()
                     ? 0
                     : types[0].type.shape.front();
  if (ranks.alone() || part == *options.batch)
    return {};
  return Status(StatusCode::InvalidArgument, model.name(),
                "has batches of " + std::to_string(part) +
                    ", which cannot be divided into batches of " +
                    std::to_string(*options.batch) +
                    "; export it with a dynamic batch dimension");
}

Status Trainer::Impl::checkRanksAgree(const Program &program) const {
  if (ranks.alone())
    return {};
  llvm::SHA256 hash;
  auto add = [&](llvm::StringRef text) {
    hash.update(text);
    hash.update(llvm::StringRef("\0", 1));
  };
  auto addBytes = [&](const std::shared_ptr<const void> &data, int64_t bytes) {
    if (data)
      hash.update(llvm::StringRef(static_cast<const char *>(data.get()),
                                  size_t(bytes)));
  };
  add(program.target);
  for (const auto *values : {&program.arguments, &program.results})
    for (const ProgramValue &value : *values) {
      add(value.name);
      add(value.type.toString());
      addBytes(value.initial, value.initialType().byteCount().value_or(0));
    }
  for (const ProgramConstant &constant : program.constants)
    addBytes(constant.data, constant.bytes);
  for (const Launch &launch : program.launches) {
    add(launch.kernel);
    for (const BufferRef &buffer : launch.buffers)
      add(std::to_string(int(buffer.kind)) + " " +
          std::to_string(buffer.index) + " " + std::to_string(buffer.offset) +
          " " + std::to_string(buffer.bytes));
  }
  return ranks.agree("the compiled step",
                     llvm::toHex(hash.final()).substr(0, 16));
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

Result<Batcher>
Trainer::Impl::batcherFor(const BoundProgram &program, const Dataset &data,
                          const Normalization &normalization) const {
  std::vector<std::string> names;
  std::vector<mpc::TensorType> types;
  for (const ProgramValue &value : program.batchTypes()) {
    names.push_back(value.name);
    types.push_back(value.type);
  }
  mpc::TensorType label = types.back();
  names.pop_back();
  types.pop_back();
  int64_t classes = 0;
  if (comparable(program))
    classes = program.result(judged(program)).type().shape.back();
  return Batcher::create(data, std::move(names), std::move(types),
                         std::move(label), normalization, classes, ignored());
}

Result<Batcher> Trainer::batcher(const Dataset &data,
                                 const Normalization &normalization) const {
  return impl->batcherFor(impl->first ? *impl->first : *impl->forward, data,
                          normalization);
}

Result<BoundProgram *>
Trainer::Impl::evaluator(int64_t batch,
                         const std::map<int64_t, ModelSource> &models) {
  auto found = evaluators.find(batch);
  if (found == evaluators.end()) {
    auto given = models.find(batch);
    if (given == models.end() && !options.training->gradients.empty())
      return Status(StatusCode::InvalidArgument, model.name(),
                    "computes its own gradients and has no forward model for " +
                        std::to_string(batch) + " examples to evaluate");
    Result<BoundProgram> made =
        compile(given == models.end() ? model : given->second,
                TrainingPart::Evaluate, batch);
    if (!made.ok())
      return made.status();
    found = evaluators.emplace(batch, std::move(*made)).first;
  }
  if (Status status = recomputeNarrowCopiesFor(found->second); !status.ok())
    return status;
  return &found->second;
}

Result<TrainingMetrics>
Trainer::evaluate(const Dataset &data, const Normalization &normalization,
                  const std::map<int64_t, ModelSource> &models) {
  // `weighted` has losses weighted by examples: a smaller last batch weighs
  // less, and one with ignored labels only weighs nothing.
  Totals totals, weighted;
  int64_t usual = batch(), at = 0, number = 0;
  std::vector<int64_t> rows;
  while (at < data.size()) {
    int64_t size = std::min(usual, data.size() - at);
    Result<BoundProgram *> program = impl->evaluator(size, models);
    if (!program.ok())
      return program.status();
    BoundProgram &judge = **program;
    // A model in mpc text has a fixed batch.
    if (judge.batchTypes().front().type.shape.front() != size)
      break;
    Result<Batcher> batcher = impl->batcherFor(judge, data, normalization);
    if (!batcher.ok())
      return batcher.status();
    // All batches of this size.
    for (; at + size <= data.size(); at += size) {
      // Ranks process batches round-robin.
      if (number++ % impl->ranks.size() != impl->ranks.rank())
        continue;
      rows.resize(size_t(size));
      std::iota(rows.begin(), rows.end(), at);
      Result<std::vector<Buffer>> arrays = batcher->gather(rows);
      if (!arrays.ok())
        return arrays.status();
      if (Status status = judge.run(*arrays, impl->state); !status.ok())
        return status;
      Result<Buffer> value =
          impl->state.toHost(judge.result(judge.resultOf("loss")));
      if (!value.ok())
        return value.status();
      Buffer output;
      if (impl->comparable(judge)) {
        Result<Buffer> host =
            impl->state.toHost(judge.result(impl->judged(judge)));
        if (!host.ok())
          return host.status();
        output = *host;
      }
      double mean = std::numeric_limits<double>::quiet_NaN();
      readElements(*value, 0, value->size(), [&](double v) { mean = v; });
      int64_t before = totals.batches;
      totals.add(mean, output, arrays->back(), impl->ignored());
      if (totals.batches == before)
        continue;
      weighted.loss += mean * double(size);
      weighted.examples += size;
    }
  }
  if (at == 0)
    return Status(StatusCode::InvalidArgument, data.name(),
                  "has " + std::to_string(data.size()) +
                      " examples, but the model takes batches of " +
                      std::to_string(usual));
  for (Totals *sums : {&totals, &weighted})
    if (Status status = impl->ranks.sum(*sums); !status.ok())
      return status;
  TrainingMetrics metrics = totals.metrics();
  metrics.loss = weighted.loss / double(weighted.examples);
  return metrics;
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

/// Copies the entries whose role satisfies `isWanted`.
template <typename Predicate>
static Result<std::vector<NamedTensor>> collect(const SharedProgramState &state,
                                                Predicate isWanted) {
  std::vector<NamedTensor> tensors;
  for (const SharedProgramState::Entry &entry : state.entries()) {
    if (!entry.kept || !isWanted(entry.value.role))
      continue;
    Result<Buffer> host = state.whole(entry);
    if (!host.ok())
      return host.status();
    tensors.push_back({entry.value.name, std::move(*host)});
  }
  return tensors;
}

Result<std::vector<NamedTensor>> Trainer::state() const {
  return collect(impl->state, [](const std::string &role) {
    return role != "parameter_copy";
  });
}

Result<std::vector<NamedTensor>> Trainer::weights() const {
  return collect(impl->state, [](const std::string &role) {
    return role == "parameter" || role == "statistics";
  });
}

uint64_t Trainer::Impl::stateBytes() const {
  uint64_t bytes = 0;
  for (const SharedProgramState::Entry &entry : state.entries())
    if (entry.kept && entry.value.role != "parameter_copy")
      bytes += uint64_t(*entry.value.initialType().byteCount());
  return bytes;
}

Result<Trainer::Impl::OwnedTrainerState> Trainer::Impl::ownState() const {
  OwnedTrainerState own;
  for (const SharedProgramState::Entry &entry : state.entries()) {
    if (!entry.kept || entry.value.role == "parameter_copy")
      continue;
    Result<Buffer> host = state.toHost(entry.buffer);
    if (!host.ok())
      return host.status();
    const auto &shape = entry.value.shardOf;
    if (shape) {
      own.shapes[entry.value.name] = *shape;
      // Zero the padding elements, in which updates leave arbitrary values
      // (0/0).
      const auto all = size_t(*entry.value.initialType().byteCount());
      size_t begin = std::min(size_t(ranks.rank()) * host->size(), all);
      size_t used = std::min(host->size(), all - begin);
      std::fill_n(static_cast<char *>(host->data()) + used, host->size() - used,
                  0);
    }
    (shape ? own.pieces : own.tensors)
        .push_back({entry.value.name, std::move(*host)});
  }
  return own;
}

Status Trainer::setState(std::span<const NamedTensor> tensors) {
  std::map<std::string, const NamedTensor *> given;
  for (const NamedTensor &tensor : tensors)
    given[tensor.name] = &tensor;
  auto bad = [](const std::string &name, const std::string &text) {
    return Status(StatusCode::InvalidArgument, "state '" + name + "'", text);
  };
  // Check everything before changing anything.
  size_t wanted = 0;
  for (const SharedProgramState::Entry &entry : impl->state.entries()) {
    if (!entry.kept || entry.value.role == "parameter_copy")
      continue;
    ++wanted;
    auto found = given.find(entry.value.name);
    if (found == given.end())
      return bad(entry.value.name, "is missing; the resumed run had another "
                                   "model, optimizer or loss scale");
    const Buffer &data = found->second->data;
    mpc::TensorType type = entry.value.initialType();
    if (!data || data.onDevice() || !(data.type() == type))
      return bad(entry.value.name,
                 "is " + (data ? data.type().toString() : "null") +
                     ", but this training has " + type.toString());
  }
  if (wanted != given.size())
    for (const auto &[name, tensor] : given) {
      const SharedProgramState::Entry *entry = impl->state.find(name);
      if (!entry || !entry->kept)
        return bad(name, "is not a state of this training; the resumed run had "
                         "another model, optimizer or loss scale");
    }
  for (const SharedProgramState::Entry &entry : impl->state.entries()) {
    auto found = given.find(entry.value.name);
    if (!entry.kept || found == given.end())
      continue;
    if (Status status = impl->state.restore(entry, found->second->data);
        !status.ok())
      return status;
  }
  return impl->recomputeNarrowCopies();
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Returns the format of a float type of gradients; null for others.
static const llvm::fltSemantics *formatOf(ElementType element) {
  switch (element) {
  case ElementType::F16:
    return &llvm::APFloat::IEEEhalf();
  case ElementType::BF16:
    return &llvm::APFloat::BFloat();
  case ElementType::F32:
    return &llvm::APFloat::IEEEsingle();
  case ElementType::F64:
    return &llvm::APFloat::IEEEdouble();
  default:
    return nullptr;
  }
}

/// Returns `from` times `factor`, computed in float64 and rounded once to
/// `type`. Both in host memory and of equal shape.
static Result<Buffer> scaledCopy(const Buffer &from, double factor,
                                 const mpc::TensorType &type) {
  const llvm::fltSemantics *source = formatOf(from.type().element),
                           *target = formatOf(type.element);
  if (!source || !target)
    return Status(StatusCode::Internal, "gradient",
                  "of type " + from.type().toString() + " has no floats");
  Result<Buffer> to = Buffer::allocate(type);
  if (!to.ok())
    return to;
  size_t fromBytes = size_t(elementBytes(from.type().element)),
         toBytes = size_t(elementBytes(type.element));
  const auto *in = static_cast<const char *>(from.data());
  auto *out = static_cast<char *>(to->data());
  for (size_t i = 0; i * toBytes < to->size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, in + i * fromBytes, fromBytes);
    llvm::APFloat value(*source, llvm::APInt(unsigned(8 * fromBytes), bits));
    value = llvm::APFloat(value.convertToDouble() * factor);
    bool lost;
    (void)value.convert(*target, llvm::APFloat::rmNearestTiesToEven, &lost);
    bits = value.bitcastToAPInt().getZExtValue();
    std::memcpy(out + i * toBytes, &bits, toBytes);
  }
  return to;
}

static Status noGradients() {
  return Status(StatusCode::InvalidArgument, "gradients",
                "exist only between forwardBackward() and apply()");
}

Result<std::vector<NamedTensor>> Trainer::gradients(GradientForm form) const {
  std::vector<NamedTensor> gradients;
  if (!impl->hasGradients)
    return noGradients();
  Result<LossScaleReport> report = lossScale();
  if (!report.ok())
    return report.status();
  const std::vector<ProgramValue> &values = impl->forward->program().results;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::string_view(values[i].name).ends_with(kGradientSuffix))
      continue;
    Result<Buffer> host = impl->state.toHost(impl->forward->result(int(i)));
    if (host.ok() && form == GradientForm::Unscaled)
      host = scaledCopy(*host, 1 / report->scale,
                        {ElementType::F32, host->type().shape});
    if (!host.ok())
      return host.status();
    gradients.push_back({values[i].name, std::move(*host)});
  }
  return gradients;
}

Status Trainer::setGradients(std::span<const NamedTensor> gradients,
                             GradientForm form) {
  if (!impl->hasGradients)
    return noGradients();
  Result<LossScaleReport> report = lossScale();
  if (!report.ok())
    return report.status();
  // Check everything before changing anything.
  std::vector<std::pair<const SharedProgramState::Entry *, Buffer>> changes;
  for (const NamedTensor &gradient : gradients) {
    std::string where = "gradient '" + gradient.name + "'";
    const SharedProgramState::Entry *entry =
        std::string_view(gradient.name).ends_with(kGradientSuffix)
            ? impl->state.find(gradient.name)
            : nullptr;
    if (!entry)
      return Status(StatusCode::InvalidArgument, where,
                    "is not a parameter of this training");
    mpc::TensorType wanted = entry->value.type;
    if (form == GradientForm::Unscaled)
      wanted.element = ElementType::F32;
    const Buffer &data = gradient.data;
    if (!data || data.onDevice() || !(data.type() == wanted))
      return Status(StatusCode::InvalidArgument, where,
                    "is " + (data ? data.type().toString() : "null") +
                        ", but must be " + wanted.toString() +
                        " in host memory");
    Result<Buffer> value =
        form == GradientForm::Unscaled
            ? scaledCopy(data, report->scale, entry->value.type)
            : Result<Buffer>(data);
    if (!value.ok())
      return value.status();
    changes.emplace_back(entry, *value);
  }
  for (const auto &[entry, value] : changes)
    if (Status status = impl->state.assign(*entry, value); !status.ok())
      return status;
  return {};
}

//===----------------------------------------------------------------------===//
// ONNX export
//===----------------------------------------------------------------------===//

using Elements = std::variant<std::vector<float>, std::vector<double>>;

/// Returns the transpose of a matrix, with its elements in `elements`.
static OnnxWeight transposed(const OnnxWeight &matrix, const std::string &name,
                             Elements &elements) {
  OnnxWeight result{name, {matrix.shape[1], matrix.shape[0]}, {}};
  std::visit(
      [&](auto from) {
        std::vector<typename decltype(from)::value_type> to(from.size());
        size_t rows = size_t(matrix.shape[0]),
               columns = size_t(matrix.shape[1]);
        for (size_t row = 0; row < rows; ++row)
          for (size_t column = 0; column < columns; ++column)
            to[column * rows + row] = from[row * columns + column];
        result.values = std::span(
            std::as_const(elements.emplace<decltype(to)>(std::move(to))));
      },
      matrix.values);
  return result;
}

Result<std::string> Trainer::encodeOnnx(const std::string &path) const {
  const std::string &name = impl->model.name();
  if (!std::string_view(name).ends_with(".onnx"))
    return Status(StatusCode::InvalidArgument, path,
                  "cannot be made from " + name +
                      ": only a model that came as .onnx is exported as one");
  Result<std::vector<NamedTensor>> trained = weights();
  // Reading sharded weights is collective, so all ranks get here.
  if (!trained.ok() || impl->ranks.rank() != 0)
    return trained.ok() ? Result<std::string>(std::string()) : trained.status();
  std::vector<OnnxWeight> values;
  for (const auto &[tensorName, data] : *trained) {
    OnnxWeight weight{tensorName, data.type().shape, data.as<float>()};
    if (data.type().element == ElementType::F64)
      weight.values = data.as<double>();
    values.push_back(std::move(weight));
  }
  // Weights that the file stores twice.
  std::list<Elements> copies;
  for (const WeightChoice &choice : impl->weightChoices)
    if (auto original = std::find_if(values.begin(), values.end(),
                                     [&](const OnnxWeight &weight) {
                                       return weight.name ==
                                                  choice.original() &&
                                              weight.shape.size() == 2;
                                     });
        original != values.end())
      values.push_back(
          transposed(*original, choice.name, copies.emplace_back()));
  Result<SourceBytes> bytes = impl->model.read();
  if (!bytes.ok())
    return bytes.status();
  std::string folder = std::filesystem::path(path).parent_path().string();
  auto made = replaceOnnxWeights(name, bytes->bytes, values, folder);
  if (const auto *failure = std::get_if<OnnxWeightsFailure>(&made))
    return Status(StatusCode::InvalidArgument, failure->where, failure->text);
  return std::move(std::get<std::string>(made));
}

Status Trainer::checkExport(const std::string &path) const {
  Result<std::string> bytes = encodeOnnx(path);
  return bytes.ok() ? Status() : bytes.status();
}

Status Trainer::exportOnnx(const std::string &path) const {
  Result<std::string> bytes = encodeOnnx(path);
  if (!bytes.ok() || impl->ranks.rank() != 0)
    return bytes.status();
  return writeWholeFile(path, {*bytes});
}
