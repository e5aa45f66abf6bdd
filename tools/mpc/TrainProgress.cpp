//===- TrainProgress.cpp - progress display of training -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No packaged C++ progress bar drops metrics that do not fit the terminal.
//
//===----------------------------------------------------------------------===//

#include "Train.h"

#include "Runtime/Environment.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
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

std::vector<ProgressPart> tool::describeProgress(const FitProgress &progress) {
  std::vector<ProgressPart> parts = {
      {"epoch " + std::to_string(progress.epoch) + "/" +
           std::to_string(progress.epochs),
       5},
      {"step " + std::to_string(progress.step) + "/" +
           std::to_string(progress.steps),
       0},
      {format("loss %.4f", progress.train.loss), 1}};
  if (progress.train.accuracy)
    parts.push_back(
        {format("accuracy %.2f %%", 100 * *progress.train.accuracy), 4});
  if (progress.lossScale.scale != 1 || progress.lossScale.skippedSteps > 0)
    parts.push_back({format("scale %g", progress.lossScale.scale) +
                         "  skipped " +
                         std::to_string(progress.lossScale.skippedSteps),
                     6});
  parts.push_back({format("%.0f samples/s", progress.samplesPerSecond), 3});
  parts.push_back({"left " + clockText(progress.secondsLeft), 2});
  return parts;
}

ProgressLine::ProgressLine(bool enabled)
    : enabled(enabled && ::isatty(STDERR_FILENO) && !detail::isDumbTerminal()) {
}

void ProgressLine::clear() {
  if (visible)
    std::fputs("\r\033[K", stderr);
  visible = false;
}

void ProgressLine::show(double share, const std::vector<ProgressPart> &parts) {
  if (!enabled)
    return;
  winsize window{};
  size_t columns = 80;
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
    columns = window.ws_col;
  constexpr size_t kBar = 20, kFewestColumns = 72;
  std::string line;
  if (share >= 0 && columns >= kFewestColumns) {
    size_t full = std::min(kBar, size_t(share * double(kBar)));
    line = "[" + std::string(full, '#') + std::string(kBar - full, '.') + "]";
  }
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(parts[a].rank, a) < std::pair(parts[b].rank, b);
  });
  std::vector<bool> fits(parts.size());
  size_t width = line.size();
  for (size_t index : order) {
    width += parts[index].text.size() + (width ? 2 : 0);
    // The last column would wrap the cursor.
    if (width >= columns)
      break;
    fits[index] = true;
  }
  for (size_t i = 0; i < parts.size(); ++i)
    if (fits[i])
      line += (line.empty() ? "" : "  ") + parts[i].text;
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
  // Fewer points are read faster as the numbers above.
  constexpr size_t kFewestPoints = 4;
  if (finite.size() < kFewestPoints)
    return {};
  // Average equal shares, so that a column shows all of its points; few points
  // take several columns each.
  size_t width = size_t(columns);
  std::vector<double> curve(width);
  for (size_t i = 0; i < width; ++i) {
    size_t begin = i * finite.size() / width,
           end = std::max((i + 1) * finite.size() / width, begin + 1);
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
