//===- NarrowFloatTests.cpp - conversion of narrow floats -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../../NarrowFloatKernel.h"
#include "Plan/KernelBatches.h"

#include "gtest/gtest.h"

using namespace mpc;

TEST(CudaNarrowFloats, AreThoseOfTheInterpreter) {
  FamilyBatch batch("map");
  for (const NamedFormat &named : kNarrowFormats) {
    batch.check.adjust = [&named](unsigned, reference::Tensor &tensor) {
      fillForFormat(*named.format, tensor);
    };
    batch.addForTypes(kFloats, narrowFloatKernel(named));
  }
}
