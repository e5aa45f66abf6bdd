//===- PooledErrors.cpp - Errors pooled over several draws ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CaseChecks.h"

#include "Reporter.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using namespace mpc::smith;

/// Draws of the inputs to pool: a few, and if those fail, enough for outputs
/// whose error comes from the rounding of one scalar.
static constexpr uint64_t kFewDraws = 6, kManyDraws = 16;

bool smith::hasMismatch(const std::vector<PooledError> &rows) {
  return llvm::any_of(
      rows, [](const PooledError &row) { return row.mismatches > 0; });
}

/// Whether the squared error exceeds the squared tolerance.
static bool isOver(const PooledError &row) {
  return !(row.error <= row.tolerance);
}

void smith::addDraws(std::vector<PooledError> &rows,
                     const std::vector<PooledError> &more) {
  for (size_t i = 0; i < std::min(rows.size(), more.size()); ++i) {
    rows[i].error += more[i].error;
    rows[i].tolerance += more[i].tolerance;
    rows[i].mismatches += more[i].mismatches;
    rows[i].draws += more[i].draws;
    rows[i].over += isOver(more[i]);
  }
}

std::vector<Finding>
smith::overTolerance(const std::vector<PooledError> &rows) {
  std::vector<Finding> findings;
  for (const PooledError &row : rows) {
    if (row.mismatches > 0)
      findings.push_back({row.step,
                          "'" + row.name + "' differs in " +
                              std::to_string(row.mismatches) +
                              " elements that may not",
                          /*notFinite=*/row.isFloat});
    else if (isOver(row) && 2 * row.over >= row.draws)
      findings.push_back(
          {row.step, "'" + row.name + "' has error " +
                         tool::shortNumber(std::sqrt(row.error)) + " over " +
                         tool::shortNumber(std::sqrt(row.tolerance))});
  }
  return findings;
}

std::vector<Finding> smith::checkOverSeeds(
    uint64_t seed,
    const std::function<std::vector<PooledError>(uint64_t)> &measure) {
  std::vector<PooledError> rows = measure(seed);
  for (PooledError &row : rows)
    row.over = isOver(row);
  std::vector<Finding> findings = overTolerance(rows);
  uint64_t draw = 1;
  for (uint64_t draws : {kFewDraws, kManyDraws}) {
    if (findings.empty() || hasMismatch(rows))
      return findings;
    for (; draw < draws; ++draw)
      addDraws(rows, measure(seed + 1000 * draw));
    findings = overTolerance(rows);
  }
  return findings;
}
