//===- Packing.h - unpack packed constants ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_REFERENCE_PACKING_H
#define MPC_LIB_REFERENCE_PACKING_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc::reference {

/// Returns the panel column stored in `lane` of a packed row.
int64_t packedColumn(int64_t lane, PackedAttr packed);

/// Unpacks panels of depth `depth` in runs of `run`, as described by
/// `#mpc.packed`, into a row-major `[depth][columns]` matrix. For double and
/// int64_t.
template <typename T>
void unpackPanels(llvm::ArrayRef<T> panels, int64_t depth, int64_t run,
                  int64_t columns, PackedAttr packed,
                  llvm::MutableArrayRef<T> result);

} // namespace mpc::reference

#endif // MPC_LIB_REFERENCE_PACKING_H
