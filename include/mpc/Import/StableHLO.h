//===- StableHLO.h - import of StableHLO modules ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts a module of stablehlo ops to a module with one function `@main` of
// mpc ops. Every failure is a diagnostic at the unsupported op.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_IMPORT_STABLEHLO_H
#define MPC_IMPORT_STABLEHLO_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <string>

namespace mpc {

/// Options of an import.
struct StablehloImportOptions {
  /// Maximum number of ops after inlining calls and unrolling loops.
  int64_t maxOps = 200'000;
};

/// Registers the dialects of StableHLO modules.
void registerStablehloDialects(mlir::DialectRegistry &registry);

/// Packs hexadecimal `i1` constants that use a byte per element into bits, as
/// MLIR's parser expects. Only columns after such a constant change; locations
/// of other lines stay.
std::string packBooleans(llvm::StringRef text);

/// Returns true if a module contains ops of StableHLO or its companion
/// dialects.
bool holdsStablehlo(mlir::ModuleOp module);

/// Imports a verified module. Null after an error with diagnostics.
mlir::OwningOpRef<mlir::ModuleOp>
importStablehlo(mlir::ModuleOp source,
                const StablehloImportOptions &options = {});

} // namespace mpc

#endif // MPC_IMPORT_STABLEHLO_H
