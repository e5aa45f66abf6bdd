//===- PlantedRewriteTests.cpp - mpc check catches wrong rewrites ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each rewrite is wrong in one place and runs last in the stage simplify, so
// that types are assigned to its result and the program is compiled from it.
// The imported graph is the only reference: with 16-bit types, too, `mpc check`
// must exit with 4, with the tolerance of the correct program.
//
// MPC_FAULT_MODELS names a folder of further models (FOLDER/NAME/model.onnx).
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Reporter.h"

#include "mpc/Dialect/Mpc/IR/CreateChecked.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <unistd.h>

using namespace mlir;
using namespace mpc;
using namespace mpc::tool;

namespace {

/// Changes the first op that it fits; false where there is none.
using Rewrite = bool (*)(ModuleOp);

/// Calls `change` on the ops of a kind until it returns true.
template <typename OpTy>
bool changeFirst(ModuleOp module, llvm::function_ref<bool(OpTy)> change) {
  return module
      .walk([&](OpTy op) {
        return change(op) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

bool isF32(Value value) {
  return getElementTypeOrSelf(value.getType()).isF32();
}

bool isConstant(Value value) {
  return isa_and_present<ConstantOp>(value.getDefiningOp());
}

int64_t sizeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

bool replace(Operation *op, Value by) {
  if (by.getType() != op->getResult(0).getType())
    return false;
  op->getResult(0).replaceAllUsesWith(by);
  op->erase();
  return true;
}

/// A float through integers, which truncate it, and back.
bool dropCast(ModuleOp module) {
  return changeFirst<CastOp>(module, [](CastOp op) {
    auto inner = op.getInput().getDefiningOp<CastOp>();
    return inner && isF32(inner.getInput()) &&
           isa<IntegerType>(getElementTypeOrSelf(inner.getType())) &&
           replace(op, inner.getInput());
  });
}

bool takeOtherAxis(ModuleOp module) {
  auto turn = [](auto op) {
    int64_t rank = op.getInput().getType().getRank(), axis = op.getAxis();
    if (rank < 2 || op.getInput().getType().getDimSize(axis ? axis - 1 : 1) < 2)
      return false;
    op.setAxis(axis ? axis - 1 : 1);
    return true;
  };
  return changeFirst<SoftmaxOp>(module, turn) ||
         changeFirst<LogSoftmaxOp>(module, turn);
}

bool loseMask(ModuleOp module) {
  return changeFirst<AttentionOp>(module, [](AttentionOp op) {
    if (!op.getMask() && !op.getCausal())
      return false;
    op.getMaskMutable().clear();
    op.setCausal(false);
    return true;
  });
}

bool shiftPadding(ModuleOp module) {
  return changeFirst<ConvOp>(module, [](ConvOp op) {
    SmallVector<int64_t> low(op.getPadLow()), high(op.getPadHigh());
    if (low[0] == 0)
      return false;
    --low[0];
    ++high[0];
    op.setPadLow(low);
    op.setPadHigh(high);
    return true;
  });
}

bool swapOperands(ModuleOp module) {
  auto swap = [](Operation *op) {
    if (op->getOperand(0).getType() != op->getOperand(1).getType())
      return false;
    Value first = op->getOperand(0);
    op->setOperand(0, op->getOperand(1));
    op->setOperand(1, first);
    return true;
  };
  return changeFirst<SubOp>(module, [&](SubOp op) { return swap(op); }) ||
         changeFirst<DivOp>(module, [&](DivOp op) { return swap(op); });
}

bool dropBias(ModuleOp module) {
  return changeFirst<AddOp>(module, [](AddOp op) {
    for (unsigned i : {0, 1})
      if (isConstant(op->getOperand(i)) && isF32(op->getOperand(i)) &&
          sizeOf(op->getOperand(i)) > 1 &&
          op->getOperand(1 - i).getType() == op.getType())
        return replace(op, op->getOperand(1 - i));
    return false;
  });
}

bool loseScale(ModuleOp module) {
  return changeFirst<AttentionOp>(
             module,
             [](AttentionOp op) {
               op.setScale(APFloat(1.5 * op.getScale().convertToDouble()));
               return true;
             }) ||
         changeFirst<MulOp>(module, [](MulOp op) {
           for (unsigned i : {0, 1})
             if (isConstant(op->getOperand(i)) && isF32(op->getOperand(i)) &&
                 op->getOperand(1 - i).getType() == op.getType())
               return replace(op, op->getOperand(1 - i));
           return false;
         });
}

bool transposeWeight(ModuleOp module) {
  return changeFirst<MatmulOp>(module, [](MatmulOp op) {
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(op.getRhs().getType()).getShape();
    if (!isConstant(op.getRhs()) || shape.size() != 2 || shape[0] != shape[1])
      return false;
    op.setTransposeRhs(!op.getTransposeRhs());
    return true;
  });
}

/// Epsilon with an offset of 1e-3, for numbers around 1.
bool takeOtherEpsilon(ModuleOp module) {
  auto change = [](auto op) {
    op.setEpsilon(APFloat(op.getEpsilon().convertToDouble() + 1e-3));
    return true;
  };
  return changeFirst<LayerNormOp>(module, change) ||
         changeFirst<RmsNormOp>(module, change) ||
         changeFirst<BatchNormOp>(module, change);
}

bool shiftSlice(ModuleOp module) {
  return changeFirst<SliceOp>(module, [](SliceOp op) {
    SmallVector<int64_t> offsets(op.getOffsets()),
        strides = op.getStrideValues();
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(op.getInput().getType()).getShape();
    if (!isF32(op.getInput()))
      return false;
    for (size_t i = 0; i < offsets.size(); ++i) {
      int64_t end = offsets[i] + (op.getSizes()[i] - 1) * strides[i] + 1;
      if (offsets[i] == 0 && end == shape[i])
        continue;
      offsets[i] += end < shape[i] ? 1 : -1;
      op.setOffsets(offsets);
      return true;
    }
    return false;
  });
}

bool takeOtherActivation(ModuleOp module) {
  return changeFirst<ReluOp>(
             module, [](ReluOp op) { return replace(op, op.getInput()); }) ||
         changeFirst<GeluOp>(module, [](GeluOp op) {
           OpBuilder builder(op);
           auto relu =
               createChecked<ReluOp>(builder, op.getLoc(), {op.getInput()});
           return succeeded(relu) && replace(op, relu->getResult());
         });
}

struct Fault {
  const char *name;
  Rewrite rewrite;
};

void PrintTo(const Fault &fault, std::ostream *os) { *os << fault.name; }

const Fault kFaults[] = {{"droppedCast", dropCast},
                         {"wrongAxis", takeOtherAxis},
                         {"lostMask", loseMask},
                         {"offByOnePadding", shiftPadding},
                         {"swappedOperands", swapOperands},
                         {"droppedBias", dropBias},
                         {"lostScale", loseScale},
                         {"transposedWeight", transposeWeight},
                         {"wrongEpsilon", takeOtherEpsilon},
                         {"offByOneSlice", shiftSlice},
                         {"wrongActivation", takeOtherActivation}};

/// A graph with something for every rewrite.
constexpr const char *kSmall = R"(
func.func @main(%x: tensor<16x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %y: tensor<16x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "y"},
                %w: tensor<16x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
                %z: tensor<16x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "z"},
                %i: tensor<1x3x9x9xf32> {mpc.role = #mpc.role<input>, mpc.name = "i"},
                %f: tensor<4x3x3x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "f"},
                %m: tensor<16x16xi1> {mpc.role = #mpc.role<input>, mpc.name = "m"})
    -> (tensor<16x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "r0"},
        tensor<1x16x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "r1"},
        tensor<1x4x9x9xf32> {mpc.role = #mpc.role<output>, mpc.name = "r2"}) {
  %s = mpc.constant dense<3.0> : tensor<f32>
  %u = mpc.constant dense<[1.0, 2.0, 0.5, 1.5]> : tensor<4xf32>
  %v = mpc.constant dense<[[1.0, 2.0, 0.5, 1.5], [0.1, -1.0, 0.7, 0.3],
                           [0.9, 0.8, -0.6, 1.2], [-0.4, 0.2, 1.1, 0.6]]> : tensor<4x4xf32>
  %0 = mpc.sub %x, %y : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32>
  %1 = mpc.slice %0 [0, 4] [16, 16] : tensor<16x24xf32> to tensor<16x16xf32>
  %2 = mpc.mul %1, %s : (tensor<16x16xf32>, tensor<f32>) -> tensor<16x16xf32>
  %3 = mpc.cast %2 pinned : tensor<16x16xf32> to tensor<16x16xi32>
  %4 = mpc.cast %3 pinned : tensor<16x16xi32> to tensor<16x16xf32>
  %5 = mpc.matmul %4, %w : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>

  %6 = mpc.layer_norm %z, %u axis(1) epsilon(1.0e-05) : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  %7 = mpc.matmul %6, %v : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  %8 = mpc.add %7, %u : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  %9 = mpc.reshape %8 : tensor<16x4xf32> to tensor<1x16x4xf32>
  %10 = mpc.attention %9, %9, %9 mask(%m) scale(0.5)
      : (tensor<1x16x4xf32>, tensor<1x16x4xf32>, tensor<1x16x4xf32>, tensor<16x16xi1>)
     -> tensor<1x16x4xf32>

  %11 = mpc.conv %i, %f strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1])
      : (tensor<1x3x9x9xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x9x9xf32>
  %12 = mpc.relu %11 : tensor<1x4x9x9xf32>
  %13 = mpc.softmax %12 axis(3) : tensor<1x4x9x9xf32>
  return %5, %10, %13 : tensor<16x8xf32>, tensor<1x16x4xf32>, tensor<1x4x9x9xf32>
})";

class PlantedRewriteTest : public testing::TestWithParam<Fault> {
protected:
  void SetUp() override {
    small = std::filesystem::temp_directory_path() /
            ("mpc-planted-" + std::to_string(::getpid()) + GetParam().name +
             ".mlir");
    std::ofstream(small) << kSmall;
  }
  void TearDown() override { std::filesystem::remove(small); }

