//===- ProducerConsumerSync.cpp - producer-consumer sync in a launch ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProducerConsumerSync.h"

#include "Target/Kernel/IndexMath.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static constexpr int64_t kTickets = 0, kDone = 1, kArrived = 2;

Value ProducerConsumerSync::number(int64_t value) {
  return arith::ConstantOp::create(
      body.builder, body.loc,
      body.builder.getIntegerAttr(body.builder.getI32Type(), value));
}

Value ProducerConsumerSync::count(int64_t by, int64_t counter) {
  IndexMath index{body.builder, body.loc};
  return memref::AtomicRMWOp::create(body.builder, body.loc,
                                     arith::AtomicRMWKind::addi, number(by),
                                     counters, index.constant(counter));
}

void ProducerConsumerSync::onlyFirstThread(llvm::function_ref<void()> then) {
  IndexMath index{body.builder, body.loc};
  body.within(index.less(body.thread(), index.constant(1)), then);
}

Value ProducerConsumerSync::takeBlockIndex() {
  OpBuilder &b = body.builder;
  IndexMath index{b, body.loc};
  Value ticket = body.shared({1}, b.getI32Type(), "ticket");
  onlyFirstThread([&] {
    memref::StoreOp::create(b, body.loc, count(1, kTickets), ticket,
                            index.constant(0));
  });
  body.barrier();
  Value drawn = memref::LoadOp::create(b, body.loc, ticket, index.constant(0));
  return body.named(
      arith::IndexCastOp::create(b, body.loc, b.getIndexType(), drawn),
      "number");
}

void ProducerConsumerSync::publish() {
  cuda::FenceOp::create(body.builder, body.loc);
  body.barrier();
  onlyFirstThread([&] { count(1, kDone); });
}

void ProducerConsumerSync::await() {
  OpBuilder &b = body.builder;
  IndexMath index{b, body.loc};
  Value arrived = body.shared({1}, b.getI32Type(), "arrived");
  onlyFirstThread([&] {
    auto wait = scf::WhileOp::create(b, body.loc, TypeRange(), ValueRange());
    // Polling threads leave issue slots to the producers.
    wait->setAttr("mpc.pause", b.getUnitAttr());
    {
      OpBuilder::InsertionGuard guard(b);
      b.createBlock(&wait.getBefore());
      // Only atomics reliably observe the arrivals of other blocks.
      Value done = body.named(count(0, kDone), "done");
      Value isOpen = arith::CmpIOp::create(
          b, body.loc, arith::CmpIPredicate::slt, done, number(makers));
      scf::ConditionOp::create(b, body.loc, isOpen, ValueRange());
      b.createBlock(&wait.getAfter());
      scf::YieldOp::create(b, body.loc);
    }
    cuda::FenceOp::create(b, body.loc);
    memref::StoreOp::create(b, body.loc, count(1, kArrived), arrived,
                            index.constant(0));
  });
  body.barrier();
  cuda::FenceOp::create(b, body.loc);
  // The last consumer to arrive resets all counters.
  Value before =
      memref::LoadOp::create(b, body.loc, arrived, index.constant(0));
  Value isLast = arith::CmpIOp::create(b, body.loc, arith::CmpIPredicate::eq,
                                       before, number(readers - 1));
  body.within(isLast, [&] {
    onlyFirstThread([&] {
      for (int64_t counter : {kTickets, kDone, kArrived})
        memref::StoreOp::create(b, body.loc, number(0), counters,
                                index.constant(counter));
    });
  });
}
