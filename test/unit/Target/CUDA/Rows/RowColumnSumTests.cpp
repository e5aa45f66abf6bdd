//===- RowColumnSumTests.cpp - row kernels with column sums ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelBatches.h"

#include "gtest/gtest.h"

using namespace mpc;

/// `text` with the shape and the storage type $T; $W is the compute
/// type.
static std::string shaped(const std::string &text, const std::string &rows,
                          const std::string &length, const std::string &type) {
  return substitute(text, {{"$R", rows},
                           {"$N", length},
                           {"$W", type == "f64" ? "f64" : "f32"},
                           {"$T", type}});
}

/// The gradients of a layer norm: of its input, scale and bias.
static std::string gradientKernel(const std::string &rows,
                                  const std::string &length,
                                  const std::string &type,
                                  const std::string &attributes = "") {
  bool isWide = type == "f32" || type == "f64";
  // If the stored type is the compute type, there is no cast.
  auto read = [&](const std::string &name) {
    return isWide ? name : name + "w";
  };
  std::string body;
  if (!isWide)
    body = R"(
  %xw = mpc.cast %x : tensor<$Rx$Nx$T> to tensor<$Rx$Nx$W>
  %dyw = mpc.cast %dy : tensor<$Rx$Nx$T> to tensor<$Rx$Nx$W>)";
  body += R"(
  %eps = mpc.constant dense<1.0e-5> : tensor<$W>
  %mean = mpc.reduce_mean %X axes([1]) keep_dims : tensor<$Rx$Nx$W> -> tensor<$Rx1x$W>
  %c = mpc.sub %X, %mean : (tensor<$Rx$Nx$W>, tensor<$Rx1x$W>) -> tensor<$Rx$Nx$W>
  %cc = mpc.mul %c, %c : (tensor<$Rx$Nx$W>, tensor<$Rx$Nx$W>) -> tensor<$Rx$Nx$W>
  %var = mpc.reduce_mean %cc axes([1]) keep_dims : tensor<$Rx$Nx$W> -> tensor<$Rx1x$W>
  %safe = mpc.add %var, %eps : (tensor<$Rx1x$W>, tensor<$W>) -> tensor<$Rx1x$W>
  %f = mpc.rsqrt %safe : tensor<$Rx1x$W>
  %n = mpc.mul %c, %f : (tensor<$Rx$Nx$W>, tensor<$Rx1x$W>) -> tensor<$Rx$Nx$W>
  %g = mpc.mul %DY, %s : (tensor<$Rx$Nx$W>, tensor<$Nx$W>) -> tensor<$Rx$Nx$W>
  %gn = mpc.mul %g, %n : (tensor<$Rx$Nx$W>, tensor<$Rx$Nx$W>) -> tensor<$Rx$Nx$W>
  %along = mpc.reduce_mean %gn axes([1]) keep_dims : tensor<$Rx$Nx$W> -> tensor<$Rx1x$W>
  %shift = mpc.reduce_mean %g axes([1]) keep_dims : tensor<$Rx$Nx$W> -> tensor<$Rx1x$W>
  %a = mpc.mul %n, %along : (tensor<$Rx$Nx$W>, tensor<$Rx1x$W>) -> tensor<$Rx$Nx$W>
  %b = mpc.sub %g, %shift : (tensor<$Rx$Nx$W>, tensor<$Rx1x$W>) -> tensor<$Rx$Nx$W>
  %d = mpc.sub %b, %a : (tensor<$Rx$Nx$W>, tensor<$Rx$Nx$W>) -> tensor<$Rx$Nx$W>
  %e = mpc.mul %d, %f : (tensor<$Rx$Nx$W>, tensor<$Rx1x$W>) -> tensor<$Rx$Nx$W>
  %dyn = mpc.mul %DY, %n : (tensor<$Rx$Nx$W>, tensor<$Rx$Nx$W>) -> tensor<$Rx$Nx$W>
  %ds = mpc.reduce_sum %dyn axes([0]) : tensor<$Rx$Nx$W> -> tensor<$Nx$W>
  %db = mpc.reduce_sum %DY axes([0]) : tensor<$Rx$Nx$W> -> tensor<$Nx$W>
)";
  std::string stored = "%e";
  if (!isWide) {
    body += "  %dx = mpc.cast %e : tensor<$Rx$Nx$W> to tensor<$Rx$Nx$T>\n";
    stored = "%dx";
  }
  body += "  return " + stored +
          ", %ds, %db : tensor<$Rx$Nx$T>, tensor<$Nx$W>, tensor<$Nx$W>";
  body = substitute(body, {{"%X", "%" + read("x")}, {"%DY", "%" + read("dy")}});
  return shaped(rowKernel("%x: tensor<$Rx$Nx$T>, %dy: tensor<$Rx$Nx$T>, "
                          "%s: tensor<$Nx$W>",
                          "tensor<$Rx$Nx$T>, tensor<$Nx$W>, tensor<$Nx$W>",
                          body, attributes),
                rows, length, type);
}

