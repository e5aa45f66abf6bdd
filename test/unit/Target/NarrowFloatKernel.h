//===- NarrowFloatKernel.h - kernels that convert narrow floats -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For the tests of each backend.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_NARROWFLOATKERNEL_H
#define MPC_TEST_UNIT_TARGET_NARROWFLOATKERNEL_H

#include "KernelText.h"

#include "mpc/Reference/Interpreter.h"
#include "mpc/Support/NarrowFloat.h"

#include <random>

namespace mpc {

/// A format and its MLIR type.
struct NamedFormat {
  const char *name;
  const NarrowFloat *format;
};
inline const NamedFormat kNarrowFormats[] = {
    {"f8E4M3FN", &kFloat8E4M3FN},     {"f8E5M2", &kFloat8E5M2},
    {"f8E4M3FNUZ", &kFloat8E4M3FNUZ}, {"f8E5M2FNUZ", &kFloat8E5M2FNUZ},
    {"f8E8M0FNU", &kFloat8E8M0FNU},   {"f6E2M3FN", &kFloat6E2M3FN},
    {"f6E3M2FN", &kFloat6E3M2FN},     {"f4E2M1FN", &kFloat4E2M1FN}};

/// A kernel that encodes floats of type $T in every mode and decodes codes.
inline std::string narrowFloatKernel(const NamedFormat &named) {
  std::string head = "format(" + std::string(named.name) + ")";
  // E8M0's range exceeds f16's.
  bool isPower = !named.format->hasZero();
  std::vector<std::string> codes = {
      "encode_float %x " + head, "encode_float %x " + head + " saturate",
      "encode_float %s " + head + " random(%r : tensor<7x143xi32>)",
      "encode_float %s " + head + " saturate random(%r : tensor<7x143xi32>)"};
  if (isPower)
    for (const char *mode : {" rounding(down)", " rounding(up)"})
      codes.push_back("encode_float %x " + head + mode);
  std::string body, types, values;
  for (size_t i = 0; i < codes.size(); ++i) {
    const std::string &op = codes[i];
    std::string id = "%c" + std::to_string(i);
    std::string from = op.find("%s") == std::string::npos ? "$T" : "f32";
    body += id + " = mpc." + op + " : tensor<7x143x" + from +
            "> to tensor<7x143xui8>\n";
    types += "tensor<7x143xui8>, ";
    values += id + ", ";
  }
  std::string result = std::string("tensor<7x143x") + (isPower ? "f32" : "$T");
  body += "%y = mpc.decode_float %c " + head + " : tensor<7x143xui8> to " +
          result + ">\nreturn " + values + "%y : " + types + result + ">";
  return loopKernel("%x: tensor<7x143x$T>, %c: tensor<7x143xui8>, "
                    "%r: tensor<7x143xi32>, %s: tensor<7x143xf32>",
                    types + result + ">", body);
}

/// Fills a tensor with every code, with random words, or with numbers of every
/// exponent, many of them halfway between two of `format`, and special values.
inline void fillForFormat(const NarrowFloat &format,
                          reference::Tensor &tensor) {
  std::mt19937 engine(7);
  bool areCodes = tensor.getElementType().isUnsignedInteger(8);
  for (auto [i, value] : llvm::enumerate(tensor.ints()))
    value = areCodes ? int64_t(i % 256) : int64_t(int32_t(engine()));
  const double special[] = {0,   INFINITY,       1e30, 0x1p-127, 0x1.8p-127,
                            NAN, 0x1.fffffep127, 1e99, 0x1p-149};
  for (auto [i, value] : llvm::enumerate(tensor.floats())) {
    unsigned code = engine() % format.largestCode();
    double low = format.magnitudeOf(code), high = format.magnitudeOf(code + 1);
    double magnitude = i % 3 == 0
                           ? low + (high - low) * double(engine() % 8) / 8
                           : std::ldexp(1 + double(engine()) * 0x1p-32,
                                        int(engine() % 300) - 150);
    if (i % 11 == 0)
      magnitude = special[i / 11 % std::size(special)];
    // GPUs lose the sign of NaN when they convert f16.
    bool isPositive = i % 2 || std::isnan(magnitude);
    value = reference::roundTo(isPositive ? magnitude : -magnitude,
                               tensor.getElementType());
  }
}

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_NARROWFLOATKERNEL_H
