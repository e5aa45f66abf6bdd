//===- Optimizers.cpp - recorded trajectories of optimizers ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replays each step from its recorded state, over the recorded gradients.
//
//===----------------------------------------------------------------------===//

#include "Bits.h"
#include "Scalers.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mpc::replay;

/// How far a step may lead away from the recording, in ulp of the tensor's
/// largest element.
static constexpr double kUlpsOfStep = 2;

namespace {

/// One recording on one device.
class OptimizerReplay {
public:
  OptimizerReplay(const Json &recording, const StepSpec &spec,
                  TrainingStep &step, const std::string &device, Tally &tally)
      : stream(recording.at("stream")), recording(recording), spec(spec),
        step(step), device(device), tally(tally), values(step.initial()) {}

  llvm::Error replay() {
    for (const auto &[parameter, bits] : stream.at("initial").items())
      values[parameter] = fromBits(bits);
    const Json &options = recording.at("options");
    for (const auto &[parameter, shape] : spec.shapes)
      if (auto sum = values.find(parameter + ".sum"); sum != values.end())
        sum->second.assign(sum->second.size(),
                           options.value("initial_accumulator_value", 0.0));
    int64_t done = 0;
    for (const Json &row : recording.at("recorded")) {
      if (row.at("implementation") != "single")
        continue;
      int64_t target = row.at("step");
      for (int64_t i = done; i < target; ++i)
        if (llvm::Error error = takeStep(i))
          return error;
      tally.note(
          llvm::formatv("steps {0} to {1} on {2}", done + 1, target, device),
          compare(row, double(target - done)));
      for (const char *part : {"parameters", "state"})
        for (const auto &[name, bits] : row.at(part).items())
          values[own(name)] = fromBits(bits);
      done = target;
    }
    return llvm::Error::success();
  }

private:
  /// The step's name of a recorded tensor.
  std::string own(const std::string &recorded) const {
    if (values.contains(recorded))
      return recorded;
    size_t dot = recorded.find('.');
    return recorded.substr(0, dot) + ".momentum";
  }

  llvm::Error takeStep(int64_t number) {
    for (const auto &[parameter, bits] :
         stream.at("gradients").at(number).items())
      values[parameter + ".scaled_gradient"] = fromBits(bits);
    llvm::Expected<Values> after = step.run(values);
    if (!after)
      return after.takeError();
    for (const auto &[name, value] : *after)
      values[name] = value;
    return llvm::Error::success();
  }

  std::string compare(const Json &row, double steps) const {
    for (const char *part : {"parameters", "state"})
      for (const auto &[name, bits] : row.at(part).items()) {
        std::vector<double> recorded = fromBits(bits);
        double apart = ulpsApart(values.at(own(name)), recorded, spec.type);
        if (apart > kUlpsOfStep * steps)
          return llvm::formatv("{0} is {1} ulp of its largest element off: "
                               "{2}, recorded {3}",
                               name, apart, show(values.at(own(name))),
                               show(recorded));
      }
    return "";
  }

  const Json &stream, &recording;
  const StepSpec &spec;
  TrainingStep &step;
  const std::string device;
  Tally &tally;
  Values values;
};

} // namespace

llvm::Expected<Tally> mpc::replay::replayOptimizer(const Json &recording,
                                                   mlir::MLIRContext &) {
  StepSpec spec;
  spec.type = recording.at("type");
  spec.training.lossScale = "none";
  OptimizerSpec optimizer =
      torchOptimizer(recording.at("optimizer"), recording.at("options"));
  for (const auto &[parameter, shape] :
       recording.at("stream").at("shapes").items()) {
    spec.shapes.push_back({parameter, shape.get<std::vector<int64_t>>()});
    optimizer.parameters.push_back(parameter);
  }
  spec.optimizers = {optimizer};
  Tally tally;
  for (auto [device, name] :
       {std::pair(TrainingStep::Device::Oracle, "the oracle"),
        std::pair(TrainingStep::Device::Cpu, "the CPU")}) {
    llvm::Expected<std::unique_ptr<TrainingStep>> step =
        TrainingStep::compile(spec, device);
    if (!step)
      return step.takeError();
    if (llvm::Error error =
            OptimizerReplay(recording, spec, **step, name, tally).replay())
      return error;
  }
  return tally;
}
