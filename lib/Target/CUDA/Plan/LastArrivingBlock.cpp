//===- LastArrivingBlock.cpp - last-arriving block ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Protocol of the CUDA toolkit's threadFenceReduction sample: a fence between a
// block's writes and its arrival, and one between the arrival and the reads of
// the last block.
//
//===----------------------------------------------------------------------===//

#include "LastArrivingBlock.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "Target/Kernel/IndexMath.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

LogicalResult cuda::inLastBlock(GpuBody &kernel, Value counters, Value counter,
                                int64_t count,
                                llvm::function_ref<LogicalResult()> body) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  IndexMath index{builder, loc};
  Type i32 = builder.getI32Type();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getIntegerAttr(i32, value));
  };
  kernel.named(counters, "counters");
  Value zeroth = index.constant(0);
  cuda::FenceOp::create(builder, loc);
  kernel.barrier();
  Value before = kernel.shared({1}, i32, "blocksBefore");
  auto equal = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, x, y);
  };
  Value isFirst = equal(kernel.thread(), zeroth);
  kernel.within(isFirst, [&] {
    Value known = memref::AtomicRMWOp::create(
        builder, loc, arith::AtomicRMWKind::addi, number(1), counters, counter);
    memref::StoreOp::create(builder, loc, known, before, zeroth);
  });
  kernel.barrier();
  Value isLast = equal(memref::LoadOp::create(builder, loc, before, zeroth),
                       number(count - 1));
  LogicalResult result = success();
  kernel.within(isLast, [&] {
    cuda::FenceOp::create(builder, loc);
    kernel.within(isFirst, [&] {
      memref::StoreOp::create(builder, loc, number(0), counters, counter);
    });
    result = body();
  });
  return result;
}

Value cuda::addParts(GpuBody &kernel, int64_t count,
                     llvm::function_ref<Value(Value part)> load) {
  OpBuilder &b = kernel.builder;
  IndexMath math{b, kernel.loc};
  Value first = load(math.constant(0));
  if (count == 1)
    return first;
  return math
      .loop(math.constant(1), math.constant(count), /*step=*/1, first,
            [&](Value part, ValueRange sum) -> Carried {
              kernel.named(part, "part");
              Value known = kernel.named(sum.front(), "sum");
              return {arith::AddFOp::create(b, kernel.loc, known, load(part))};
            })
      .front();
}
