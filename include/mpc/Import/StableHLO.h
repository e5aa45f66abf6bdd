//===- StableHLO.h - reading StableHLO modules ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A module of stablehlo ops in, a module with one function `@main` of mpc ops
// out. Every failure is a diagnostic at the op that cannot be read.
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

/// What the caller decides about a module.
struct StablehloImportOptions {
  /// Most ops that the function may have once calls and loops are written out.
  int64_t maxOps = 200'000;
};

/// Registers the dialects that a StableHLO module is made of.
void registerStablehloDialects(mlir::DialectRegistry &registry);

/// `text` with hexadecimal constants of `i1` that spend a byte on an element
/// packed into bits, as the parser wants them. Only columns behind such a
/// constant change; positions of other lines stay.
std::string packBooleans(llvm::StringRef text);

/// Whether a module holds ops of StableHLO, or of what surrounds it.
bool holdsStablehlo(mlir::ModuleOp module);

/// Imports a verified module. Null after an error, which was reported.
mlir::OwningOpRef<mlir::ModuleOp>
importStablehlo(mlir::ModuleOp source,
                const StablehloImportOptions &options = {});

} // namespace mpc

#endif // MPC_IMPORT_STABLEHLO_H
