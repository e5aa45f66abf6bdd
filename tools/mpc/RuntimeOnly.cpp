//===- RuntimeOnly.cpp - stubs for a build without a compiler -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MPC_RUNTIME_ONLY builds this instead of FullDriver.cpp, CompileSubject.cpp,
// ExplainSubject.cpp and GraphDrawing.cpp.
//
//===----------------------------------------------------------------------===//

#include "HtmlReport.h"
#include "PreparedModel.h"
#include "RunCommands.h"

#include "mpc/Support/Files.h"
#include "mpc/Target/CUDA/Host/HostDevice.h"

using namespace mpc;
using namespace mpc::tool;

namespace {

class RuntimeDriver : public Driver {
public:
  void declare(CLI::App &app) override {
    declareRun(app);
    declareBench(app);
    declareOwn(app);
  }
  std::string version() const override {
    return "mpc " MPC_VERSION ", without a compiler";
  }
};

} // namespace

std::unique_ptr<Driver> tool::makeDriver() {
  return std::make_unique<RuntimeDriver>();
}

std::vector<Status> tool::compileSubject(const CommonOptions &options,
                                         const std::vector<NamedArray> &, bool,
                                         const Device &, Reporter &,
                                         PreparedModel &, const std::string &) {
  return {Status(StatusCode::Unavailable, options.model,
                 "needs the compiler, which this build of mpc lacks; it only "
                 "runs .mpcx files")};
}

Result<Json> tool::explainSubject(const CommonOptions &,
                                  const std::vector<NamedArray> &,
                                  const Device &, const std::string &) {
  return Json();
}

Status tool::checkHtml(const std::string &path, bool) {
  return path.empty() ? Status() : checkWritable(path);
}

Status tool::writeHtml(const std::string &path, const std::string &command,
                       const Json &document) {
  return path.empty() ? Status()
                      : writeHtmlReport(path, command, document, Json());
}

Result<Device> tool::makeHostDevice(const CommonOptions &options) {
  HostDeviceOptions host;
  // "cuda:sm_90": the file was planned for it; nothing is compiled.
  if (options.target.rfind("cuda:", 0) == 0)
    host.architecture = options.target.substr(5);
  host.threads = options.threads;
  if (!options.quiet)
    host.onWarning = [](const Status &status) {
      printWarning(status.where(), status.text());
    };
  return cudaHostDevice(host);
}