  struct Model {
    std::string path, inputs;
    std::vector<std::string> policies = {"float32", "mixed_bfloat16",
                                         "mixed_float16"};
  };
  std::vector<Model> models() const {
    const std::string inputs = MPC_SOURCE_DIR "/test/Inputs/";
    std::vector<Model> models = {
        {small.string(), ""},
        {inputs + "mnist-cnn/model.onnx", inputs + "mnist-cnn/inputs.npz"}};
    if (const char *folder = std::getenv("MPC_FAULT_MODELS"))
      for (const auto &entry : std::filesystem::directory_iterator(folder))
        if (std::filesystem::exists(entry.path() / "model.onnx"))
          models.push_back(
              {entry.path() / "model.onnx", entry.path() / "inputs.npz"});
    return models;
  }

  /// Exit code and outputs of a check of `model`.
  static std::pair<int, Json> check(const Model &model,
                                    const std::string &policy,
                                    std::function<void(ModuleOp)> rewrite) {
    CheckArguments arguments;
    arguments.common.model = model.path;
    if (!model.inputs.empty())
      arguments.common.inputs = {model.inputs};
    arguments.common.policy = policy;
    arguments.common.json = arguments.common.quiet = true;
    arguments.common.threads = 1;
    arguments.afterSimplify = std::move(rewrite);
    testing::internal::CaptureStdout();
    int code = checkCommand(arguments);
    Json document = Json::parse(testing::internal::GetCapturedStdout(), nullptr,
                                /*allow_exceptions=*/false);
    return {code, document.value("outputs", Json::array())};
  }

