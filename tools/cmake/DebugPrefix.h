//===- DebugPrefix.h - LLVM's statistics in debug builds --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Included first in each file of preset debug. Without NDEBUG pass statistics
// would have another layout than in the packaged libraries of LLVM. The runtime
// is compiled without LLVM.
//
//===----------------------------------------------------------------------===//

#if __has_include("llvm/ADT/Statistic.h")
#define NDEBUG
#include "llvm/ADT/Statistic.h"
#undef NDEBUG
#endif
