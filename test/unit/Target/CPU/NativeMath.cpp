//===- NativeMath.cpp - host build of CUDA's math functions ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Separate from the tests, because the prelude declares short names.
//
//===----------------------------------------------------------------------===//

#include "NativeMath.h"

#include "Target/CUDA/Prelude/Prelude.h"

std::vector<mpc::NativeFunction> mpc::nativeFunctions() {
#define MPC_ENTRY(name)                                                        \
  {#name, [](float x) { return mpc::name(x); },                                \
   [](double x) { return mpc::name(x); }},
  return {MPC_MATH_1(MPC_ENTRY)};
#undef MPC_ENTRY
}

std::vector<mpc::NativeFunction2> mpc::nativeFunctions2() {
#define MPC_ENTRY(name)                                                        \
  {#name, [](float x, float y) { return mpc::name(x, y); },                    \
   [](double x, double y) { return mpc::name(x, y); }},
  return {MPC_MATH_2(MPC_ENTRY)};
#undef MPC_ENTRY
}
