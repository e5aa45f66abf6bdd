//===- Batcher.cpp - batches in a program's types -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementConversion.h"

#include "mpc/Training/Dataset.h"

#include <cmath>
#include <cstring>

using namespace mpc;
using training::withElement;

/// Returns the number of elements of one example.
static int64_t exampleSize(const mpc::TensorType &type) {
  int64_t size = 1;
  for (size_t i = 1; i < type.shape.size(); ++i)
    size *= type.shape[i];
  return size;
}

/// Returns true if elements of `from` can be converted to `to`: equal types,
/// any number to f32 or f64, or an integer to i32 or i64.
static bool converts(ElementType from, ElementType to) {
  if (from == to)
    return true;
  if (from == ElementType::F16 || from == ElementType::BF16)
    return false;
  if (to == ElementType::F32 || to == ElementType::F64)
    return true;
  return !isFloat(from) && (to == ElementType::I32 || to == ElementType::I64);
}

static Status checkFits(const std::string &what, const mpc::TensorType &have,
                        const std::string &input, const mpc::TensorType &want) {
  auto bad = [&](const std::string &text) {
    return Status(StatusCode::InvalidArgument, what, text);
  };
  if (exampleSize(have) != exampleSize(want))
    return bad("has examples of " + have.toString() + ", but " + input +
               " takes batches of " + want.toString());
  if (!converts(have.element, want.element))
    return bad("is " + std::string(elementTypeName(have.element)) + ", but " +
               input + " takes " + std::string(elementTypeName(want.element)));
  return {};
}

/// Formats a label.
static std::string shown(double label) {
  return label < 0 ? std::to_string(int64_t(label))
                   : std::to_string(uint64_t(label));
}

Status training::checkClasses(const Buffer &labels, int64_t classes,
                              std::optional<int64_t> ignored) {
  int64_t wrong = -1;
  double value = 0;
  int64_t at = 0;
  training::readElements(labels, 0, labels.size(), [&](double label) {
    bool known = (label >= 0 && label < double(classes)) ||
                 (ignored && label == double(*ignored));
    if (!known && wrong < 0) {
      wrong = at;
      value = label;
    }
    ++at;
  });
  if (wrong < 0)
    return {};
  wrong /= exampleSize(labels.type());
  return Status(StatusCode::InvalidArgument, "labels",
                "example " + std::to_string(wrong) + " has the label " +
                    shown(value) + ", but the model has " +
                    std::to_string(classes) + " classes, numbered from 0");
}

/// Fails if a token is outside the model's vocabulary. Tokens are inputs as
/// well as labels, so none may be ignored.
static Status checkVocabulary(const Dataset &text, int64_t classes) {
  int64_t wrong = -1, at = 0;
  double value = 0;
  auto look = [&](double token) {
    if (wrong < 0 && (token < 0 || token >= double(classes))) {
      wrong = at;
      value = token;
    }
    ++at;
  };
  const Buffer &inputs = text.inputs().front().data;
  // All tokens but the first are labels.
  training::readElements(inputs, 0, size_t(elementBytes(inputs.type().element)),
                         look);
  training::readElements(text.labels(), 0, text.labels().size(), look);
  if (wrong < 0)
    return {};
  return Status(StatusCode::InvalidArgument, text.name(),
                "token " + std::to_string(wrong) + " is " + shown(value) +
                    ", but the model has a vocabulary of " +
                    std::to_string(classes) + ", numbered from 0");
}

