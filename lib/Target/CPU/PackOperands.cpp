//===- PackOperands.cpp - shared packing of GEMM operands -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Without this pass each worker of a GEMM packs an unpacked operand itself,
// again for each group of rows. A kernel before the GEMM packs it once, for all
// workers and for all GEMMs that read the same panels.
//
// Runs after mpc-fuse, so that fusion decisions do not depend on it.
//
//===----------------------------------------------------------------------===//

#include "ContractionBlocking.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/Transforms/UniqueNames.h"
#include "mpc/Target/CPU/Passes.h"
#include "mpc/Target/TargetInfo.h"

#include "llvm/ADT/MapVector.h"

namespace mpc {
#define GEN_PASS_DEF_PACKOPERANDSPASS
#include "mpc/Target/CPU/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

namespace {

/// A GEMM that can read panels.
struct Reader {
  FusionOp fusion;
  MatmulOp product;
  BlockArgument operand;
};

/// Key of GEMMs with the same panels: operand, transposed or not, and layout.
using Panels = std::tuple<Value, unsigned, Attribute>;

/// Returns the layout in which `c` would read its right side; null if it has no
/// panels in memory.
PackedAttr layoutOf(const Contraction &c) {
  Type element = getElementTypeOrSelf(c.rhs().getType());
  int64_t columns = c.target.blockColumns(), depth = c.depthOfStep();
  bool isHalf = element.isBF16() || element.isF16();
  if (!(isHalf && depth == 2) && !(element == c.sumType && depth == 1))
    return {};
  return PackedAttr::get(c.op->getContext(), columns, /*interleave=*/1, depth);
}

/// Returns the fusion's input that is the right side of its GEMM, a matrix
/// without other uses in it; null if there is none.
BlockArgument operandOf(MatmulOp product) {
  auto type = cast<RankedTensorType>(product.getRhs().getType());
  auto argument = dyn_cast<BlockArgument>(sourceOfReshapes(product.getRhs()));
  bool isMatrix = productOf(type.getShape().drop_back(2)) == 1 &&
                  type.getRank() <= product.getLhs().getType().getRank();
  if (!argument || !isMatrix)
    return {};
  for (Value value = product.getRhs();;
       value = value.getDefiningOp<ReshapeOp>().getInput()) {
    if (!value.hasOneUse())
      return {};
    if (value == argument)
      return argument;
  }
}

/// Returns the cast if the fusion contains nothing else; else null.
CastOp onlyCast(FusionOp fusion) {
  if (!fusion || fusion.getNumResults() != 1 || fusion.getInputs().size() != 1)
    return {};
  Block &body = fusion.getBody().front();
  auto cast = dyn_cast<CastOp>(body.front());
  return cast && body.getOperations().size() == 2 ? cast : CastOp();
}

struct PackOperandsPass : mpc::impl::PackOperandsPassBase<PackOperandsPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    FailureOr<TargetInfo> info = exe::targetOf(function, target);
    if (failed(info))
      return signalPassFailure();
    std::optional<CpuTarget> level = CpuTarget::of(*info);
    if (!level)
      return;