/// A layer norm with the scaled and downcast mean of its squared errors, and
/// the gradient of that.
static std::string lossKernel(const std::string &rows,
                              const std::string &length,
                              const std::string &type) {
  return shaped(
      rowKernel("%x: tensor<$Rx$Nx$T>, %s: tensor<$Nx$T>, %b: tensor<$Nx$T>, "
                "%t: tensor<$Rx$Nx$T>, %factor: tensor<$T>",
                "tensor<$Rx$Nx$T>, tensor<$T>, tensor<f16>, tensor<$Rx$Nx$T>",
                R"(
  %y = mpc.layer_norm %x, %s, %b axis(1) epsilon(1.0e-5) : (tensor<$Rx$Nx$T>, tensor<$Nx$T>, tensor<$Nx$T>) -> tensor<$Rx$Nx$T>
  %d = mpc.sub %y, %t : (tensor<$Rx$Nx$T>, tensor<$Rx$Nx$T>) -> tensor<$Rx$Nx$T>
  %dd = mpc.mul %d, %d : (tensor<$Rx$Nx$T>, tensor<$Rx$Nx$T>) -> tensor<$Rx$Nx$T>
  %mean = mpc.reduce_mean %dd axes([0, 1]) : tensor<$Rx$Nx$T> -> tensor<$T>
  %scaled = mpc.mul %mean, %factor : (tensor<$T>, tensor<$T>) -> tensor<$T>
  %narrow = mpc.cast %scaled : tensor<$T> to tensor<f16>
  %g = mpc.mul %d, %factor : (tensor<$Rx$Nx$T>, tensor<$T>) -> tensor<$Rx$Nx$T>
  return %y, %mean, %narrow, %g : tensor<$Rx$Nx$T>, tensor<$T>, tensor<f16>, tensor<$Rx$Nx$T>)"),
      rows, length, type);
}

/// A schedule that the compiler would not choose for so few rows.
static std::string scheduled(int length, int blocks, int rounds, int team,
                             int group, int items, int vector, int keep,
                             int sums) {
  int steps = (length + group * vector - 1) / (group * vector);
  const char *places[] = {"nowhere", "registers", "shared"};
  auto entry = [](const char *name, int value) {
    return std::string(name) + " = " + std::to_string(value);
  };
  return ", mpc.schedule = {family = \"row\", blocks = array<i64: " +
         std::to_string(blocks) + ", 1, 1>, " +
         entry("threads", group * items) + ", team = #tile.threads<" +
         entry("members", group) + ", " + entry("items", items) + ", " +
         entry("vector", vector) + ", " + entry("steps", steps) + ", " +
         entry("rounds", rounds) + ", " + entry("groups", team) +
         ", keep = " + places[keep] + ", sums = " + places[sums] + ">, " +
         entry("shared_bytes",
               keep == 2 ? 12 * steps * group * items * vector : 0) +
         ", " + entry("scratch_bytes", 1 << 16) + "}";
}

TEST(CudaRowColumnSums, GradientOfANormOfAnyShape) {
  CudaKernelBatch batch;
  for (const char *rows : {"1", "2", "7", "61"})
    for (const char *length : {"2", "3", "8", "33", "64", "101", "768"})
      batch.add(gradientKernel(rows, length, "f32"), ofFamily("row"));
  for (const char *type : {"f16", "bf16", "f64"})
    for (auto [rows, length] :
         {std::pair{"1", "3"}, {"13", "5"}, {"31", "96"}, {"6", "1000"}})
      batch.add(gradientKernel(rows, length, type), ofFamily("row"));
  batch.expect();
}

