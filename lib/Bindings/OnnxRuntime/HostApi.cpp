//===- HostApi.cpp - calls into ONNX Runtime ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostApi.h"

using namespace mpc;
using namespace mpc::ort;

Status HostApi::load(const OrtApiBase &base) {
  versionText = base.getVersionString();
  table = base.getApi(kApiVersion);
  if (!table) {
    // Creating a status has been in the interface since its first version.
    table = base.getApi(1);
    return Status(StatusCode::Unavailable, "onnxruntime",
                  "version 1." + std::to_string(kApiVersion) +
                      " or later is needed, but this is " + versionText);
  }
  epTable = (*this)(api::getEpApi)();
  editorTable = (*this)(api::getModelEditorApi)();
  if (!epTable || !editorTable)
    return Status(StatusCode::Unavailable, "onnxruntime",
                  "this build of version " + versionText +
                      " supports no plugin execution providers");
  return {};
}

Status HostApi::take(OrtStatus *status) const {
  if (!status)
    return {};
  bool isArgument = (*this)(api::getErrorCode)(status) == kOrtInvalidArgument;
  Status taken(isArgument ? StatusCode::InvalidArgument : StatusCode::Internal,
               "onnxruntime", (*this)(api::getErrorMessage)(status));
  (*this)(api::releaseStatus)(status);
  return taken;
}

OrtStatus *HostApi::give(const Status &status) const {
  if (status.ok())
    return nullptr;
  std::string text = status.toString();
  for (const std::string &note : status.notes())
    text += "\n" + note;
  int code = status.code() == StatusCode::InvalidArgument ? kOrtInvalidArgument
                                                          : kOrtFail;
  return table ? (*this)(api::createStatus)(code, text.c_str()) : nullptr;
}

void HostApi::log(const OrtLogger *logger, OrtLoggingLevel level,
                  const std::string &text) const {
  // A message that cannot be written is lost.
  (void)take(
      (*this)(api::logMessage)(logger, level, text.c_str(), "mpc", 0, "mpc"));
}

Result<HostTensor> HostApi::tensor(const OrtValue *value) const {
  HostReader reader(*this);
  HostTensor tensor;
  int type = 0;
  const int64_t *extents = nullptr;
  size_t rank = 0;
  reader.check(
      (*this)(api::getTensorTypeAndExtents)(value, &type, &extents, &rank));
  tensor.dataType = dataTypeOf(type);
  tensor.shape = {extents, rank};
  reader.check((*this)(api::getTensorMutableData)(const_cast<OrtValue *>(value),
                                                  &tensor.data));
  tensor.bytes = reader.get(api::getTensorSizeInBytes, value);
  if (!reader.ok())
    return reader.status();
  return tensor;
}

int mpc::ort::dataTypeOf(int hostType) {
  // ONNX Runtime numbers the types in another order than the format: UINT2,
  // INT2, FLOAT8E8M0.
  switch (hostType) {
  case 24:
    return 25;
  case 25:
    return 26;
  case 26:
    return 24;
  default:
    return hostType;
  }
}

std::optional<ElementType> mpc::ort::elementTypeOf(int dataType) {
  switch (dataType) {
  case 1:
    return ElementType::F32;
  case 2:
    return ElementType::UI8;
  case 3:
    return ElementType::I8;
  case 4:
    return ElementType::UI16;
  case 5:
    return ElementType::I16;
  case 6:
    return ElementType::I32;
  case 7:
    return ElementType::I64;
  case 9:
    return ElementType::I1;
  case 10:
    return ElementType::F16;
  case 11:
    return ElementType::F64;
  case 12:
    return ElementType::UI32;
  case 13:
    return ElementType::UI64;
  case 16:
    return ElementType::BF16;
  // 8-bit floats: E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ and E8M0.
  case 17:
  case 18:
  case 19:
  case 20:
  case 24:
    return ElementType::UI8;
  default:
    return std::nullopt;
  }
}
