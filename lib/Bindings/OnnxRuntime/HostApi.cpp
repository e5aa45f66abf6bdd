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
  OrtTensorTypeAndShapeInfo *info =
      reader.get(api::getTensorTypeAndShape, value);
  if (!reader.ok())
    return reader.status();
  tensor.elementType = reader.get(api::getElementType, info);
  tensor.shape = reader.list(api::getDimensionsCount, api::getDimensions, info);
  (*this)(api::releaseTensorTypeAndShape)(info);
  reader.check((*this)(api::getTensorMutableData)(const_cast<OrtValue *>(value),
                                                  &tensor.data));
  tensor.bytes = reader.get(api::getTensorSizeInBytes, value);
  if (!reader.ok())
    return reader.status();
  return tensor;
}

namespace {
struct TypePair {
  int dataType;
  ElementType element;
};
} // namespace

static constexpr TypePair kTypes[] = {
    {1, ElementType::F32},    {2, ElementType::UI8},
    {3, ElementType::I8},     {4, ElementType::UI16},
    {5, ElementType::I16},    {6, ElementType::I32},
    {7, ElementType::I64},    {9, ElementType::I1},
    {10, ElementType::F16},   {11, ElementType::F64},
    {12, ElementType::UI32},  {13, ElementType::UI64},
    {16, ElementType::BF16},  {17, ElementType::F8E4M3FN},
    {19, ElementType::F8E5M2}};

std::optional<ElementType> mpc::ort::elementTypeOf(int dataType) {
  for (TypePair pair : kTypes)
    if (pair.dataType == dataType)
      return pair.element;
  return std::nullopt;
}

int mpc::ort::dataTypeOf(ElementType type) {
  for (TypePair pair : kTypes)
    if (pair.element == type)
      return pair.dataType;
  return 0;
}
