//===- Gradients.cpp - host access to gradients ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainerImpl.h"

#include "mpc/Support/StepNames.h"

#include "llvm/ADT/APFloat.h"

#include <cstring>

using namespace mpc;
using namespace mpc::training;

//===----------------------------------------------------------------------===//
// Types
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
                                 const TensorType &type) {
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

//===----------------------------------------------------------------------===//
// Reading and replacing
//===----------------------------------------------------------------------===//

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
    TensorType wanted = entry->value.type;
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
