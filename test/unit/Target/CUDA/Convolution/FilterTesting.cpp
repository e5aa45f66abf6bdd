//===- FilterTesting.cpp - filter gradients in a given layout -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FilterTesting.h"

#include "Target/CUDA/Convolution/FilterGradientProblem.h"

#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cuda;

std::string mpc::withForm(const std::string &text, FilterForm form,
                          const CudaTarget &target) {
  ParsedGemm parsed(text, target);
  std::optional<FilterGradientOps> ops = FilterGradientOps::of(parsed.kernel);
  if (!ops) {
    ADD_FAILURE() << "no gradient of a filter in\n" << text;
    return "";
  }
  std::optional<Schedule> schedule;
  if (form == FilterForm::Threads)
    schedule = scheduleDirectFilter(FilterGradientProblem(*ops), target);
  else if (std::unique_ptr<GemmPlan> plan =
               GemmPlan::of(parsed.kernel, target,
                            FusedGemm::filterGradient(parsed.kernel, target)))
    schedule = plan->schedule();
  if (!schedule)
    return "";
  schedule->family = "filter";
  parsed.kernel->setAttr(exe::kScheduleAttr,
                         schedule->toAttribute(parsed.context.get()));
  std::string result;
  llvm::raw_string_ostream os(result);
  parsed.module->print(os);
  return result;
}

void FilterBatch::add(const std::string &text,
                      const std::map<std::string, std::string> &by) {
  std::string kernel = substitute(text, by);
  check.family = "filter";
  batch.add(withForm(kernel, FilterForm::Threads, check.target), check);
  std::string product = withForm(kernel, FilterForm::Product, check.target);
  if (product.empty())
    return;
  batch.add(product, check);
  ++products;
}

FilterBatch::~FilterBatch() {
  EXPECT_EQ(products, expected);
  batch.expect();
}
