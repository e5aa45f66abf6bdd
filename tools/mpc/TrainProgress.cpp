//===- TrainProgress.cpp - progress display of training -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No packaged C++ progress bar displays metrics next to the bar.
//
//===----------------------------------------------------------------------===//

#include "Train.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace mpc;
using namespace mpc::tool;

static std::string format(const char *form, double value) {
  // Drop the sign of NaN.
  if (std::isnan(value))
    value = std::fabs(value);
  char text[64];
  std::snprintf(text, sizeof(text), form, value);
  return text;
}

/// Formats a duration: "1:02:03" or "02:03".
static std::string clockText(double seconds) {
  auto whole = int64_t(std::max(0.0, std::min(seconds, 1e9)));
  char text[64];
  if (whole >= 3600)
    std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld",
                  (long long)(whole / 3600), (long long)(whole / 60 % 60),
                  (long long)(whole % 60));
  else
    std::snprintf(text, sizeof(text), "%02lld:%02lld", (long long)(whole / 60),
                  (long long)(whole % 60));
  return text;
}

std::string tool::describeProgress(const FitProgress &progress) {
  std::string text = "epoch " + std::to_string(progress.epoch) + "/" +
                     std::to_string(progress.epochs) + "  step " +
                     std::to_string(progress.step) + "/" +
                     std::to_string(progress.steps) +
                     format("  loss %.4f", progress.train.loss);
  if (progress.train.accuracy)
    text += format("  accuracy %.2f %%", 100 * *progress.train.accuracy);
  if (progress.lossScale.scale != 1 || progress.lossScale.skippedSteps > 0)
    text += format("  scale %g", progress.lossScale.scale) + "  skipped " +
            std::to_string(progress.lossScale.skippedSteps);
  return text + format("  %.0f samples/s", progress.samplesPerSecond) +
         "  left " + clockText(progress.secondsLeft);
}

ProgressLine::ProgressLine(bool enabled)
    : enabled(enabled && ::isatty(STDERR_FILENO)) {}

void ProgressLine::clear() {
  if (visible)
    std::fputs("\r\033[K", stderr);
  visible = false;
}

void ProgressLine::show(const FitProgress &progress) {
  if (!enabled)
    return;
  winsize window{};
  size_t columns = 80;
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
    columns = window.ws_col;
  constexpr size_t kBar = 20;
  double share =
      progress.steps > 0 ? double(progress.step) / double(progress.steps) : 0;
  size_t full = std::min(kBar, size_t(share * double(kBar)));
  std::string line = "[" + std::string(full, '#') +
                     std::string(kBar - full, '.') + "] " +
                     describeProgress(progress);
  if (line.size() >= columns)
    line.resize(columns - 1);
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
  visible = true;
}

std::string tool::plotCurve(const std::string &title,
                            const std::vector<double> &points, int columns,
                            int rows) {
  std::vector<double> finite;
  for (double point : points)
    if (std::isfinite(point))
      finite.push_back(point);
  if (finite.size() < 2)
    return {};
  // Average equal shares, so that a column shows all of its points.
  size_t width = std::min(size_t(columns), finite.size());
  std::vector<double> curve(width);
  for (size_t i = 0; i < width; ++i) {
    size_t begin = i * finite.size() / width,
           end = (i + 1) * finite.size() / width;
    double sum = 0;
    for (size_t k = begin; k < end; ++k)
      sum += finite[k];
    curve[i] = sum / double(end - begin);
  }
  auto [low, high] = std::minmax_element(curve.begin(), curve.end());
  double bottom = *low, range = *high - *low;
  std::string text = title;
  for (int row = rows - 1; row >= 0; --row) {
    bool labelled = row == 0 || row == rows - 1;
    std::string line =
        labelled ? format("%10.4g |", row == 0 ? bottom : bottom + range)
                 : std::string(11, ' ') + "|";
    for (double value : curve) {
      int height = range > 0
                       ? int(std::lround((value - bottom) / range * (rows - 1)))
                       : 0;
      line += height == row ? '*' : ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += "\n" + line;
  }
  return text + "\n" + std::string(11, ' ') + "+" + std::string(width, '-');
}
