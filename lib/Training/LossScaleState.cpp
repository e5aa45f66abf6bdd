//===- LossScaleState.cpp - host access to the loss scale -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and sets the loss-scale state of a trainer.
//
//===----------------------------------------------------------------------===//

#include "TrainerImpl.h"

#include "ElementConversion.h"

#include <algorithm>
#include <cstdio>

using namespace mpc;
using namespace mpc::training;

LossScalePreset Trainer::Impl::lossScalePreset() const {
  std::string text = options.training->lossScale, why;
  // Without a preset the policy selects one; the compiled step shows which.
  if (text.empty())
    text = lossScaleField("scale") ? "dynamic" : "none";
  return LossScalePreset::parse(text, why).value_or(LossScalePreset());
}

const SharedProgramState::Entry *
Trainer::Impl::lossScaleField(const std::string &field) const {
  for (const SharedProgramState::Entry &entry : state.entries())
    if (entry.kept && entry.value.role == "loss_scale_state" &&
        entry.value.field == field)
      return &entry;
  return nullptr;
}

Result<LossScaleReport> Trainer::lossScale() const {
  LossScaleReport report;
  if (LossScalePreset preset = impl->lossScalePreset();
      preset.scales() && !preset.isDynamic())
    report.scale = preset.init;
  for (const SharedProgramState::Entry &entry : impl->state.entries()) {
    if (entry.value.role != "loss_scale_state" || !entry.kept)
      continue;
    Result<Buffer> host = impl->state.toHost(entry.buffer);
    if (!host.ok())
      return host.status();
    std::vector<double> numbers;
    readElements(*host, 0, host->size(),
                 [&](double value) { numbers.push_back(value); });
    const std::string &field = entry.value.field;
    if (numbers.empty())
      continue;
    if (field == "scale")
      report.scale = numbers[0];
    else if (field == "skipped_steps")
      report.skippedSteps = int64_t(numbers[0]);
    else if (field == "overflow" && numbers.size() == 2 && numbers[1] > 0) {
      // The parts of a step order gradients differently.
      std::vector<std::string> labels = entry.value.labels;
      if (impl->recorder)
        for (const ProgramValue &value : impl->recorder->program().arguments)
          if (value.name == entry.value.name)
            labels = value.labels;
      size_t at = size_t(numbers[0]);
      report.overflowed = numbers[0] >= 0 && at < labels.size()
                              ? labels[at]
                              : "gradient " + std::to_string(int64_t(at));
      report.overflowedTensors = int64_t(numbers[1]);
    }
  }
  return report;
}

//===----------------------------------------------------------------------===//
// Other systems' names
//===----------------------------------------------------------------------===//

namespace {

/// A number of a loss scale's state and its storage.
struct ScaleNumber {
  LossScaleNames names;
  const char *name;
  /// Field of the state; null for a constant of the preset.
  const char *field;
  double (*ofPreset)(const LossScalePreset &);
};

} // namespace

static constexpr ScaleNumber kNumbers[] = {
    {LossScaleNames::Torch, "scale", "scale", nullptr},
    {LossScaleNames::Torch, "growth_factor", nullptr,
     [](const LossScalePreset &preset) { return preset.growth; }},
    {LossScaleNames::Torch, "backoff_factor", nullptr,
     [](const LossScalePreset &preset) { return preset.backoff; }},
    {LossScaleNames::Torch, "growth_interval", nullptr,
     [](const LossScalePreset &preset) { return double(preset.interval); }},
    {LossScaleNames::Torch, "_growth_tracker", "good_steps", nullptr},
    {LossScaleNames::Keras3, "step_counter", "good_steps", nullptr},
    {LossScaleNames::Keras3, "dynamic_scale", "scale", nullptr},
    {LossScaleNames::TfKeras, "current_loss_scale", "scale", nullptr},
    {LossScaleNames::TfKeras, "good_steps", "good_steps", nullptr},
};

Result<std::vector<NamedNumber>>
Trainer::lossScaleState(LossScaleNames names) const {
  std::vector<NamedNumber> numbers;
  LossScalePreset preset = impl->lossScalePreset();
  if (!preset.isDynamic())
    return numbers;
  for (const ScaleNumber &number : kNumbers) {
    if (number.names != names)
      continue;
    if (!number.field) {
      numbers.push_back({number.name, number.ofPreset(preset)});
      continue;
    }
    const SharedProgramState::Entry *entry = impl->lossScaleField(number.field);
    if (!entry)
      return Status(StatusCode::Internal, "loss scale",
                    std::string("keeps no ") + number.field);
    Result<Buffer> host = impl->state.toHost(entry->buffer);
    if (!host.ok())
      return host.status();
    numbers.push_back({number.name, scalarOf(*host)});
  }
  return numbers;
}

/// Formats a number for a message.
static std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

/// Returns true if `value` is valid for the scale or a counter.
static bool fits(const ScaleNumber &number, const LossScalePreset &preset,
                 double value) {
  if (std::string_view(number.field) == "scale")
    return value > 0 && std::isfinite(float(value)) && float(value) > 0;
  return value >= 0 && value < double(preset.interval) &&
         value == std::floor(value);
}

Status Trainer::setLossScaleState(std::span<const NamedNumber> numbers) {
  auto bad = [](const std::string &name, const std::string &text) {
    return Status(StatusCode::InvalidArgument, "loss scale, '" + name + "'",
                  text);
  };
  LossScalePreset preset = impl->lossScalePreset();
  std::vector<std::pair<const SharedProgramState::Entry *, Buffer>> changes;
  for (const NamedNumber &given : numbers) {
    auto known = std::find_if(
        std::begin(kNumbers), std::end(kNumbers),
        [&](const ScaleNumber &number) { return given.name == number.name; });
    if (known == std::end(kNumbers))
      return bad(given.name, "is not a state name of torch, Keras or tf_keras");
    if (!preset.isDynamic())
      return bad(given.name,
                 "cannot be set: the loss scale of this training, '" +
                     preset.name + "', does not change");
    if (!known->field) {
      if (double wanted = known->ofPreset(preset); given.value != wanted)
        return bad(given.name,
                   "is " + numberText(wanted) +
                       " in the compiled step and cannot be changed to " +
                       numberText(given.value) +
                       "; set it by TrainingOptions::lossScale");
      continue;
    }
    if (!fits(*known, preset, given.value))
      return bad(given.name, "cannot be " + numberText(given.value));
    const SharedProgramState::Entry *entry = impl->lossScaleField(known->field);
    if (!entry)
      return Status(StatusCode::Internal, "loss scale",
                    std::string("keeps no ") + known->field);
    Result<Buffer> bytes = Buffer::allocate(entry->value.type);
    if (!bytes.ok())
      return bytes.status();
    if (entry->value.type.element == ElementType::F32)
      bytes->as<float>()[0] = float(given.value);
    else
      bytes->as<int32_t>()[0] = int32_t(given.value);
    changes.emplace_back(entry, std::move(*bytes));
  }
  for (const auto &[entry, bytes] : changes)
    if (Status status = impl->state.assign(*entry, bytes); !status.ok())
      return status;
  return {};
}
