//===- LaunchCost.cpp - roofline model of a launch ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchCost.h"

#include "InstrumentOps.h"

#include "mpc/Analysis/OpTypes.h"

#include <algorithm>
#include <map>

using namespace mpc;
using namespace mpc::tool;

llvm::StringMap<MathType> tool::multipliedTypes(mlir::func::FuncOp function) {
  static const std::map<std::string, MathType> types = {
      {"f64", MathType::Float64},     {"tf32", MathType::TensorFloat32},
      {"bf16", MathType::BFloat16},   {"bf16x2", MathType::BFloat16},
      {"bf16x3", MathType::BFloat16}, {"f16", MathType::Float16},
      {"f8E4M3FN", MathType::Float8}, {"f8E5M2", MathType::Float8},
      {"i8", MathType::Int8}};
  llvm::StringMap<MathType> multiplied;
  for (mlir::Operation &op : function.getBody().front())
    if (op.getNumResults() && accumulateTypeName(&op))
      if (auto found = types.find(computeTypeName(&op)); found != types.end())
        multiplied.try_emplace(opName(&op), found->second);
  return multiplied;
}

double tool::modelledSeconds(const Launch &launch, const TargetInfo &target,
                             const llvm::StringMap<MathType> &multiplied) {
  MathType type = MathType::Float32;
  for (const std::string &op : launch.ops)
    if (auto found = multiplied.find(op); found != multiplied.end()) {
      type = found->second;
      break;
    }
  return target.launchSeconds() +
         std::max(double(launch.flops) /
                      target.flopsPerSecond(type, /*aligned=*/true),
                  double(launch.bytes) / target.bytesPerSecond());
}
