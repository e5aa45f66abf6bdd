//===- ElementwiseCases.cpp - random elementwise ops ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VjpCases.h"

using namespace mpc::vjptest;

namespace {

/// A unary op whose operand is sampled from `domain`.
template <Domain domain> void unary(Draw &d, std::string text) {
  Shape shape = d.shape(d.extent(1, 3));
  d.parameter(shape, domain);
  d.op(text, {shape}, Types::Result);
}

/// A binary op of which either operand broadcasts in some dimension.
void binary(Draw &d, std::string text, Domain lhs = normal,
            Domain rhs = normal) {
  Shape result = d.shape(3, 2), left = result, right = result;
  left[d.extent(0, 2)] = 1;
  if (d.coin())
    right.erase(right.begin());
  else
    right[d.extent(0, 2)] = 1;
  for (int i = 0; i < 3; ++i) {
    int64_t fromRight = i + int64_t(right.size()) - 3;
    result[i] = std::max(left[i], fromRight < 0 ? 1 : right[fromRight]);
  }
  d.parameter(left, lhs);
  d.parameter(right, rhs);
  d.op(text, {result});
}

} // namespace

#define UNARY(NAME, DOMAIN)                                                    \
  {"mpc." NAME, [](Draw &d) { unary<DOMAIN>(d, "mpc." NAME " %0"); }}
#define BINARY(NAME, LHS, RHS)                                                 \
  {"mpc." NAME, [](Draw &d) { binary(d, "mpc." NAME " %0, %1", LHS, RHS); }}

std::vector<OpCase> mpc::vjptest::elementwiseCases() {
  return {
      UNARY("abs", awayFromZero),
      UNARY("neg", normal),
      UNARY("sign", awayFromZero),
      UNARY("floor", betweenIntegers),
      UNARY("ceil", betweenIntegers),
      UNARY("round", nearOne),
      UNARY("exp", normal),
      UNARY("expm1", normal),
      UNARY("log", positive),
      UNARY("log1p", positive),
      UNARY("sqrt", positive),
      UNARY("rsqrt", positive),
      UNARY("reciprocal", awayFromZero),
      UNARY("sin", normal),
      UNARY("cos", normal),
      UNARY("tan", insideUnit),
      UNARY("asin", insideUnit),
      UNARY("acos", insideUnit),
      UNARY("atan", normal),
      UNARY("sinh", normal),
      UNARY("cosh", normal),
      UNARY("asinh", normal),
      UNARY("acosh", aboveOne),
      UNARY("atanh", insideUnit),
      UNARY("tanh", normal),
      UNARY("sigmoid", normal),
      UNARY("erf", normal),
      UNARY("relu", awayFromZero),
      UNARY("silu", normal),
      UNARY("softplus", normal),
      UNARY("gelu", normal),
      {"mpc.gelu tanh",
       [](Draw &d) { unary<normal>(d, "mpc.gelu %0 form(tanh)"); }},
      {"mpc.leaky_relu",
       [](Draw &d) { unary<awayFromZero>(d, "mpc.leaky_relu %0 alpha(0.3)"); }},
      {"mpc.leaky_relu falling",
       [](Draw &d) {
         unary<awayFromZero>(d, "mpc.leaky_relu %0 alpha(-0.3)");
       }},
      {"mpc.elu",
       [](Draw &d) { unary<awayFromZero>(d, "mpc.elu %0 alpha(0.7)"); }},
      {"mpc.cast",
       [](Draw &d) {
         Shape shape = d.shape(2);
         d.parameter(shape);
         d.op("mpc.cast %0", {shape}, Types::To);
       }},
      BINARY("add", normal, normal),
      BINARY("sub", normal, normal),
      BINARY("mul", normal, normal),
      BINARY("div", normal, awayFromZero),
      BINARY("max", normal, normal),
      BINARY("min", normal, normal),
      BINARY("pow", positive, normal),
      BINARY("atan2", normal, awayFromZero),
      // |lhs| < |rhs|, and one to three times.
      BINARY("rem", insideUnit, aboveOne),
      {"mpc.rem more than once",
       [](Draw &d) {
         Shape shape = d.shape(2);
         d.parameter(shape, [](Generator &g) { return 10.5 + insideUnit(g); });
         d.parameter(shape,
                     [](Generator &g) { return 4.0 + 0.1 * insideUnit(g); });
         d.op("mpc.rem %0, %1", {shape});
       }},
      {"mpc.select",
       [](Draw &d) {
         Shape shape = d.shape(2, 2);
         d.integers(shape, 0, 1, "i1");
         d.parameter({1, shape[1]});
         d.parameter({shape[0], 1});
         d.op("mpc.select %0, %1, %2", {shape});
       }},
      {"mpc.clamp",
       [](Draw &d) {
         Shape shape = d.shape(2, 2);
         d.parameter(shape);
         d.parameter({shape[1]},
                     [](Generator &g) { return -0.8 + 0.1 * normal(g); });
         d.parameter({}, [](Generator &g) { return 0.7 + 0.1 * normal(g); });
         d.op("mpc.clamp %0, %1, %2", {shape});
       }},
  };
}
