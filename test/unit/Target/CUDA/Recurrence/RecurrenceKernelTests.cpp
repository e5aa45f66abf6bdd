//===- RecurrenceKernelTests.cpp - persistent recurrent kernels -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are run twice on one scratch memory, so that the counters and states
// of one launch do not disturb the next.
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelBatches.h"

#include "mpc/Analysis/PersistentRnnPlan.h"

#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

using namespace mpc;

namespace {

struct Layer {
  std::string cell = "lstm", type = "f32", direction = "forward";
  int64_t steps = 3, batch = 2, hidden = 13;
  bool bias = true, initial = true, peephole = false;
  /// Rows and units of a block; 0: what the model chooses.
  int64_t rows = 0, units = 0;
  std::string architecture = "sm_80";
  /// Forwards as in inference or as in training; back.
  enum class Walk { plain, keeps, back } walk = Walk::plain;

  int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
  int64_t gates() const { return cell == "lstm" ? 4 : cell == "rnn" ? 1 : 3; }
  int64_t kept() const {
    return savedActivationsOf(*symbolizeRecurrentCell(cell));
  }
  bool isLstm() const { return cell == "lstm"; }
};
using Walk = Layer::Walk;

std::string shapeText(const std::vector<int64_t> &shape,
                      const std::string &type) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

/// The schedule by hand of `layer`.
std::string scheduleText(const Layer &layer) {
  if (layer.rows == 0)
    return "";
  mlir::MLIRContext context;
  mlir::Type f32 = mlir::Float32Type::get(&context),
             narrow = layer.type == "f32" ? f32
                      : layer.type == "bf16"
                          ? mlir::BFloat16Type::get(&context)
                          : mlir::Type(mlir::Float16Type::get(&context));
  RecurrenceShape shape = {*symbolizeRecurrentCell(layer.cell),
                           layer.steps,
                           layer.batch,
                           layer.hidden,
                           layer.directions(),
                           narrow,
                           f32,
                           layer.walk == Walk::back};
  std::optional<PersistentRnnPlan> plan = PersistentRnnPlan::with(
      shape, cudaTarget(layer.architecture).target(), layer.rows, layer.units);
  EXPECT_TRUE(plan);
  auto entry = [](const char *name, int64_t value) {
    return std::string(", ") + name + " = " + std::to_string(value) + " : i64";
  };
  std::string text = ", mpc.schedule = {family = \"recurrence\", blocks = "
                     "array<i64: " +
                     std::to_string(plan->blocks()) + ", 1, 1>" +
                     entry("threads", plan->threads) +
                     entry("shared_bytes", plan->sharedBytes()) +
                     entry("rows", plan->rows) + entry("units", plan->units) +
                     entry("splits", plan->splits) +
                     entry("depth", plan->depth()) +
                     entry("matrix_units", plan->usesMatrixUnits) +
                     entry("weights_in_registers", plan->keepsFragments);
  if (plan->meets())
    text +=
        entry("scratch_bytes", plan->scratchBytes()) + entry("cooperative", 1);
  return text + "}";
}

/// A kernel of one op, operand by operand.
class KernelText {
public:
  void add(const std::string &name, const std::string &type) {
    add(name, "", type);
  }
  /// Adds an operand after a keyword.
  void add(const std::string &name, const std::string &word,
           const std::string &type) {
    if (!types.empty()) {
      arguments += ", ";
      types += ", ";
    }
    arguments += name + ": " + type;
    operands += word.empty() ? (operands.empty() ? "" : ", ") + name
                             : " " + word + "(" + name + ")";
    types += type;
  }
  void returns(const std::string &type) {
    std::string number = std::to_string(count++);
    values += (values.empty() ? "%0#" : ", %0#") + number;
    results += (results.empty() ? "" : ", ") + type;
  }
  std::string text(const std::string &op, const Layer &layer) const {
    return "func.func private @k(" + arguments + ") -> (" + results +
           ") attributes {mpc.kernel_kind = \"recurrence\"" +
           scheduleText(layer) + "} {\n  %0:" + std::to_string(count) +
           " = mpc." + op + " " + layer.cell + " " + operands + " direction(" +
           layer.direction + ") : (" + types + ") -> (" + results +
           ")\n  return " + values + " : " + results + "\n}\n";
  }

private:
  std::string arguments, operands, types, values, results;
  int count = 0;
};

std::string kernelText(const Layer &layer) {
  int64_t d = layer.directions(), g = layer.gates(), h = layer.hidden;
  auto gates = [&](int64_t each) {
    return shapeText({layer.steps, layer.batch, d * each * h}, "f32");
  };
  std::string weights = shapeText({d, g * h, h}, layer.type),
              state = shapeText({d, layer.batch, h}, "f32"),
              peephole = shapeText({d, 3 * h}, "f32"),
              sequence = shapeText({layer.steps, d, layer.batch, h}, "f32");
  KernelText text;
  if (layer.walk == Walk::back) {
    text.add("%r", weights);
    text.add("%k", gates(layer.kept()));
    text.add("%dy", "result", sequence);
    if (layer.bias)
      text.add("%dh", "final_h", state);
    if (layer.bias && layer.isLstm())
      text.add("%dc", "final_c", state);
    if (layer.initial)
      text.add("%s", "initial", state);
    if (layer.peephole)
      text.add("%w", "peephole", peephole);
    text.returns(gates(g));
    text.returns(state);
    if (layer.isLstm())
      text.returns(state);
    else if (layer.cell == "linear_gru")
      text.returns(gates(g));
    return text.text("recurrence_gradient", layer);
  }
  text.add("%p", gates(g));
  text.add("%r", weights);
  if (layer.bias)
    text.add("%b", "bias", shapeText({d, g * h}, "f32"));
  if (layer.initial)
    text.add("%h", "initial_h", state);
  if (layer.initial && layer.isLstm())
    text.add("%c", "initial_c", state);
  if (layer.peephole)
    text.add("%w", "peephole", peephole);
  text.returns(sequence);
  text.returns(state);
  if (layer.isLstm())
    text.returns(state);
  if (layer.walk == Walk::plain)
    return text.text("recurrence", layer);
  text.returns(gates(layer.kept()));
  return text.text("recurrence_training", layer);
}

/// Layers that one compilation checks.
class LayerBatch {
public:
  ~LayerBatch() { batch.expect(); }
  void add(const Layer &layer) {
    CudaKernelCheck check;
    check.family = "recurrence";
    check.target = cudaTarget(layer.architecture);
    // Gates and states are small, and slopes with them: 16 bits hold what
    // passes from step to step.
    if (layer.walk == Walk::back)
      check.adjust = [](unsigned argument, reference::Tensor &kept) {
        if (argument != 1)
          return;
        for (double &value : kept.floats())
          value = 1 / (1 + std::exp(-value));
        kept.roundToType();
      };
    batch.add(kernelText(layer), check);
  }

private:
  CudaKernelBatch batch;
};

const char *const kCells[] = {"lstm", "gru", "linear_gru", "rnn"};
const char *const kTypes[] = {"f32", "bf16", "f16"};
/// Forward and backward pass of a training step.
const Walk kWalks[] = {Walk::keeps, Walk::back};

} // namespace

