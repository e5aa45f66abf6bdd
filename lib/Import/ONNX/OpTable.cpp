//===- OpTable.cpp - table of supported operators -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeImport.h"

#include "mpc/Import/ONNX.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

OpEntry::OpEntry(StringRef signature, Converter convert) : convert(convert) {
  StringRef rest, inputs;
  std::tie(name, rest) = signature.split(' ');
  std::tie(rest, inputs) = rest.split(' ');
  std::tie(inputs, attributes) = inputs.split(' ');
  for (StringRef version : llvm::split(rest, ','))
    llvm::to_integer(version, versions.emplace_back());
  bool isOpen = inputs.consume_back("+");
  auto [least, most] = inputs.split('-');
  llvm::to_integer(least, minInputs);
  maxInputs = isOpen ? -1 : minInputs;
  if (!most.empty())
    llvm::to_integer(most, maxInputs);
}

const OpEntry *mpc::onnx::findOp(StringRef domain, StringRef name) {
  static const llvm::StringMap<const OpEntry *> table = [] {
    llvm::StringMap<const OpEntry *> entries;
    for (OpFamily family : {elementwiseOps(),
                            activationOps(),
                            comparisonOps(),
                            matmulOps(),
                            einsumOps(),
                            convolutionOps(),
                            poolingOps(),
                            normalizationOps(),
                            softmaxOps(),
                            reductionOps(),
                            shapeOps(),
                            movementOps(),
                            indexingOps(),
                            generatorOps(),
                            resizeOps(),
                            recurrentOps(),
                            attentionOps(),
                            lossOps(),
                            quantizationOps(),
                            sequenceOps(),
                            controlOps(),
                            optimizerOps(),
                            gridSampleOps(),
                            signalOps(),
                            linearAttentionOps(),
                            selectionOps(),
                            microsoftOps(),
                            quantizedRecurrentOps(),
                            microsoftAttentionOps(),
                            groupQueryAttentionOps(),
                            rotaryEmbeddingOps(),
                            bitCastOps(),
                            roiAlignOps(),
                            deformConvOps(),
                            detOps(),
                            randomOps()})
      for (const OpEntry &entry : family)
        entries[entry.name] = &entry;
    return entries;
  }();
  if (domain.empty())
    return table.lookup(name);
  return table.lookup((domain + ":" + name).str());
}

bool mpc::isOnnxOpKnown(StringRef domain, StringRef op) {
  return findOp(domain, op) != nullptr;
}
