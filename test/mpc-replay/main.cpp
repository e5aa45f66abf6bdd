//===- main.cpp - replay recordings ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Traverses a folder of recordings, replays each file according to its kind and
// prints the agreement. Exit codes: 0 all covered entries agree, 1 they do not
// or the input cannot be read, 2 bad usage.
//
//===----------------------------------------------------------------------===//

#include "Replay.h"

#include "mpc/InitAllDialects.h"
#include "mpc/InitAllPasses.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

using namespace mpc::replay;
namespace fs = std::filesystem;

namespace {

/// Identification of one kind of recording.
struct Format {
  /// Null if the recordings do not name their system.
  const char *system;
  /// Fields that only this kind has.
  std::vector<std::string> fields;
  Replayer *replay;
};

const Format kFormats[] = {
    {"torch.autocast", {"ops"}, replayTorchOps},
    {"torch.autocast", {"model", "forward"}, replayTorchModel},
    {"torch.autocast", {"programs"}, replayTorchPrograms},
    {"TensorFlow grappler", {"AllowList"}, replayTensorFlowLists},
    {"TensorFlow grappler", {"nodes"}, replayTensorFlowGraphs},
    {"TensorFlow grappler", {"programs"}, replayTensorFlowGraphs},
    {"keras dtype policies", {"policies"}, replayKerasPolicies},
    {"keras dtype policies", {"layers"}, replayKerasLayers},
    {"keras dtype policies", {"models"}, replayKerasModels},
    {"keras dtype policies", {"fixed", "random"}, replayKerasMaps},
    {"torch.amp.GradScaler", {"steps"}, replayLossScale},
    {"torch.amp.GradScaler", {"events"}, replayLossScaleTrace},
    {"keras.optimizers.LossScaleOptimizer", {"steps"}, replayLossScale},
    {"keras.optimizers.LossScaleOptimizer", {"events"}, replayLossScaleTrace},
    {"tf_keras.mixed_precision.LossScaleOptimizer", {"steps"}, replayLossScale},
    {"tf_keras.mixed_precision.LossScaleOptimizer",
     {"events"},
     replayLossScaleTrace},
    {nullptr, {"optimizer", "options", "recorded"}, replayOptimizer},
};

const Format *findFormat(const Json &recording) {
  auto system = recording.find("system");
  bool says = system != recording.end() && system->is_string();
  for (const Format &format : kFormats)
    if (says == (format.system != nullptr) &&
        (!says || *system == format.system) &&
        std::all_of(format.fields.begin(), format.fields.end(),
                    [&](const std::string &field) {
                      return recording.contains(field);
                    }))
      return &format;
  return nullptr;
}

/// A file of gradients that recordings share.
bool isStream(const Json &file) {
  return file.is_object() && file.contains("gradients") &&
         file.contains("initial") && !file.contains("recorded");
}

/// Prints the result of `file` and adds it to `sum`. Returns true if all
/// covered entries agree, or nullopt if the file cannot be read.
std::optional<bool> replayFile(const fs::path &file, const std::string &shown,
                               mlir::MLIRContext &context, Tally &sum) {
  Json recording;
  try {
    std::ifstream in(file);
    recording = Json::parse(in);
    if (isStream(recording))
      return true;
    if (auto stream = recording.find("stream"); stream != recording.end()) {
      std::ifstream other(file.parent_path() / stream->get<std::string>());
      *stream = Json::parse(other);
    }
  } catch (const Json::exception &error) {
    llvm::errs() << shown << ": " << error.what() << "\n";
    return std::nullopt;
  }
  const Format *format = findFormat(recording);
  if (!format) {
    llvm::errs()
        << shown
        << ": holds no recording that is known here; its 'system' and "
           "fields fit no format of autocast, keras_policy, loss_scale "
           "or optimizers\n";
    return std::nullopt;
  }
  llvm::Expected<Tally> tally = Tally();
  try {
    tally = format->replay(recording, context);
  } catch (const std::exception &error) { // a field of another form
    llvm::errs() << shown << ": " << error.what() << "\n";
    return std::nullopt;
  }
  if (!tally) {
    llvm::errs() << shown << ": " << llvm::toString(tally.takeError()) << "\n";
    return std::nullopt;
  }
  llvm::outs() << shown << ": " << tally->agree << " of " << tally->total
               << " agree (" << tally->covered << " covered)\n";
  for (const auto &[why, count] : tally->deliberate)
    llvm::outs() << "  deliberate difference: " << count << " steps: " << why
                 << "\n";
  for (const std::string &line : tally->disagreements)
    llvm::outs() << "  differs: " << line << "\n";
  for (const std::string &line : tally->uncovered)
    llvm::outs() << "  not covered: " << line << "\n";
  sum.agree += tally->agree;
  sum.total += tally->total;
  sum.covered += tally->covered;
  return tally->agree == tally->covered;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2 || argv[1][0] == '-') {
    llvm::errs() << "usage: mpc-replay FOLDER\n";
    return 2;
  }
  fs::path folder = argv[1];
  std::error_code error;
  std::vector<fs::path> files;
  for (auto it = fs::recursive_directory_iterator(folder, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error))
    if (it->path().extension() == ".json")
      files.push_back(it->path());
  if (error) {
    llvm::errs() << folder.string() << ": " << error.message() << "\n";
    return 1;
  }
  if (files.empty()) {
    llvm::errs() << folder.string() << ": holds no .json file\n";
    return 1;
  }
  std::sort(files.begin(), files.end());

  mlir::DialectRegistry registry;
  mpc::registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();

  bool good = true;
  Tally sum;
  for (const fs::path &file : files)
    good &=
        replayFile(file, file.lexically_relative(folder).string(), context, sum)
            .value_or(false);
  if (files.size() > 1)
    llvm::outs() << "all files: " << sum.agree << " of " << sum.total
                 << " agree (" << sum.covered << " covered)\n";
  return good ? 0 : 1;
}
