//===- Evaluate.cpp - evaluation of a model in training -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementConversion.h"
#include "TrainerImpl.h"

#include <numeric>

using namespace mpc;
using namespace mpc::training;

Result<Batcher>
Trainer::Impl::batcherFor(const BoundProgram &program, const Dataset &data,
                          const Normalization &normalization) const {
  std::vector<std::string> names;
  std::vector<TensorType> types;
  for (const ProgramValue &value : program.batchTypes()) {
    names.push_back(value.name);
    types.push_back(value.type);
  }
  TensorType label = types.back();
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
