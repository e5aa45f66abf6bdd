//===- OpTable.cpp - which operators the importer knows ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

const OpEntry *mpc::onnx::findOp(StringRef domain, StringRef name) {
  static const llvm::StringMap<const OpEntry *> table = [] {
    llvm::StringMap<const OpEntry *> entries;
    for (OpFamily family :
         {elementwiseOps(),  activationOps(),    comparisonOps(),
          matmulOps(),       einsumOps(),        convolutionOps(),
          poolingOps(),      normalizationOps(), softmaxOps(),
          reductionOps(),    shapeOps(),         movementOps(),
          indexingOps(),     generatorOps(),     resizeOps(),
          recurrentOps(),    attentionOps(),     lossOps(),
          quantizationOps(), sequenceOps(),      controlOps(),
          optimizerOps(),    gridSampleOps()})
      for (const OpEntry &entry : family)
        entries[entry.name] = &entry;
    return entries;
  }();
  if (domain.empty())
    return table.lookup(name);
  return table.lookup((domain + ":" + name).str());
}