  /// The outputs of the model as it is, which must hold.
  static const Json &checkUnchanged(const Model &model,
                                    const std::string &policy) {
    static std::map<std::pair<std::string, std::string>, Json> known;
    auto [found, isNew] = known.try_emplace({model.path, policy});
    if (isNew) {
      auto [code, outputs] = check(model, policy, {});
      EXPECT_EQ(code, kDone) << outputs;
      found->second = std::move(outputs);
    }
    return found->second;
  }

  std::filesystem::path small;
};

} // namespace

TEST_P(PlantedRewriteTest, IsCaught) {
  int planted = 0;
  for (const Model &model : models())
    for (const std::string &policy : model.policies) {
      SCOPED_TRACE(model.path + " " + policy);
      bool isPlanted = false;
      auto [code, outputs] = check(model, policy, [&](ModuleOp module) {
        isPlanted = GetParam().rewrite(module);
      });
      if (!isPlanted)
        break;
      ++planted;
      EXPECT_EQ(code, kCheckFailed) << outputs;
      const Json &expected = checkUnchanged(model, policy);
      ASSERT_EQ(outputs.size(), expected.size());
      // Another graph may get other types; their tolerance explains nothing.
      for (size_t i = 0; i < outputs.size(); ++i)
        EXPECT_LE(outputs[i].value("tolerance", 0.0),
                  std::max(1.5 * expected[i].value("tolerance", 0.0),
                           0.1 * outputs[i].value("rms_relative_error", 0.0)));
    }
  EXPECT_GT(planted, 0) << "no model has what the rewrite fits";
}

INSTANTIATE_TEST_SUITE_P(Check, PlantedRewriteTest, testing::ValuesIn(kFaults),
                         [](const testing::TestParamInfo<Fault> &info) {
                           return info.param.name;
                         });
