//===- MultiCall.cpp - several programs in one file -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The multi-call program of the Python package: mpc, mpc-opt, mpc-translate and
// ld.lld share one copy of LLVM. The name in argv[0] selects the program, as in
// LLVM's own multi-call driver.
//
//===----------------------------------------------------------------------===//

#include "lld/Common/Driver.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

// The programs' main functions under other names.
int mpcMain(int argc, char **argv);
int mpcOptMain(int argc, char **argv);
int mpcTranslateMain(int argc, char **argv);

// ld.lld initializes all of LLVM's targets for link-time optimization, which
// kernels do not use. Without these definitions all targets would be linked.
#define TARGET(Name)                                                           \
  extern "C" void LLVMInitialize##Name##TargetInfo() {}                        \
  extern "C" void LLVMInitialize##Name##Target() {}                            \
  extern "C" void LLVMInitialize##Name##TargetMC() {}                          \
  extern "C" void LLVMInitialize##Name##AsmPrinter() {}                        \
  extern "C" void LLVMInitialize##Name##AsmParser() {}
#include "UnlinkedTargets.inc"

/// The same for Polly.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Polly", LLVM_VERSION_STRING};
}

static int linkerMain(llvm::ArrayRef<const char *> words) {
  return lld::lldMain(words, llvm::outs(), llvm::errs(),
                      {{lld::Gnu, &lld::elf::link}})
      .retCode;
}

int main(int argc, char **argv) {
  llvm::StringRef name = argc ? llvm::sys::path::filename(argv[0]) : "";
  if (name == "mpc-opt")
    return mpcOptMain(argc, argv);
  if (name == "mpc-translate")
    return mpcTranslateMain(argc, argv);
  if (name == "ld.lld")
    return linkerMain(llvm::ArrayRef<const char *>(argv, size_t(argc)));
  return mpcMain(argc, argv);
}