    names = UniqueNames();
    llvm::MapVector<Panels, std::pair<SmallVector<Reader>, double>> all;
    for (auto fusion : function.getBody().getOps<FusionOp>()) {
      names.reserve(fusion.getName());
      auto products = fusion.getBody().getOps<MatmulOp>();
      if (!llvm::hasSingleElement(products))
        continue;
      MatmulOp product = *products.begin();
      BlockArgument operand = operandOf(product);
      if (product.getPacked() || !operand)
        continue;
      FailureOr<Contraction> contraction = Contraction::get(product, *level);
      if (failed(contraction))
        return signalPassFailure();
      PackedAttr layout = layoutOf(*contraction);
      if (!layout)
        continue;
      std::optional<double> saved = secondsOfPacking(*contraction);
      if (!saved)
        continue;
      auto &[readers, seconds] =
          all[{fusion.getInputs()[operand.getArgNumber()],
               unsigned(product.getTransposeRhs()), layout}];
      readers.push_back({fusion, product, operand});
      seconds += *saved;
    }
    SmallVector<FusionOp> packings;
    for (auto &[panels, wanted] : all) {
      auto &[readers, saved] = wanted;
      if (saved <= secondsToPack(std::get<Value>(panels).getType(), *info))
        continue;
      packings.push_back(pack(panels, readers));
      ++numPacked;
      numReaders += readers.size();
    }
    for (FusionOp packing : packings)
      takeCast(packing);
  }

private:
  /// Creates a packing fusion before the first of `readers` and rewires them to
  /// its panels.
  FusionOp pack(const Panels &panels, ArrayRef<Reader> readers) {
    auto [operand, isTransposed, layout] = panels;
    Reader first = readers.front();
    OpBuilder builder(first.fusion);
    std::string name = names.make((first.fusion.getName() + "_panels").str());
    // The GEMM's own name is that of the kernel that multiplies.
    Location loc =
        NameLoc::get(builder.getStringAttr(name), first.product.getLoc());
    auto type = cast<RankedTensorType>(first.product.getRhs().getType());
    ArrayRef<int64_t> matrix = type.getShape().take_back(2);
    auto form = cast<PackedAttr>(layout);
    int64_t depth = matrix[isTransposed], width = matrix[!isTransposed];
    auto panelType = RankedTensorType::get(
        {int64_t(llvm::divideCeil(width, form.getColumns())),
         form.getSteps(depth, depth), form.getStepElements()},
        type.getElementType());
    auto fusion =
        FusionOp::create(builder, loc, TypeRange(panelType),
                         ValueRange(operand), FusionKind::transpose, name);
    if (Attribute layer =
            first.fusion->getDiscardableAttr(MpcDialect::kLayerAttr))
      fusion->setDiscardableAttr(MpcDialect::kLayerAttr, layer);
    Block *body = fusion.getBody().empty() ? &fusion.getBody().emplaceBlock()
                                           : &fusion.getBody().front();
    Value inside = body->addArgument(operand.getType(), operand.getLoc());
    builder.setInsertionPointToEnd(body);
    auto matrixType = RankedTensorType::get(matrix, type.getElementType());
    if (inside.getType() != matrixType)
      inside = ReshapeOp::create(builder, loc, matrixType, inside);
    Value packed =
        PackOp::create(builder, loc, panelType, inside,
                       isTransposed ? builder.getUnitAttr() : UnitAttr(), form);
    YieldOp::create(builder, loc, packed);

    for (Reader reader : readers) {
      BlockArgument argument = reader.operand;
      reader.fusion->setOperand(argument.getArgNumber(), fusion.getResult(0));
      Operation *reshape = argument != reader.product.getRhs()
                               ? reader.product.getRhs().getDefiningOp()
                               : nullptr;
      reader.product.getRhsMutable().assign(argument);
      reader.product.setTransposeRhs(false);
      reader.product.setPackedAttr(form);
      while (reshape) {
        Operation *before = reshape->getOperand(0).getDefiningOp();
        reshape->erase();
        reshape = before;
      }
      argument.setType(panelType);
    }
    return fusion;
  }

  /// Fuses a cast that is a kernel of its own and only feeds the panels.
  static void takeCast(FusionOp packing) {
    Value operand = packing.getInputs().front();
    auto source = operand.getDefiningOp<FusionOp>();
    CastOp cast = onlyCast(source);
    if (!cast || !operand.hasOneUse())
      return;
    Block &body = packing.getBody().front();
    BlockArgument argument = body.getArgument(0);
    OpBuilder builder(&body, body.begin());
    Operation *inside = builder.clone(*cast);
    argument.replaceAllUsesWith(inside->getResult(0));
    inside->setOperand(0, argument);
    argument.setType(source.getInputs().front().getType());
    packing->setOperand(0, source.getInputs().front());
    source.erase();
  }

  UniqueNames names;
};

} // namespace
