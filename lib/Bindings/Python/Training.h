//===- Training.h - a model in training -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_TRAINING_H
#define MPC_LIB_BINDINGS_PYTHON_TRAINING_H

#include "Arrays.h"
#include "GpuArrays.h"
#include "Watch.h"

#include "mpc/Training/Trainer.h"

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace mpc::python {

/// What mpc.Trainer stands on: a Trainer whose batches and state are arrays.
/// For one thread at a time. Members compile where a part is needed first.
class Training {
public:
  /// `options.training` must be set. `values` are those with which inputs that
  /// are parameters begin. `communicator`, where not null, has the ranks that
  /// train together. `gpu` is the device; null in host memory.
  Training(const Device &device, std::shared_ptr<Gpu> gpu,
           const ModelSource &model, CompileOptions options,
           const nanobind::dict &values, uint64_t seed,
           std::shared_ptr<Communicator> communicator);

  std::vector<ProgramValue> batchTypes() const;
  /// Arguments of the step: what it keeps, and the batch.
  std::vector<ProgramValue> arguments() const;
  std::vector<std::pair<std::string, std::string>> layers() const;
  /// Name and reason of each tensor of the model that is trained, or of each
  /// that stays as it is.
  std::vector<std::pair<std::string, std::string>>
  weightChoices(bool trained) const;

  /// A batch is an array for each of batchTypes(). One on the GPU is read
  /// behind the caller's stream, which then waits for the step.
  void step(const nanobind::args &batch);
  void forwardBackward(const nanobind::args &batch);
  void apply();
  /// Arrays of `framework` by the parameter's name; unscaled in float32.
  nanobind::dict gradients(bool unscaled, Framework framework);
  void setGradients(const nanobind::dict &gradients, bool unscaled);

  /// Loss, accuracy where labels are classes, and batches.
  using Metrics = std::tuple<double, std::optional<double>, int64_t>;
  /// Since the last call.
  Metrics metrics();
  /// Scale, skipped steps, and what overflowed last.
  std::tuple<double, int64_t, std::string> lossScale();
  /// Under the names of torch's GradScaler; empty where no scale changes.
  std::map<std::string, double> scalerState();
  void setScalerState(const std::map<std::string, double> &numbers);

  /// Copies of all that steps keep, by name.
  nanobind::dict state(Framework framework);
  void setState(const nanobind::dict &arrays);

  /// Over all examples, with dropout off; `models` as Trainer::evaluate().
  Metrics evaluate(const nanobind::dict &inputs, nanobind::handle labels,
                   const std::map<int64_t, ModelSource> &models);
  void exportOnnx(const std::string &path);

private:
  /// Calls `run` with the batch, without the interpreter's lock.
  void runOn(const nanobind::args &batch,
             Status (Trainer::*run)(std::span<const Buffer>));
  nanobind::dict toArrays(std::vector<NamedTensor> tensors, Framework framework,
                          size_t suffix = 0) const;

  std::shared_ptr<Gpu> gpu;
  std::shared_ptr<CompileWatch> watch;
  std::unique_ptr<Trainer> trainer;
};

/// Adds Training and its options to the extension.
void addTraining(nanobind::module_ &module);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_TRAINING_H