Result<Batcher>
Batcher::create(const Dataset &data, std::vector<std::string> inputNames,
                std::vector<mpc::TensorType> inputTypes, mpc::TensorType label,
                const Normalization &normalization, int64_t classes,
                std::optional<int64_t> ignored) {
  auto bad = [&](const std::string &where, const std::string &text) {
    return Status(StatusCode::InvalidArgument, where, text);
  };
  if (inputTypes.empty() || inputNames.size() != inputTypes.size())
    return bad("model", "has no input for the data set");
  Batcher batcher;
  batcher.count = data.size();
  batcher.normalization = normalization;
  std::span<const NamedTensor> arrays = data.inputs();
  for (size_t i = 0; i < inputTypes.size(); ++i) {
    const NamedTensor *found = nullptr;
    for (const NamedTensor &array : arrays)
      if (array.name == inputNames[i])
        found = &array;
    if (!found && arrays.size() == 1 && inputTypes.size() == 1)
      found = &arrays.front();
    std::string input = "input '" + inputNames[i] + "'";
    if (!found)
      return bad(data.name(), "has no array for " + input);
    std::string what =
        found->name.empty() ? data.name() : "array '" + found->name + "'";
    if (Status status =
            checkFits(what, found->data.type(), input, inputTypes[i]);
        !status.ok())
      return status;
    batcher.sources.push_back(found->data);
    batcher.types.push_back(inputTypes[i]);
  }
  if (Status status =
          checkFits("labels", data.labels().type(), "the loss", label);
      !status.ok())
    return status;
  if (!isFloat(label.element) && classes > 0) {
    Status status =
        data.isText() ? checkVocabulary(data, classes)
                      : training::checkClasses(data.labels(), classes, ignored);
    if (!status.ok())
      return status;
  }
  batcher.sources.push_back(data.labels());
  batcher.types.push_back(std::move(label));
  int64_t batch = batcher.batch();
  for (const mpc::TensorType &type : batcher.types)
    if (type.shape.empty() || type.shape.front() != batch || batch < 1)
      return bad("model", "has batches of " + type.toString() + " and of " +
                              batcher.types.front().toString() +
                              ", whose first extents differ");
  return batcher;
}

namespace {

/// Conversion of one element.
struct Convert {
  double factor = 1, offset = 0;
  bool exact = true;

  template <typename To, typename From> To operator()(From value) const {
    if (exact)
      return static_cast<To>(value);
    return static_cast<To>(static_cast<double>(value) * factor + offset);
  }
};

} // namespace

Result<std::vector<Buffer>>
Batcher::gather(std::span<const int64_t> rows) const {
  if (int64_t(rows.size()) != batch())
    return Status(StatusCode::InvalidArgument, "batch",
                  "takes " + std::to_string(batch()) + " examples, but " +
                      std::to_string(rows.size()) + " were given");
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < types.size(); ++i) {
    bool isLabel = i + 1 == types.size();
    Result<Buffer> made = Buffer::allocate(types[i]);
    if (!made.ok())
      return made.status();
    const Buffer &from = sources[i];
    ElementType source = from.type().element;
    size_t examples = size_t(from.type().shape.front());
    size_t width = size_t(exampleSize(types[i]));
    Convert convert;
    if (!isLabel && isFloat(types[i].element)) {
      convert.factor = normalization.scale / normalization.deviation;
      convert.offset = -normalization.mean / normalization.deviation;
      convert.exact = convert.factor == 1 && convert.offset == 0;
    }
    bool copies = source == types[i].element && convert.exact;
    size_t bytes = width * size_t(elementBytes(source));
    for (size_t row = 0; row < rows.size(); ++row) {
      if (size_t(rows[row]) >= examples)
        return Status(StatusCode::InvalidArgument, "batch",
                      "there is no example " + std::to_string(rows[row]));
      const char *in =
          static_cast<const char *>(from.data()) + size_t(rows[row]) * bytes;
      if (copies) {
        std::memcpy(static_cast<char *>(made->data()) + row * bytes, in, bytes);
        continue;
      }
      withElement(types[i].element, [&](auto *toNull) {
        withElement(source, [&](auto *fromNull) {
          using To = std::remove_cvref_t<decltype(*toNull)>;
          using From = std::remove_cvref_t<decltype(*fromNull)>;
          const auto *values = reinterpret_cast<const From *>(in);
          To *out = made->as<To>().data() + row * width;
          for (size_t k = 0; k < width; ++k)
            out[k] = convert.template operator()<To>(values[k]);
        });
      });
    }
    buffers.push_back(std::move(*made));
  }
  return buffers;
}
