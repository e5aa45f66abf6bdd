//===- RunChecks.cpp - run-time checks of kernels -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunChecks.h"

#include "mpc/Runtime/Finiteness.h"

#include <algorithm>

using namespace mpc;

/// Returns the error of an index or length out of range.
static Status outOfRange(const Program &program, const RunCheck &check,
                         int64_t value) {
  std::string extent = std::to_string(check.number),
              last = std::to_string(check.number - 1);
  bool isLength = check.kind == RunCheck::Kind::LengthInRange;
  std::string text =
      (isLength ? "length or position " : "index ") + std::to_string(value);
  if (check.argument >= 0)
    text +=
        " of input '" + program.arguments[size_t(check.argument)].name + "'";
  text += isLength
              ? " is out of range; it must be between 0 and " + last
              : " is outside an extent of " + extent +
                    "; indices must be between -" + extent + " and " + last;
  return Status(StatusCode::InvalidArgument,
                check.op.empty() ? program.name : check.op, std::move(text));
}

Status detail::readChecks(const Program &program, int64_t *words,
                          const RunOptions &options) {
  Status status;
  for (size_t i = 0; i < program.checks.size(); ++i) {
    if (words[i] == 0)
      continue;
    const RunCheck &check = program.checks[i];
    if (check.kind == RunCheck::Kind::FiniteResult) {
      if (options.nonFinite)
        options.nonFinite->push_back(check.number);
    } else if (status.ok()) {
      status = outOfRange(program, check, words[i]);
    }
    words[i] = 0;
  }
  if (std::vector<int64_t> *list = options.nonFinite) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return status;
}

//===----------------------------------------------------------------------===//
// Counts
//===----------------------------------------------------------------------===//

/// Counts the elements whose `exponent` bits are all set, without `exempt`
/// values.
template <typename T>
static int64_t countBits(std::span<const T> elements, T exponent,
                         uint8_t exempt) {
  auto isCounted = [&](T bits) {
    if ((bits & exponent) != exponent)
      return false;
    uint8_t kind = bits == exponent ? NonFinite::kPositiveInfinity
                   : T(bits << 1) == T(exponent << 1)
                       ? NonFinite::kNegativeInfinity
                       : NonFinite::kNan;
    return (kind & exempt) == 0;
  };
  return std::count_if(elements.begin(), elements.end(), isCounted);
}

int64_t mpc::countNonFinite(const Buffer &buffer, uint8_t exempt) {
  switch (buffer.type().element) {
  case ElementType::F16:
    return countBits<uint16_t>(buffer.as<uint16_t>(), 0x7c00, exempt);
  case ElementType::BF16:
    return countBits<uint16_t>(buffer.as<uint16_t>(), 0x7f80, exempt);
  case ElementType::F32:
    return countBits<uint32_t>(buffer.as<uint32_t>(), 0x7f800000, exempt);
  case ElementType::F64:
    return countBits<uint64_t>(buffer.as<uint64_t>(), 0x7ff0000000000000,
                               exempt);
  default:
    return 0;
  }
}

std::string NonFiniteResult::text() const {
  return "output '" + name + "' holds " + std::to_string(count) +
         " infinities or NaNs among " + std::to_string(elements) +
         " elements, although all inputs are finite; 'mpc check' names the op "
         "that overflows first, and 'mpc calibrate' writes a policy for the "
         "ranges of sample inputs";
}

std::vector<NonFiniteResult>
mpc::findNonFinite(const Program &program, std::span<const Buffer> arguments,
                   std::span<const Buffer> results,
                   std::span<const int64_t> suspects) {
  std::vector<NonFiniteResult> found;
  for (int64_t number : suspects) {
    auto check = std::ranges::find_if(program.checks, [&](const auto &check) {
      return check.kind == RunCheck::Kind::FiniteResult &&
             check.number == number;
    });
    uint8_t exempt = check == program.checks.end() ? 0 : check->exempt;
    if (int64_t count = countNonFinite(results[size_t(number)], exempt))
      found.push_back(
          {program.results[size_t(number)].name, count,
           program.results[size_t(number)].type.elementCount().value_or(0)});
  }
  auto isFinite = [](const Buffer &buffer) {
    return countNonFinite(buffer) == 0;
  };
  if (!found.empty() &&
      !std::all_of(arguments.begin(), arguments.end(), isFinite))
    return {};
  return found;
}
