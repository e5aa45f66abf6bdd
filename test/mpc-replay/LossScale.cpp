//===- LossScale.cpp - recorded loss scalers ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Feeds the recorded scaled gradients to a compiled step. Scale, counters and
// step counts carry over from step to step; parameters and optimizer states
// start each step with the recorded values.
//
//===----------------------------------------------------------------------===//

#include "Bits.h"
#include "Scalers.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

using namespace mpc::replay;

/// How far a parameter or a state may be from the recording, in ulp of the
/// tensor's largest element.
static constexpr double kUpdateUlps = 2;

namespace {

std::vector<double> bitsOf(const Json &row, const char *field) {
  return fromBits(row.at(field).get<std::string>());
}

/// Steps of one recording on one device.
class ScalerReplay {
public:
  ScalerReplay(const Json &recording, const ScalerRun &run, TrainingStep &step,
               const std::string &device, Tally &tally)
      : recording(recording), run(run), step(step), device(device),
        tally(tally), values(step.initial()) {
    for (const auto &[parameter, bits] :
         recording.at("initial_parameters").items())
      values[parameter] = fromBits(bits);
  }

  llvm::Error replay() {
    for (const Json &row : recording.at("steps"))
      if (llvm::Error error = replayStep(row))
        return error;
    return llvm::Error::success();
  }

private:
  llvm::Error replayStep(const Json &row) {
    for (const auto &[parameter, bits] : row.at("scaled_gradients").items())
      values[parameter + ".scaled_gradient"] = fromBits(bits);
    if (run.spec.probes) {
      values["loss"] = bitsOf(row, "loss");
      for (const auto &[parameter, shape] : run.spec.shapes)
        values[parameter + ".unscaled"].assign(
            values[parameter + ".scaled_gradient"].size(), -0.0);
    }
    double scaleBefore = scaleOf(values);
    llvm::Expected<Values> after = step.run(values);
    if (!after)
      return after.takeError();

    difference.clear();
    compareScale(row, *after);
    compareVerdicts(row, *after);
    compareGradients(row, *after);
    compareUpdates(row, *after);
    std::string entry =
        llvm::formatv("step {0} on {1}", row.at("i").dump(), device);
    if (std::string why = purposeOf(row, *after, scaleBefore);
        !difference.empty() && !why.empty())
      tally.differOnPurpose(why);
    else
      tally.note(entry, difference);
    carryOver(row, *after);
    return llvm::Error::success();
  }

  void differ(const std::string &text) {
    if (difference.empty())
      difference = text;
  }
  void expect(const std::string &what, const std::vector<double> &found,
              const std::vector<double> &recorded) {
    if (!isSame(found, recorded))
      differ(what + " is " + show(found) + ", recorded " + show(recorded));
  }

  /// The scale in a step's arguments or results; a fixed one is not state.
  double scaleOf(const Values &from) const {
    auto scale = from.find("loss_scale.scale");
    return scale == from.end() ? std::numeric_limits<double>::quiet_NaN()
                               : scale->second.at(0);
  }

  void compareScale(const Json &row, const Values &after) {
    if (run.spec.probes && row.contains("scaled_loss"))
      expect("the scaled loss", after.at("scaled_loss"),
             bitsOf(row, "scaled_loss"));
    if (auto scale = after.find("loss_scale.scale"); scale != after.end())
      expect("the scale", scale->second, bitsOf(row, "scale_after"));
    else if (row.at("scale_after") != row.at("scale_before"))
      differ("the recorded scale changes");
    auto counter = after.find("loss_scale.good_steps");
    if (row.at("counter_after").is_null() != (counter == after.end()))
      differ("only one of the two has a counter of good steps");
    else if (counter != after.end())
      expect("the counter", counter->second,
             {row.at("counter_after").get<double>()});
  }

  /// Returns true if the optimizer's update was applied, according to its step
  /// counter or, in systems that count them, to the skipped steps.
  bool isApplied(size_t optimizer, const Values &after) const {
    if (run.system == ScalerRun::System::TfKeras) {
      auto skipped = after.find("loss_scale.skipped_steps");
      return skipped == after.end() ||
             skipped->second == values.at("loss_scale.skipped_steps");
    }
    std::string name = stepName(run.spec, optimizer);
    return after.at(name) != values.at(name);
  }

