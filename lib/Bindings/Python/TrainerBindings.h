//===- TrainerBindings.h - bindings of Trainer ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_TRAINERBINDINGS_H
#define MPC_LIB_BINDINGS_PYTHON_TRAINERBINDINGS_H

#include "ArrayConversion.h"
#include "CompileMonitor.h"
#include "GpuArrays.h"

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

/// Implementation of mpc.Trainer: a Trainer whose batches and state are arrays.
/// Not thread-safe. Members compile parts on demand.
class Training {
public:
  /// `options.training` must be set. `values` are the initial values of inputs
  /// that are parameters. `communicator`, if not null, is the data-parallel
  /// group. `gpu` is the device; null for host memory.
  Training(const Device &device, std::shared_ptr<Gpu> gpu,
           const ModelSource &model, CompileOptions options,
           const nanobind::dict &values, uint64_t seed,
           std::shared_ptr<Communicator> communicator);

  std::vector<ProgramValue> batchTypes() const;
  /// Arguments of the step: state and batch.
  std::vector<ProgramValue> arguments() const;
  std::vector<std::pair<std::string, std::string>> layers() const;
  /// Name and reason of each trained tensor of the model, or of each frozen
  /// one.
  std::vector<std::pair<std::string, std::string>>
  weightChoices(bool trained) const;

  /// Adds the model for batches of another size.
  void addModel(int64_t size, const ModelSource &model) {
    models.insert_or_assign(size, model);
  }
  /// A batch has an array for each of batchTypes(). GPU arrays are read in
  /// order of the caller's stream, which then waits for the step.
  void step(const nanobind::args &batch);
  void forwardBackward(const nanobind::args &batch);
  void apply();
  /// Arrays of `framework` by parameter name; unscaled in float32.
  nanobind::dict gradients(bool unscaled, Framework framework);
  void setGradients(const nanobind::dict &gradients, bool unscaled);

  /// Loss, accuracy if labels are classes, and number of batches.
  using Metrics = std::tuple<double, std::optional<double>, int64_t>;
  /// Metrics since the last call.
  Metrics metrics();
  /// Scale, number of skipped steps, and the last overflow.
  std::tuple<double, int64_t, std::string> lossScale();
  /// Under the names of torch's GradScaler; empty if the scale is constant.
  std::map<std::string, double> scalerState();
  void setScalerState(const std::map<std::string, double> &numbers);

  /// Copies of the complete state, by name.
  nanobind::dict state(Framework framework);
  void setState(const nanobind::dict &arrays);

  /// Evaluates all examples without dropout; `models` as for
  /// Trainer::evaluate().
  Metrics evaluate(const nanobind::dict &inputs, nanobind::handle labels,
                   const std::map<int64_t, ModelSource> &models);
  void exportOnnx(const std::string &path);

private:
  /// Calls `run` with the batch, without the GIL.
  using Run = Status (Trainer::*)(std::span<const Buffer>,
                                  const std::map<int64_t, ModelSource> &);
  void runOn(const nanobind::args &batch, Run run);
  nanobind::dict toArrays(std::vector<NamedTensor> tensors, Framework framework,
                          size_t suffix = 0) const;

  std::shared_ptr<Gpu> gpu;
  std::shared_ptr<CompileMonitor> watch;
  std::unique_ptr<Trainer> trainer;
  std::map<int64_t, ModelSource> models;
};

/// Adds Training and its options to the extension.
void addTraining(nanobind::module_ &module);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_TRAINERBINDINGS_H
