//===- FuzzText.cpp - models in text, of mpc's ops or of StableHLO --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FuzzTarget.h"

#include "JIT/Compiler.h"

#include "mpc/Import/StableHLO.h"

using namespace mpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::DialectRegistry registry;
  registry.insert<MpcDialect, mlir::func::FuncDialect>();
  registerStablehloDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MpcDialect, mlir::func::FuncDialect>();
  fuzz::Messages messages(context);
  Result<Compiler::Module> module = importMlir(
      {reinterpret_cast<const char *>(data), size}, "fuzz.mlir", context);
  bool explained = !module.ok() && !module.status().text().empty();
  messages.check(module.ok() ? module->get() : mlir::ModuleOp(), explained);
  return 0;
}
