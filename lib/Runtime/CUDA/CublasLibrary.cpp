//===- CublasLibrary.cpp - cuBLASLt for a device --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CublasLibrary.h"

#include "CublasAutotuner.h"

#include <mutex>

using namespace mpc;
using namespace mpc::detail;

/// Minimum compute capability for 8-bit floats, times ten (8.9).
static constexpr int kLeast8Bits = 89;

namespace {

class PreparedProduct : public PreparedGemm {
public:
  PreparedProduct(std::shared_ptr<CublasGemm> product,
                  const BlasCandidate &candidate)
      : product(std::move(product)), candidate(candidate) {}

  int64_t workspaceBytes() const override {
    return int64_t(candidate.workspaceBytes);
  }
  Status enqueue(std::span<const CuAddress> buffers, CuAddress workspace,
                 CuHandle stream) override {
    std::vector<void *> pointers;
    pointers.reserve(buffers.size());
    for (CuAddress address : buffers)
      pointers.push_back(toPointer(address));
    std::lock_guard<std::mutex> lock(mutex);
    return product->enqueue(pointers, candidate, toPointer(workspace), stream);
  }

private:
  std::shared_ptr<CublasGemm> product;
  BlasCandidate candidate;
  /// A prepared GEMM is used by one thread at a time.
  std::mutex mutex;
};

class BlasLibrary : public GemmLibrary {
public:
  BlasLibrary(std::shared_ptr<CudaContext> context,
              std::shared_ptr<BlasContext> blas,
              std::shared_ptr<CudaStream> stream,
              const std::string &cacheFolder)
      : context(std::move(context)), blas(std::move(blas)),
        stream(std::move(stream)),
        tuner(this->context, DiskCache(cacheFolder)) {}

  Result<std::shared_ptr<PreparedGemm>>
  prepare(const GemmProblem &problem, std::span<const size_t> alignments,
          const std::string &where) override;

private:
  std::shared_ptr<CudaContext> context;
  std::shared_ptr<BlasContext> blas;
  /// Stream for timing candidates, one GEMM at a time.
  std::shared_ptr<CudaStream> stream;
  std::mutex mutex;
  CublasAutotuner tuner;
};

} // namespace

Result<std::shared_ptr<PreparedGemm>>
BlasLibrary::prepare(const GemmProblem &problem,
                     std::span<const size_t> alignments,
                     const std::string &where) {
  const GpuInfo &gpu = context->gpu();
  if (isFloat8(problem.operandA) && 10 * gpu.major + gpu.minor < kLeast8Bits)
    return Status(StatusCode::Unavailable, problem.toString(),
                  "needs a GPU of sm_89 or later, but " + gpu.name + " is " +
                      gpu.architecture())
        .withNote("in " + where);
  Result<std::shared_ptr<CublasGemm>> product =
      CublasGemm::create(blas, problem, alignments);
  if (!product.ok())
    return product.status().withNote("in " + where);
  std::lock_guard<std::mutex> lock(mutex);
  Result<BlasCandidate> candidate = tuner.choose(**product, stream->handle());
  if (!candidate.ok())
    return candidate.status().withNote("in " + where);
  return std::shared_ptr<PreparedGemm>(
      std::make_shared<PreparedProduct>(std::move(*product), *candidate));
}

Result<std::shared_ptr<GemmLibrary>>
detail::openBlasLibrary(const Blas &blas, std::shared_ptr<CudaContext> context,
                        const std::string &cacheFolder) {
  Result<std::shared_ptr<BlasContext>> handle =
      BlasContext::create(blas, context);
  if (!handle.ok())
    return handle.status();
  Result<std::shared_ptr<CudaStream>> stream = CudaStream::create(context);
  if (!stream.ok())
    return stream.status();
  return std::shared_ptr<GemmLibrary>(std::make_shared<BlasLibrary>(
      std::move(context), std::move(*handle), std::move(*stream), cacheFolder));
}
