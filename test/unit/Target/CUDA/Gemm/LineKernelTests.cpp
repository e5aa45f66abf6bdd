//===- LineKernelTests.cpp - GEMV with quantized weights ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every format of weights with every compute type, by few rows from registers
// and by many rows through tiles, against the interpreter.
//
//===----------------------------------------------------------------------===//

#include "CudaKernelRunner.h"

#include "gtest/gtest.h"

#include <array>
#include <cmath>

using namespace mpc;

namespace {
/// `x * dequantized(q)^T`, with its prologue and epilogue.
struct NarrowProduct {
  int64_t m, k, n;
  /// "i8", "ui8", "nibbles", "float8", "i16", "bf16" or "f16".
  std::string form;
  int64_t group = 0;
  std::string type = "f32";
  bool haveZeros = false;
  int64_t commonZero = 0;

  bool isScaled() const { return form != "bf16" && form != "f16"; }
  std::string stored() const {
    return form == "nibbles" || form == "float8" ? "ui8" : form;
  }
  /// The arguments and the weights as `%w`.
  std::string arguments() const;
  std::string weights() const;
  /// The GEMV without a prologue or epilogue.
  std::string text() const;
  /// Small numbers whose products with a scale are exact in 16 bits.
  void adjust(unsigned argument, reference::Tensor &tensor) const;
};
} // namespace

