//===- train.cpp - a program that trains a model --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trains a classifier by a loop of its own, then by fit().
// usage: train MODEL DATA CHECKPOINTS POLICY
//
//===----------------------------------------------------------------------===//

#include <mpc/Training/Trainer.h>

#include <cmath>
#include <cstdio>
#include <numeric>

static int fail(const mpc::Status &status) {
  std::fprintf(stderr, "train: %s\n", status.toString().c_str());
  for (const std::string &note : status.notes())
    std::fprintf(stderr, "  %s\n", note.c_str());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 5)
    return 2;
  // A data set is a folder of MNIST's kind, an .npz, or arrays of the host's.
  mpc::Result<mpc::Dataset> data = mpc::Dataset::read(argv[2], "train");
  if (!data.ok())
    return fail(data.status());
  mpc::Result<mpc::Dataset> test = mpc::Dataset::read(argv[2], "test");
  if (!test.ok())
    return fail(test.status());

  mpc::CompileOptions options;
  options.policy = argv[4];
  options.batch = 16;
  mpc::TrainingOptions &training = options.training.emplace();
  training.loss.kind = "softmax_cross_entropy";
  training.optimizer.kind = "adam";
  training.schedule.base = 0.005;
  training.initialSeed = 1;
  mpc::Result<mpc::Device> device = mpc::Device::cpu({.threads = 2});
  if (!device.ok())
    return fail(device.status());
  mpc::Result<mpc::Trainer> trainer =
      mpc::Trainer::create(*device, argv[1], options);
  if (!trainer.ok())
    return fail(trainer.status());

  // A loop of the host's own looks at the gradients between the halves of a
  // step, without the loss scale.
  mpc::Normalization pixels = data->unitRange();
  mpc::Result<mpc::Batcher> batcher = trainer->batcher(*data, pixels);
  if (!batcher.ok())
    return fail(batcher.status());
  std::vector<int64_t> order = mpc::epochOrder(data->size(), /*seed=*/3, 0);
  size_t batch = size_t(trainer->batch());
  double largest = 0;
  for (size_t at = 0; at + batch <= order.size(); at += batch) {
    mpc::Result<std::vector<mpc::Buffer>> arrays =
        batcher->gather(std::span(order).subspan(at, batch));
    if (!arrays.ok())
      return fail(arrays.status());
    if (mpc::Status status = trainer->forwardBackward(*arrays); !status.ok())
      return fail(status);
    mpc::Result<std::vector<mpc::NamedTensor>> gradients =
        trainer->gradients(mpc::GradientForm::Unscaled);
    if (!gradients.ok())
      return fail(gradients.status());
    for (mpc::NamedTensor &gradient : *gradients)
      for (float value : gradient.data.as<float>())
        largest = std::fmax(largest, std::fabs(value));
    // apply() checks, clips and reads the gradients that the host sets, such as
    // the sum over several machines.
    if (mpc::Status status =
            trainer->setGradients(*gradients, mpc::GradientForm::Unscaled);
        !status.ok())
      return fail(status);
    if (mpc::Status status = trainer->apply(); !status.ok())
      return fail(status);
  }
  mpc::Result<mpc::TrainingMetrics> seen = trainer->takeMetrics();
  if (!seen.ok())
    return fail(seen.status());
  std::printf("own loop: %lld batches, loss %s, gradients %s\n",
              static_cast<long long>(seen->batches),
              std::isfinite(seen->loss) ? "finite" : "lost",
              largest > 0 ? "seen" : "missing");

  // Then fit(), which shuffles, evaluates and writes checkpoints.
  mpc::FitOptions fit;
  fit.epochs = 6;
  fit.test = &*test;
  fit.checkpoints = argv[3];
  fit.onEpoch = [](const mpc::EpochReport &epoch) {
    std::printf("epoch %lld\n", static_cast<long long>(epoch.epoch));
  };
  mpc::Result<mpc::FitReport> report = trainer->fit(*data, fit);
  if (!report.ok())
    return fail(report.status());
  double accuracy = report->epochs.back().test->accuracy.value_or(0);
  std::printf("%lld steps, test accuracy %s 90 %%\n",
              static_cast<long long>(report->steps),
              accuracy > 0.9 ? "above" : "below");
  return report->diverged;
}
