//===- MpcPch.cpp - carries the precompiled header ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiler libraries reuse the header that this target builds.
//
//===----------------------------------------------------------------------===//
