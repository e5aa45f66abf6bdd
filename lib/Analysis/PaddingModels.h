//===- PaddingModels.h - registration of padding models ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_PADDINGMODELS_H
#define MPC_LIB_ANALYSIS_PADDINGMODELS_H

#include "mpc/Analysis/PaddingAxes.h"

namespace mpc {

/// Attaches the padding models of contractions (PaddingContractions.cpp).
void attachContractionPadding(mlir::MLIRContext &context);

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_PADDINGMODELS_H