TEST(CudaRowColumnSums, ManyRows) {
  CudaKernelBatch batch;
  // Teams of blocks; several rounds of rows.
  batch.add(gradientKernel("1021", "64", "f32"), ofFamily("row"));
  batch.add(gradientKernel("1024", "32", "bf16"), ofFamily("row"));
  batch.add(gradientKernel("40009", "4", "f32"), ofFamily("row"));
  batch.expect();
}

TEST(CudaRowColumnSums, LongRows) {
  CudaKernelBatch batch;
  // Rows in shared memory, column sums in the scratch buffer.
  for (const char *length : {"4096", "10007", "36000"})
    batch.add(gradientKernel("3", length, "f32"), ofFamily("row"));
  batch.add(gradientKernel("2", "9001", "bf16"), ofFamily("row"));
  batch.expect();
}

TEST(CudaRowColumnSums, AnyGeometry) {
  CudaKernelBatch batch;
  for (int keep = 0; keep < 3; ++keep)
    for (auto [group, items] : {std::pair{1, 32},

                                {16, 4},
                                {32, 2},
                                {64, 1},
                                {64, 2},
                                {256, 1}})
      for (auto [blocks, rounds, team] :
           {std::tuple{1, 3, 1}, {3, 2, 3}, {6, 2, 3}}) {
        // The last block has no rows, or some threads of a block.
        int rows = blocks * items * rounds - (blocks > 1 ? items + 1 : 0);
        for (auto [length, vector] : {std::pair{37, 1}, {36, 4}})
          for (int sums : {0, 1})
            if (rows > 0 && (sums == 1 || items == 1))
              batch.add(gradientKernel(
                            std::to_string(rows), std::to_string(length), "f32",
                            scheduled(length, blocks, rounds, team, group,
                                      items, vector, keep, sums)),
                        ofFamily("row"));
      }
  batch.expect();
}

TEST(CudaRowColumnSums, WarpsOfTheNextRowWait) {
  // One number per row: only the wait keeps a warp from starting the next row.
  CudaKernelBatch batch;
  for (int items : {1, 2})
    batch.add(substitute(rowKernel("%x: tensor<$Rx96xf32>",
                                   "tensor<$Rx1xf32>, tensor<96xf32>", R"(
  %0 = mpc.reduce_max %x axes([1]) keep_dims : tensor<$Rx96xf32> -> tensor<$Rx1xf32>
  %1 = mpc.sub %x, %0 : (tensor<$Rx96xf32>, tensor<$Rx1xf32>) -> tensor<$Rx96xf32>
  %2 = mpc.reduce_sum %1 axes([0]) : tensor<$Rx96xf32> -> tensor<96xf32>
  return %0, %2 : tensor<$Rx1xf32>, tensor<96xf32>)",
                                   scheduled(96, 1, 4, 1, 64, items, 1, 1, 1)),
                         {{"$R", std::to_string(4 * items)}}),
              ofFamily("row"));
  batch.expect();
}

TEST(CudaRowColumnSums, OneNumberOfAllRows) {
  CudaKernelBatch batch;
  for (auto [rows, length] : {std::pair{"1", "5"},
                              {"7", "64"},
                              {"61", "33"},
                              {"700", "16"},
                              {"5", "2049"}})
    addTypes(batch, {"f32", "f64"}, lossKernel(rows, length, "$T"),
             ofFamily("row"));
  batch.expect();
}

