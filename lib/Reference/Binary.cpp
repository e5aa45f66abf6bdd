//===- Binary.cpp - elementwise ops of two and three operands -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"

#include "Evaluation.h"
#include "RoundingKernels.h"
#include "StridedLoop.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

//===----------------------------------------------------------------------===//
// Functions of two numbers
//===----------------------------------------------------------------------===//

using FloatFunction = double (*)(double, double);
using IntegerFunction = int64_t (*)(int64_t, int64_t, IntegerKind);

static FloatFunction floatFunction(Operation *op) {
  return TypeSwitch<Operation *, FloatFunction>(op)
      .Case([](AddOp) { return [](double a, double b) { return a + b; }; })
      .Case([](SubOp) { return [](double a, double b) { return a - b; }; })
      .Case([](MulOp) { return [](double a, double b) { return a * b; }; })
      .Case([](DivOp) { return [](double a, double b) { return a / b; }; })
      .Case([](MaxOp) { return &maximum; })
      .Case([](MinOp) { return &minimum; })
      .Case([](PowOp) {
        return [](double a, double b) { return std::pow(a, b); };
      })
      .Case([](Atan2Op) {
        return [](double a, double b) { return std::atan2(a, b); };
      })
      .Case([](RemOp) {
        return [](double a, double b) { return std::fmod(a, b); };
      })
      .Default([](Operation *) { return nullptr; });
}

static int64_t divideIntegers(int64_t a, int64_t b, IntegerKind kind) {
  if (b == 0)
    return 0;
  if (kind.isUnsigned)
    return static_cast<int64_t>(static_cast<uint64_t>(a) /
                                static_cast<uint64_t>(b));
  // The lowest value over -1 wraps; the processor's division would trap.
  return b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b;
}

static int64_t remainderOfIntegers(int64_t a, int64_t b, IntegerKind kind) {
  if (b == 0)
    return 0;
  if (kind.isUnsigned)
    return static_cast<int64_t>(static_cast<uint64_t>(a) %
                                static_cast<uint64_t>(b));
  return b == -1 ? 0 : a % b;
}

static int64_t multiplyIntegers(int64_t a, int64_t b, IntegerKind) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) *
                              static_cast<uint64_t>(b));
}

/// A negative exponent gives the truncated quotient 1 / a^-b.
static int64_t powerOfIntegers(int64_t a, int64_t b, IntegerKind kind) {
  if (!kind.isUnsigned && b < 0) {
    if (a == 1)
      return 1;
    if (a == -1)
      return b % 2 == 0 ? 1 : -1;
    return 0;
  }
  int64_t power = 1;
  for (uint64_t rest = b; rest != 0; rest >>= 1) {
    if (rest & 1)
      power = multiplyIntegers(power, a, kind);
    a = multiplyIntegers(a, a, kind);
  }
  return power;
}

/// Zero-extended bits of `value`.
static uint64_t bitsOf(int64_t value, IntegerKind kind) {
  return static_cast<uint64_t>(value) & (~uint64_t(0) >> (64 - kind.width));
}

static IntegerFunction integerFunction(Operation *op) {
  return TypeSwitch<Operation *, IntegerFunction>(op)
      .Case([](AddOp) {
        return [](int64_t a, int64_t b, IntegerKind) {
          return static_cast<int64_t>(static_cast<uint64_t>(a) +
                                      static_cast<uint64_t>(b));
        };
      })
      .Case([](SubOp) {
        return [](int64_t a, int64_t b, IntegerKind) {
          return static_cast<int64_t>(static_cast<uint64_t>(a) -
                                      static_cast<uint64_t>(b));
        };
      })
      .Case([](MulOp) { return &multiplyIntegers; })
      .Case([](DivOp) { return &divideIntegers; })
      .Case([](RemOp) { return &remainderOfIntegers; })
      .Case([](PowOp) { return &powerOfIntegers; })
      .Case([](MaxOp) {
        return [](int64_t a, int64_t b, IntegerKind kind) {
          return kind.less(a, b) ? b : a;
        };
      })
      .Case([](MinOp) {
        return [](int64_t a, int64_t b, IntegerKind kind) {
          return kind.less(b, a) ? b : a;
        };
      })
      .Case([](AndOp) {
        return [](int64_t a, int64_t b, IntegerKind) { return a & b; };
      })
      .Case([](OrOp) {
        return [](int64_t a, int64_t b, IntegerKind) { return a | b; };
      })
      .Case([](XorOp) {
        return [](int64_t a, int64_t b, IntegerKind) { return a ^ b; };
      })
      .Case([](ShiftLeftOp) {
        return [](int64_t a, int64_t b, IntegerKind kind) -> int64_t {
          return bitsOf(b, kind) >= kind.width ? 0 : bitsOf(a, kind) << b;
        };
      })
      .Case([](ShiftRightOp) {
        return [](int64_t a, int64_t b, IntegerKind kind) -> int64_t {
          return bitsOf(b, kind) >= kind.width ? 0 : bitsOf(a, kind) >> b;
        };
      })
      .Default([](Operation *) { return nullptr; });
}

