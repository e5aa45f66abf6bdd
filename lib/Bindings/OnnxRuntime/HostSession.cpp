//===- HostSession.cpp - fallback to ONNX Runtime -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostSession.h"

#include <cstring>

using namespace mpc;
using namespace mpc::ort;

Result<std::unique_ptr<HostSession>>
HostSession::create(const HostApi &api, const std::string &bytes, int threads) {
  std::unique_ptr<HostSession> made(new HostSession(api));
  HostReader reader(api);
  // Returns the process's environment, whatever its arguments.
  reader.check(api(api::createEnv)(kOrtWarning, "mpc", &made->env));
  OrtSessionOptions *options = nullptr;
  if (reader.ok())
    reader.check(api(api::createSessionOptions)(&options));
  if (!options)
    return reader.status();
  reader.check(api(api::setOptimizationLevel)(options, kOptimizeAll));
  if (threads)
    reader.check(api(api::setIntraOpNumThreads)(options, threads));
  reader.check(api(api::createSessionFromArray)(
      made->env, bytes.data(), bytes.size(), options, &made->session));
  api(api::releaseSessionOptions)(options);
  if (!reader.ok())
    return reader.status();
  return made;
}

HostSession::~HostSession() {
  if (session)
    api(api::releaseSession)(session);
  if (env)
    api(api::releaseEnv)(env);
}

static std::vector<const char *>
pointersTo(const std::vector<std::string> &names) {
  std::vector<const char *> pointers;
  pointers.reserve(names.size());
  for (const std::string &name : names)
    pointers.push_back(name.c_str());
  return pointers;
}

Status HostSession::run(const std::vector<std::string> &inputNames,
                        const std::vector<const OrtValue *> &inputs,
                        const std::vector<std::string> &outputNames,
                        const std::vector<size_t> &outputPositions,
                        OrtKernelContext *context) const {
  std::vector<OrtValue *> results(outputNames.size());
  HostReader reader(api);
  reader.check(api(api::run)(session, nullptr, pointersTo(inputNames).data(),
                             inputs.data(), inputs.size(),
                             pointersTo(outputNames).data(), outputNames.size(),
                             results.data()));
  for (size_t i = 0; reader.ok() && i < results.size(); ++i) {
    Result<HostTensor> from = api.tensor(results[i]);
    if (!from.ok()) {
      reader.check(api.give(from.status()));
      break;
    }
    OrtValue *output = nullptr;
    reader.check(api(api::contextOutput)(context, outputPositions[i],
                                         from->shape.data(), from->shape.size(),
                                         &output));
    if (!reader.ok())
      break;
    Result<HostTensor> to = api.tensor(output);
    if (!to.ok())
      reader.check(api.give(to.status()));
    else if (to->dataType != from->dataType || to->bytes != from->bytes)
      reader.check(api.give(
          Status(StatusCode::InvalidArgument, "output '" + outputNames[i] + "'",
                 "ONNX Runtime has memory of another type for it")));
    else if (from->bytes)
      std::memcpy(to->data, from->data, from->bytes);
  }
  for (OrtValue *result : results)
    if (result)
      api(api::releaseValue)(result);
  return reader.status();
}
