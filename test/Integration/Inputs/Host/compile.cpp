//===- compile.cpp - a program that compiles into a file ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: compile MODEL FILE.mpcx
//
//===----------------------------------------------------------------------===//

#include <mpc/JIT/CompileFile.h>

#include <cstdio>

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  mpc::CompileOptions options;
  options.policy = "mixed_bfloat16";
  mpc::Result<mpc::CompiledFile> file =
      mpc::compileToFile(argv[1], argv[2], {"cpu:avx2", "cpu:avx512"}, options);
  if (!file.ok()) {
    std::fprintf(stderr, "compile: %s\n", file.status().toString().c_str());
    return 1;
  }
  for (const mpc::StoredTarget &target : file->specialisations[0].targets)
    std::printf("%s: %lld kernels\n", target.name.c_str(),
                static_cast<long long>(target.kernels));
  return 0;
}
