//===- TileOps.h - the tile dialect -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_TILE_IR_TILEOPS_H
#define MPC_DIALECT_TILE_IR_TILEOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mpc/Dialect/Tile/IR/TileDialect.h.inc"
#include "mpc/Dialect/Tile/IR/TileEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "mpc/Dialect/Tile/IR/TileTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "mpc/Dialect/Tile/IR/TileAttributes.h.inc"

#define GET_OP_CLASSES
#include "mpc/Dialect/Tile/IR/TileOps.h.inc"

#endif // MPC_DIALECT_TILE_IR_TILEOPS_H