  void compareVerdicts(const Json &row, const Values &after) {
    const auto &optimizers = run.spec.optimizers;
    const Json &steps = row.at("optimizer_steps");
    for (size_t i = 0; i < optimizers.size(); ++i) {
      bool applied = isApplied(i, after);
      if (row.contains("found_inf")) {
        Json found = row.at("found_inf");
        if (found.is_object())
          found = found.at(optimizers[i].parameters.front());
        if (found.get<bool>() == applied)
          differ(applied ? "the step is taken" : "the step is skipped");
      }
      std::vector<double> count = after.at(stepName(run.spec, i));
      if (steps.contains("iterations"))
        expect("the step count", count, {steps.at("iterations").get<double>()});
      else if (optimizers[i].op == "adam")
        expect("the step count", count,
               {steps.at("state_step").is_null()
                    ? 0
                    : steps.at("state_step").get<double>()});
    }
    bool changed = false;
    for (const auto &[parameter, shape] : run.spec.shapes)
      changed |= !isSame(after.at(parameter), values.at(parameter));
    if (changed != row.at("changed").get<bool>())
      differ(changed ? "a parameter changes" : "no parameter changes");
  }

  /// Gradients without scale, where the update saw them and nothing clipped.
  void compareGradients(const Json &row, const Values &after) {
    const char *field = row.contains("unscaled_gradients")
                            ? "unscaled_gradients"
                            : "gradients_after_step";
    if (!run.spec.probes || run.clips || !row.contains(field) ||
        row.at(field).is_null())
      return;
    for (size_t i = 0; i < run.spec.optimizers.size(); ++i)
      if (isApplied(i, after))
        for (const std::string &parameter : run.spec.optimizers[i].parameters)
          expect("the unscaled gradient of " + parameter,
                 after.at(parameter + ".unscaled"),
                 fromBits(row.at(field).at(parameter)));
  }

  void compareUpdates(const Json &row, const Values &after) {
    for (const auto &[parameter, bits] : row.at("parameters").items())
      compareUpdate(parameter, fromBits(bits), after);
    for (const auto &[name, recorded] : run.stateNames) {
      const Json &state = row.at("state");
      if (state.contains(recorded) && !state.at(recorded).is_null())
        compareUpdate(name, fromBits(state.at(recorded)), after);
    }
  }

  void compareUpdate(const std::string &name,
                     const std::vector<double> &recorded, const Values &after) {
    const std::vector<double> &found = after.at(name);
    double apart = ulpsApart(found, recorded, run.spec.type);
    if (!(apart <= kUpdateUlps))
      differ(llvm::formatv("{0} is {1} ulp of its largest element off: {2}, "
                           "recorded {3}",
                           name, apart, show(found), show(recorded)));
  }

  /// Reason for an intentional difference of mpc from the recording; empty if
  /// there is none.
  std::string purposeOf(const Json &row, const Values &after,
                        double scaleBefore) const {
    double smallest = std::numeric_limits<float>::min();
    double scaleAfter = scaleOf(after);
    auto isSubnormal = [&](double value) {
      return value != 0 && std::abs(value) < smallest;
    };
    if (run.flushes && (isSubnormal(scaleBefore) || isSubnormal(scaleAfter)))
      return "the recorded system turns a subnormal scale into 0";
    if (run.flushes && isSubnormal(1 / scaleBefore))
      return "the recorded system turns a subnormal inverse scale into 0";
    if (run.fused && (uninitialised || showsUnwritten(row, after)))
      return "the recorded momentum is memory that nobody wrote";
    return "";
  }

  /// Whether the recording has a momentum though no step was taken yet.
  bool showsUnwritten(const Json &row, const Values &after) const {
    for (size_t i = 0; i < run.spec.optimizers.size(); ++i)
      if (after.at(stepName(run.spec, i)) != std::vector<double>{0})
        return false;
    for (const auto &[name, recorded] : run.stateNames)
      if (name.ends_with(".momentum") && row.at("state").contains(recorded) &&
          !row.at("state").at(recorded).is_null())
        return true;
    return false;
  }

  /// Replaces parameters and states by the recorded ones, and keeps the other
  /// results of the step.
  void carryOver(const Json &row, const Values &after) {
    for (const auto &[name, value] : after)
      if (values.contains(name))
        values[name] = value;
    for (const auto &[parameter, bits] : row.at("parameters").items())
      values[parameter] = fromBits(bits);
    for (const auto &[name, recorded] : run.stateNames)
      if (const Json &state = row.at("state");
          state.contains(recorded) && !state.at(recorded).is_null())
        values[name] = fromBits(state.at(recorded));
    uninitialised = showsUnwritten(row, after);
  }