template <typename Less, typename Equal>
static bool holds(ComparePredicate predicate, Less less, Equal equal) {
  switch (predicate) {
  case ComparePredicate::eq:
    return equal(0);
  case ComparePredicate::ne:
    return !equal(0);
  case ComparePredicate::lt:
    return less(false);
  case ComparePredicate::le:
    return less(false) || equal(0);
  case ComparePredicate::gt:
    return less(true);
  case ComparePredicate::ge:
    return less(true) || equal(0);
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Loop over the result with broadcast operands.
template <size_t N>
static StridedLoop<N> broadcastLoop(const Evaluation &evaluation) {
  ArrayRef<int64_t> shape = evaluation.resultType().getShape();
  std::array<SmallVector<int64_t>, N> strides;
  for (size_t i = 0; i < N; ++i)
    strides[i] = broadcastStrides(evaluation.operand(i).getShape(), shape);
  return StridedLoop<N>(shape, strides);
}

static void evaluateCompare(Evaluation &evaluation,
                            ComparePredicate predicate) {
  const Tensor &lhs = evaluation.operand(0), &rhs = evaluation.operand(1);
  auto result = evaluation.addResult().ints();
  StridedLoop<2> loop = broadcastLoop<2>(evaluation);
  if (lhs.isFloat()) {
    loop.run([&](int64_t position, const std::array<int64_t, 2> &at) {
      double a = lhs.floats()[at[0]], b = rhs.floats()[at[1]];
      result[position] = holds(
          predicate, [&](bool swap) { return swap ? b < a : a < b; },
          [&](int) { return a == b; });
    });
    return;
  }
  IntegerKind kind(lhs.getElementType());
  loop.run([&](int64_t position, const std::array<int64_t, 2> &at) {
    int64_t a = lhs.ints()[at[0]], b = rhs.ints()[at[1]];
    result[position] = holds(
        predicate,
        [&](bool swap) { return swap ? kind.less(b, a) : kind.less(a, b); },
        [&](int) { return a == b; });
  });
}

static void evaluateSelect(Evaluation &evaluation) {
  ArrayRef<int64_t> condition = evaluation.operand(0).ints();
  const Tensor &onTrue = evaluation.operand(1),
               &onFalse = evaluation.operand(2);
  Tensor &result = evaluation.addResult();
  StridedLoop<3> loop = broadcastLoop<3>(evaluation);
  auto run = [&](auto taken, auto other, auto target) {
    loop.run([&](int64_t position, const std::array<int64_t, 3> &at) {
      target[position] = condition[at[0]] ? taken[at[1]] : other[at[2]];
    });
  };
  if (result.isFloat())
    run(onTrue.floats(), onFalse.floats(), result.floats());
  else
    run(onTrue.ints(), onFalse.ints(), result.ints());
}

static void evaluateClamp(Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0), &low = evaluation.operand(1),
               &high = evaluation.operand(2);
  Tensor &result = evaluation.addResult();
  StridedLoop<3> loop = broadcastLoop<3>(evaluation);
  if (result.isFloat()) {
    auto target = result.floats();
    loop.run([&](int64_t position, const std::array<int64_t, 3> &at) {
      target[position] =
          minimum(maximum(input.floats()[at[0]], low.floats()[at[1]]),
                  high.floats()[at[2]]);
    });
    return;
  }
  IntegerKind kind(result.getElementType());
  auto target = result.ints();
  loop.run([&](int64_t position, const std::array<int64_t, 3> &at) {
    int64_t value = input.ints()[at[0]];
    if (kind.less(value, low.ints()[at[1]]))
      value = low.ints()[at[1]];
    if (kind.less(high.ints()[at[2]], value))
      value = high.ints()[at[2]];
    target[position] = value;
  });
}

FailureOr<bool> mpc::reference::evaluateBinary(Evaluation &evaluation) {
  Operation *op = evaluation.op;
  if (auto compare = dyn_cast<CompareOp>(op)) {
    evaluateCompare(evaluation, compare.getPredicate());
    return true;
  }
  if (isa<SelectOp>(op)) {
    evaluateSelect(evaluation);
    return true;
  }
  if (isa<ClampOp>(op)) {
    evaluateClamp(evaluation);
    return true;
  }
  if (op->getNumOperands() != 2)
    return false;
  const Tensor &lhs = evaluation.operand(0), &rhs = evaluation.operand(1);
  if (lhs.isFloat()) {
    FloatFunction function = floatFunction(op);
    if (!function)
      return false;
    auto result = evaluation.addResult().floats();
    ArrayRef<double> a = lhs.floats(), b = rhs.floats();
    broadcastLoop<2>(evaluation)
        .run([&](int64_t position, const std::array<int64_t, 2> &at) {
          result[position] = function(a[at[0]], b[at[1]]);
        });
    evaluation.roundResults();
    return true;
  }
  IntegerFunction function = integerFunction(op);
  if (!function)
    return false;
  auto result = evaluation.addResult().ints();
  ArrayRef<int64_t> a = lhs.ints(), b = rhs.ints();
  IntegerKind kind(lhs.getElementType());
  broadcastLoop<2>(evaluation)
      .run([&](int64_t position, const std::array<int64_t, 2> &at) {
        result[position] = kind.wrap(function(a[at[0]], b[at[1]], kind));
      });
  return true;
}