// Blocks that have all units, by what the model chooses for small layers.
TEST(CudaRecurrence, CellsAndTypes) {
  for (const char *cell : kCells) {
    LayerBatch batch;
    for (const char *type : kTypes)
      for (const char *direction : {"forward", "reverse", "bidirectional"})
        batch.add({.cell = cell, .type = type, .direction = direction});
  }
}

// Blocks with grid barriers, of any extents: rows and units that fill the last
// block and others.
TEST(CudaRecurrence, BlocksThatMeet) {
  for (const char *cell : kCells) {
    LayerBatch batch;
    for (const char *type : kTypes) {
      batch.add({.cell = cell, .type = type, .rows = 2, .units = 5});
      batch.add({.cell = cell,
                 .type = type,
                 .direction = "bidirectional",
                 .steps = 4,
                 .batch = 5,
                 .hidden = 16,
                 .rows = 3,
                 .units = 4});
    }
  }
}

// One step, one row, one unit.
TEST(CudaRecurrence, SmallestExtents) {
  LayerBatch batch;
  for (const char *cell : kCells)
    for (const char *type : {"f32", "bf16"}) {
      batch.add(
          {.cell = cell, .type = type, .steps = 1, .rows = 2, .units = 7});
      batch.add({.cell = cell, .type = type, .batch = 1, .hidden = 1});
    }
}

TEST(CudaRecurrence, OptionalOperands) {
  LayerBatch batch;
  for (const char *cell : kCells)
    batch.add({.cell = cell, .bias = false, .initial = false});
  for (const char *type : kTypes)
    batch.add({.type = type, .peephole = true, .rows = 1, .units = 8});
}

// More rows than a tile, more columns than threads, depths that vectors fill.
TEST(CudaRecurrence, LargerLayers) {
  LayerBatch batch;
  for (const char *type : {"f32", "bf16"}) {
    batch.add({.type = type, .batch = 19, .hidden = 33});
    batch.add(
        {.type = type, .batch = 19, .hidden = 72, .rows = 8, .units = 72});
    batch.add({.cell = "linear_gru",
               .type = type,
               .steps = 2,
               .batch = 3,
               .hidden = 100,
               .rows = 3,
               .units = 25});
  }
}