  const Json &recording;
  const ScalerRun &run;
  TrainingStep &step;
  const std::string device;
  Tally &tally;
  /// Initial values of the next step.
  Values values;
  std::string difference;
  /// Whether the momentum that the step starts from was never written.
  bool uninitialised = false;
};

/// A long run of a scaler as it is by default, of which the steps at which
/// something changed were recorded.
class TraceReplay {
public:
  TraceReplay(const Json &recording, const ScalerRun &run, TrainingStep &step,
              const std::string &device, Tally &tally)
      : recording(recording), run(run), step(step), device(device),
        tally(tally), values(step.initial()) {
    for (const auto &[parameter, shape] : run.spec.shapes)
      values[parameter].assign(shape.front(), 1.0);
  }

  llvm::Error replay() {
    const Json &events = recording.at("events");
    size_t next = 0;
    int64_t i = 0;
    for (const Json &run : recording.at("pattern_runs"))
      for (int64_t count = run.at(1); count > 0; --count, ++i) {
        double scale = values.at("loss_scale.scale").at(0);
        if (llvm::Error error = takeStep(run.at(0).get<std::string>()[0]))
          return error;
        bool isEvent = next < events.size() && events[next].at("i") == i;
        std::string entry = llvm::formatv("step {0} on {1}", i, device);
        if (isEvent)
          tally.note(entry, compare(events[next++], scale));
        else
          tally.note(entry, isSame(values.at("loss_scale.scale"), {scale})
                                ? ""
                                : "the scale changes, and did not");
      }
    return llvm::Error::success();
  }

private:
  llvm::Error takeStep(char letter) {
    float scale = float(values.at("loss_scale.scale").at(0));
    for (const auto &[parameter, shape] : run.spec.shapes) {
      std::vector<double> &gradient = values[parameter + ".scaled_gradient"];
      gradient.assign(shape.front(), double(0x1p-20f * scale));
      if (letter != 'f' && parameter == "b")
        gradient.at(1) = letter == 'n'   ? NAN
                         : letter == 'i' ? INFINITY
                                         : -INFINITY;
    }
    llvm::Expected<Values> after = step.run(values);
    if (!after)
      return after.takeError();
    for (const auto &[name, value] : *after)
      if (values.contains(name))
        values[name] = value;
    return llvm::Error::success();
  }

  std::string compare(const Json &event, double scaleBefore) const {
    auto different = [](const std::string &what, std::vector<double> found,
                        std::vector<double> recorded) -> std::string {
      return isSame(found, recorded)
                 ? ""
                 : what + " is " + show(found) + ", recorded " + show(recorded);
    };
    std::string text = different("the scale before", {scaleBefore},
                                 bitsOf(event, "scale_before"));
    if (text.empty())
      text = different("the scale", values.at("loss_scale.scale"),
                       bitsOf(event, "scale_after"));
    if (text.empty())
      text = different("the counter", values.at("loss_scale.good_steps"),
                       {event.at("counter_after").get<double>()});
    const Json &steps = event.at("optimizer_steps");
    const char *field = steps.contains("iterations") ? "iterations"
                        : run.spec.optimizers.front().op == "adam"
                            ? "state_step"
                            : "step_calls";
    if (text.empty())
      text = different(
          "the step count", values.at(stepName(run.spec, 0)),
          {steps.at(field).is_null() ? 0 : steps.at(field).get<double>()});
    return text;
  }

  const Json &recording;
  const ScalerRun &run;
  TrainingStep &step;
  const std::string device;
  Tally &tally;
  Values values;
};

template <typename Replay>
llvm::Expected<Tally> replayOnBoth(const Json &recording, ScalerRun run) {
  Tally tally;
  for (auto [device, name] :
       {std::pair(TrainingStep::Device::Oracle, "the oracle"),
        std::pair(TrainingStep::Device::Cpu, "the CPU")}) {
    llvm::Expected<std::unique_ptr<TrainingStep>> step =
        TrainingStep::compile(run.spec, device);
    if (!step)
      return step.takeError();
    if (llvm::Error error =
            Replay(recording, run, **step, name, tally).replay())
      return error;
  }
  return tally;
}

} // namespace

llvm::Expected<Tally> mpc::replay::replayLossScale(const Json &recording,
                                                   mlir::MLIRContext &) {
  return replayOnBoth<ScalerReplay>(recording, readScalerRun(recording));
}

llvm::Expected<Tally> mpc::replay::replayLossScaleTrace(const Json &recording,
                                                        mlir::MLIRContext &) {
  ScalerRun run = readScalerRun(recording);
  run.spec.probes = false;
  return replayOnBoth<TraceReplay>(recording, std::move(run));
}