static std::string tensor(std::vector<int64_t> shape, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

std::string NarrowProduct::arguments() const {
  int64_t groups = group ? k / group : 1;
  std::string text =
      "%q: " + tensor({n, form == "nibbles" ? k / 2 : k}, stored());
  if (isScaled())
    text += ", %s: " + tensor({n, groups}, "f32");
  if (haveZeros)
    text += ", %z: " + tensor({n, groups}, "ui8");
  return text;
}

std::string NarrowProduct::weights() const {
  int64_t groups = group ? k / group : 1;
  std::string text = "  %w = mpc.dequantize %q ";
  if (form == "nibbles" || form == "float8")
    text += form + " ";
  if (isScaled())
    text += "scale(%s : " + tensor({n, groups}, "f32") + ") ";
  if (haveZeros)
    text += "zero(%z : " + tensor({n, groups}, "ui8") + ") ";
  if (commonZero)
    text += "common_zero(" + std::to_string(commonZero) + ") ";
  return text + ": " + tensor({n, form == "nibbles" ? k / 2 : k}, stored()) +
         " to " + tensor({n, k}, type) + "\n";
}

std::string NarrowProduct::text() const {
  std::string x = tensor({m, k}, type), y = tensor({m, n}, "f32");
  return "func.func private @k(" + arguments() + ", %x: " + x + ") -> " + y +
         " attributes {mpc.kernel_kind = \"contraction\"} {\n" + weights() +
         "  %0 = mpc.matmul %x, %w transpose_rhs : (" + x + ", " +
         tensor({n, k}, type) + ") -> " + y + "\n  return %0 : " + y + "\n}\n";
}

void NarrowProduct::adjust(unsigned argument, reference::Tensor &tensor) const {
  mlir::Type element = tensor.getType().getElementType();
  int64_t number = 0;
  if (auto integer = mlir::dyn_cast<mlir::IntegerType>(element)) {
    for (int64_t &value : tensor.ints()) {
      // All codes of a byte, but for those that are no number.
      number = (number * 73 + 41) % 251;
      value = number;
      if (form == "float8")
        value = number == 127 ? 128 : number;
      else if (form == "i8")
        value = number - 125;
      else if (form == "i16")
        value = 97 * (number - 125);
      if (argument == 2 && haveZeros && form == "nibbles")
        value = number % 16;
    }
    return;
  }
  if (argument == 1 && isScaled())
    for (double &value : tensor.floats())
      value = std::ldexp(1.0, int((number++) % 5) - 6);
}

static CudaKernelCheck check(const NarrowProduct &product,
                             const char *family = "lines",
                             const char *target = "sm_80") {
  CudaKernelCheck made;
  made.target = cudaTarget(target);
  made.family = family;
  made.adjust = [product](unsigned argument, reference::Tensor &tensor) {
    product.adjust(argument, tensor);
  };
  return made;
}

static const std::vector<NarrowProduct> &forms() {
  static const std::vector<NarrowProduct> all = {
      {1, 256, 40, "i8"},
      {1, 256, 40, "ui8", 0, "f32", true},
      {1, 256, 40, "ui8", 64, "f32", false, 128},
      {1, 256, 40, "nibbles", 32, "f32", false, 8},
      {1, 256, 40, "nibbles", 64, "f32", true},
      {1, 256, 40, "nibbles", 128},
      {1, 256, 40, "nibbles"},
      {1, 256, 40, "float8"},
      {1, 256, 40, "i16"},
      {1, 256, 40, "bf16"},
      {1, 256, 40, "f16"},
  };
  return all;
}

/// Returns true if numbers of `form` are representable in `type`.
static bool holds(const std::string &type, const NarrowProduct &product) {
  return type == "f32" || (product.form != "i16" && product.isScaled());
}

TEST(LineKernels, EveryFormAndType) {
  CudaKernelBatch batch;
  unsigned number = 0;
  for (const char *type : {"f32", "bf16", "f16"})
    for (NarrowProduct product : forms()) {
      if (!holds(type, product))
        continue;
      product.type = type;
      product.m = std::array<int64_t, 3>{1, 3, 8}[number++ % 3];
      batch.add(product.text(), check(product));
    }
  batch.expect();
}

/// Tensor-core or thread tiles dequantize on the way to shared
/// memory.
TEST(LineKernels, ManyRows) {
  CudaKernelBatch batch;
  for (const char *type : {"f32", "bf16", "f16"})
    for (NarrowProduct product : forms()) {
      if (!holds(type, product))
        continue;
      product.type = type;
      product.m = 33;
      batch.add(product.text(), check(product, "gemm"));
    }
  NarrowProduct wide{70, 128, 72, "nibbles", 32, "bf16", false, 8};
  batch.add(wide.text(), check(wide, "gemm", "sm_90a"));
  batch.expect();
}

/// Columns that no block divides, pieces of 8 and 4 bytes, fewer pieces than
/// lanes, many blocks.
TEST(LineKernels, OddExtents) {
  CudaKernelBatch batch;
  for (const NarrowProduct &product : {
           NarrowProduct{1, 24, 1, "i8"},
           {2, 20, 33, "i8"},
           {5, 36, 130, "ui8", 4, "bf16", true},
           {8, 48, 7, "nibbles", 16, "f16", true},
           {4, 40, 70, "nibbles", 8, "f32", false, 8},
           {1, 6, 40, "f16"},
           {7, 1056, 97, "nibbles", 32, "bf16", false, 8},
           {1, 8, 4000, "float8", 0, "bf16"},
       })
    batch.add(product.text(), check(product));
  // Rows whose size is no multiple of a word.
  NarrowProduct none{3, 21, 40, "i8"};
  batch.add(none.text(), check(none, "gemm"));
  batch.expect();
}

/// Rows that no block has shared memory for are multiplied in tiles.
TEST(LineKernels, RowsThatAreTooLong) {
  CudaKernelBatch batch;
  NarrowProduct product{8, 8192, 16, "i8", 0, "f32"};
  batch.add(product.text(), check(product, "gemm"));
  batch.expect();
}

/// A norm as prologue, and a bias, an activation and a cast as epilogue.
TEST(LineKernels, NormsAndEpilogues) {
  CudaKernelBatch batch;
  for (int64_t rows : {1, 4})
    for (const char *type : {"bf16", "f32"}) {
      NarrowProduct product{rows, 256, 72, "nibbles", 32, type, false, 8};
      std::string x = tensor({rows, 256}, "f32"), s = tensor({256}, "f32"),
                  b = tensor({72}, "f32"), y = tensor({rows, 72}, "f32"),
                  narrow = tensor({rows, 256}, type),
                  half = tensor({rows, 72}, "bf16");
      std::string text =
          "func.func private @k(" + product.arguments() + ", %x: " + x +
          ", %g: " + s + ", %b: " + b + ") -> " + half +
          " attributes {mpc.kernel_kind = \"contraction\"} {\n" +
          product.weights() + "  %n = mpc.rms_norm %x, %g axis(1) " +
          "epsilon(1.0e-5) : (" + x + ", " + s + ") -> " + x + "\n";
      std::string operand = "%n";
      if (std::string(type) != "f32") {
        text += "  %c = mpc.cast %n : " + x + " to " + narrow + "\n";
        operand = "%c";
      }
      text += "  %0 = mpc.matmul " + operand + ", %w transpose_rhs : (" +
              narrow + ", " + tensor({72, 256}, type) + ") -> " + y +
              "\n  %1 = mpc.add %0, %b : (" + y + ", " + b + ") -> " + y +
              "\n  %2 = mpc.relu %1 : " + y + "\n  %3 = mpc.cast %2 : " + y +
              " to " + half + "\n  return %3 : " + half + "\n}\n";
      batch.add(text, check(product));
    }
  batch.expect();
}

/// One block has both halves of paired columns.
TEST(LineKernels, PairsOfColumns) {
  CudaKernelBatch batch;
  for (int64_t n : {32, 80}) {
    NarrowProduct product{2, 128, n, "i8", 0, "bf16"};
    std::string x = tensor({2, 128}, "bf16"), y = tensor({2, n}, "f32"),
                cut = tensor({2, n / 16, 2, 8}, "f32"),
                one = tensor({2, n / 16, 1, 8}, "f32"),
                half = tensor({2, n / 2}, "f32");
    std::string text =
        "func.func private @k(" + product.arguments() + ", %x: " + x + ") -> " +
        half + " attributes {mpc.kernel_kind = \"contraction\"} {\n" +
        product.weights() + "  %0 = mpc.matmul %x, %w transpose_rhs : (" + x +
        ", " + tensor({n, 128}, "bf16") + ") -> " + y +
        "\n  %1 = mpc.reshape %0 : " + y + " to " + cut + "\n";
    for (int64_t part : {0, 1}) {
      std::string number = std::to_string(part);
      text += "  %s" + number + " = mpc.slice %1 [0, 0, " + number +
              ", 0] [2, " + std::to_string(n / 16) + ", 1, 8] : " + cut +
              " to " + one + "\n  %h" + number + " = mpc.reshape %s" + number +
              " : " + one + " to " + half + "\n";
    }
    text += "  %2 = mpc.mul %h0, %h1 : (" + half + ", " + half + ") -> " +
            half + "\n  return %2 : " + half + "\n}\n";
    batch.add(text, check(product));
  }
  batch.expect();
}
