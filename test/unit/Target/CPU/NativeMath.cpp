//===- NativeMath.cpp - the functions as kernels in CUDA have them --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Apart from the tests: the prelude's names are short ones.
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