TEST(CudaRowColumnSums, BesideSumsOfRowsAndOtherDimensions) {
  CudaKernelBatch batch;
  // Nothing waits for a row: everything is added up while rows are first read.
  batch.add(rowKernel("%x: tensor<3x21x40xf32>",
                      "tensor<3x21xf32>, tensor<1x1x40xf32>, tensor<f32>", R"(
  %0 = mpc.reduce_max %x axes([2]) : tensor<3x21x40xf32> -> tensor<3x21xf32>
  %1 = mpc.reduce_mean %x axes([0, 1]) keep_dims : tensor<3x21x40xf32> -> tensor<1x1x40xf32>
  %2 = mpc.reduce_sum %x axes([0, 1, 2]) : tensor<3x21x40xf32> -> tensor<f32>
  return %0, %1, %2 : tensor<3x21xf32>, tensor<1x1x40xf32>, tensor<f32>)"),
            ofFamily("row"));
  // The sums are all that there is.
  batch.add(rowKernel("%x: tensor<50x24xf32>, %b: tensor<24xf32>",
                      "tensor<24xf16>, tensor<24xf32>", R"(
  %0 = mpc.softmax %x axis(1) : tensor<50x24xf32>
  %1 = mpc.reduce_sum %0 axes([0]) accumulate(f64) : tensor<50x24xf32> -> tensor<24xf32>
  %2 = mpc.sub %1, %b : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
  %3 = mpc.cast %2 : tensor<24xf32> to tensor<24xf16>
  %4 = mpc.reduce_mean %x axes([0]) : tensor<50x24xf32> -> tensor<24xf32>
  return %3, %4 : tensor<24xf16>, tensor<24xf32>)"),
            ofFamily("row"));
  // The columns of several dimensions, in vectors and without.
  for (const char *columns : {"6x8", "6x6"})
    batch.add(substitute(rowKernel("%x: tensor<5x4x$Cxbf16>",
                                   "tensor<5x4x$Cxf32>, tensor<$Cxf32>", R"(
  %w = mpc.cast %x : tensor<5x4x$Cxbf16> to tensor<5x4x$Cxf32>
  %0 = mpc.reduce_mean %w axes([2, 3]) keep_dims : tensor<5x4x$Cxf32> -> tensor<5x4x1x1xf32>
  %1 = mpc.sub %w, %0 : (tensor<5x4x$Cxf32>, tensor<5x4x1x1xf32>) -> tensor<5x4x$Cxf32>
  %2 = mpc.reduce_sum %1 axes([0, 1]) : tensor<5x4x$Cxf32> -> tensor<$Cxf32>
  return %1, %2 : tensor<5x4x$Cxf32>, tensor<$Cxf32>)"),
                         {{"$C", columns}}),
              ofFamily("row"));
  // Rows and columns with reshaped operands and results.
  batch.add(rowKernel("%x: tensor<19x6x8xf32>",
                      "tensor<19x6x8xf32>, tensor<6x8xf32>", R"(
  %r = mpc.reshape %x : tensor<19x6x8xf32> to tensor<19x48xf32>
  %0 = mpc.reduce_mean %r axes([1]) keep_dims : tensor<19x48xf32> -> tensor<19x1xf32>
  %1 = mpc.sub %r, %0 : (tensor<19x48xf32>, tensor<19x1xf32>) -> tensor<19x48xf32>
  %2 = mpc.reduce_sum %1 axes([0]) : tensor<19x48xf32> -> tensor<48xf32>
  %3 = mpc.reshape %1 : tensor<19x48xf32> to tensor<19x6x8xf32>
  %4 = mpc.reshape %2 : tensor<48xf32> to tensor<6x8xf32>
  return %3, %4 : tensor<19x6x8xf32>, tensor<6x8xf32>)"),
            ofFamily("row"));
  batch.expect();
}

TEST(CudaRowColumnSums, CountersAreLeftAtZero) {
  // The second order runs on the scratch buffer of the first.
  CudaKernelCheck check = ofFamily("row");
  check.orders = {ThreadOrder::Ascending, ThreadOrder::Descending,
                  ThreadOrder::Shuffled};
  std::string text = gradientKernel("300", "48", "f32");
  EXPECT_NE(cudaText(text).text.find("mpc::atomicAdd"), std::string::npos);
  expectCudaKernel(text, check);
}

TEST(CudaRowColumnSums, RowsThatWaitForASumAreNoRowKernel) {
  // Elements less the mean of their column would need two passes.
  CudaKernelCheck check;
  check.family = "";
  std::string text =
      rowKernel("%x: tensor<9x12xf32>", "tensor<9xf32>, tensor<9x12xf32>", R"(
  %0 = mpc.reduce_sum %x axes([1]) : tensor<9x12xf32> -> tensor<9xf32>
  %1 = mpc.reduce_mean %x axes([0]) : tensor<9x12xf32> -> tensor<12xf32>
  %2 = mpc.sub %x, %1 : (tensor<9x12xf32>, tensor<12xf32>) -> tensor<9x12xf32>
  return %0, %2 : tensor<9xf32>, tensor<9x12xf32>)");
  EXPECT_EQ(cudaText(text).text.find("sumsOfRows"), std::string::npos);
  expectCudaKernel(text, check);
}