// bf16 has no unit there, and f16 one of half the depth.
TEST(CudaRecurrence, OlderArchitectures) {
  LayerBatch batch;
  for (const char *type : {"bf16", "f16"})
    batch.add({.type = type, .rows = 2, .units = 4, .architecture = "sm_75"});
}

// The result is downcast and stored batch first.
TEST(CudaRecurrence, StoresElsewhere) {
  CudaKernelCheck check;
  check.family = "recurrence";
  expectCudaKernel(R"(
func.func private @k(%p: tensor<4x3x32xf32>, %r: tensor<1x32x32xbf16>) -> tensor<3x4x32xbf16>
    attributes {mpc.kernel_kind = "recurrence"} {
  %0:2 = mpc.recurrence rnn %p, %r : (tensor<4x3x32xf32>, tensor<1x32x32xbf16>) -> (tensor<4x1x3x32xf32>, tensor<1x3x32xf32>)
  %1 = mpc.cast %0#0 : tensor<4x1x3x32xf32> to tensor<4x1x3x32xbf16>
  %2 = mpc.transpose %1 [2, 1, 0, 3] : tensor<4x1x3x32xbf16> to tensor<3x1x4x32xbf16>
  %3 = mpc.reshape %2 : tensor<3x1x4x32xbf16> to tensor<3x4x32xbf16>
  return %3 : tensor<3x4x32xbf16>
})",
                   check);
}

//===----------------------------------------------------------------------===//
// Training: saved activations, and the backward pass
//===----------------------------------------------------------------------===//

TEST(CudaRecurrenceTraining, CellsAndTypes) {
  for (const char *cell : kCells) {
    LayerBatch batch;
    for (const char *type : kTypes)
      for (const char *direction : {"forward", "reverse", "bidirectional"})
        for (Walk walk : kWalks)
          batch.add({.cell = cell,
                     .type = type,
                     .direction = direction,
                     .walk = walk});
  }
}

TEST(CudaRecurrenceTraining, BlocksThatMeet) {
  for (const char *cell : kCells) {
    LayerBatch batch;
    for (const char *type : kTypes)
      for (Walk walk : kWalks) {
        batch.add(
            {.cell = cell, .type = type, .rows = 2, .units = 5, .walk = walk});
        batch.add({.cell = cell,
                   .type = type,
                   .direction = "bidirectional",
                   .steps = 4,
                   .batch = 5,
                   .hidden = 16,
                   .rows = 3,
                   .units = 4,
                   .walk = walk});
      }
  }
}

TEST(CudaRecurrenceTraining, SmallestExtents) {
  LayerBatch batch;
  for (const char *cell : kCells)
    for (const char *type : {"f32", "bf16"}) {
      batch.add({.cell = cell,
                 .type = type,
                 .steps = 1,
                 .rows = 2,
                 .units = 7,
                 .walk = Walk::back});
      batch.add({.cell = cell,
                 .type = type,
                 .batch = 1,
                 .hidden = 1,
                 .walk = Walk::back});
    }
}

TEST(CudaRecurrenceTraining, OptionalOperands) {
  LayerBatch batch;
  for (const char *cell : kCells)
    batch.add(
        {.cell = cell, .bias = false, .initial = false, .walk = Walk::back});
  for (const char *type : kTypes)
    batch.add({.type = type,
               .peephole = true,
               .rows = 1,
               .units = 8,
               .walk = Walk::back});
}

// More rows than a tile, more columns than threads, depths that vectors fill.
TEST(CudaRecurrenceTraining, LargerLayers) {
  LayerBatch batch;
  for (const char *type : {"f32", "bf16"}) {
    batch.add({.type = type, .batch = 19, .hidden = 33, .walk = Walk::back});
    batch.add({.cell = "linear_gru",
               .type = type,
               .steps = 2,
               .batch = 3,
               .hidden = 100,
               .rows = 3,
               .units = 25,
               .walk = Walk::back});
  }
}

// The initial state's gradient is unused, and the gates' gradient is downcast.
TEST(CudaRecurrenceTraining, StoresGatesAlone) {
  CudaKernelCheck check;
  check.family = "recurrence";
  expectCudaKernel(R"(
func.func private @k(%r: tensor<1x32x8xbf16>, %k: tensor<4x3x40xf32>, %d: tensor<4x1x3x8xf32>) -> tensor<4x3x32xbf16>
    attributes {mpc.kernel_kind = "recurrence"} {
  %0:3 = mpc.recurrence_gradient lstm %r, %k result(%d)
    : (tensor<1x32x8xbf16>, tensor<4x3x40xf32>, tensor<4x1x3x8xf32>) -> (tensor<4x3x32xf32>, tensor<1x3x8xf32>, tensor<1x3x8xf32>)
  %1 = mpc.cast %0#0 : tensor<4x3x32xf32> to tensor<4x3x32xbf16>
  return %1 : tensor<4x3x32xbf16>
})",
                   check);
}
