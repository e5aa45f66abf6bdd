//===- FuzzOnnx.cpp - ONNX model importer ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FuzzTarget.h"

#include "mpc/Import/ONNX.h"

using namespace mpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  fuzz::Messages messages(context);
  OnnxImportOptions options;
  // Merely large inputs are rejected early, to keep the fuzzer fast.
  options.maxFoldBytes = int64_t(1) << 20;
  options.maxTensorBytes = int64_t(1) << 26;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      importOnnxBytes({reinterpret_cast<const char *>(data), size}, "fuzz.onnx",
                      /*modelFolder=*/"", options, &context);
  messages.check(module.get());
  return 0;
}
