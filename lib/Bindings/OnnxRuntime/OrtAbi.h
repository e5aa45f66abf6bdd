//===- OrtAbi.h - used part of ONNX Runtime's binary interface --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX Runtime's C headers are in no package, so that the used part of its
// binary interface is declared here: positions in function tables, layouts of
// the structs that a plugin implements, and enumerators. The tables only grow
// at their end, so that positions hold for version kApiVersion and all later
// ones. HostApi checks the version at run time.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_ONNXRUNTIME_ORTABI_H
#define MPC_LIB_BINDINGS_ONNXRUNTIME_ORTABI_H

#include <cstddef>
#include <cstdint>

namespace mpc::ort {

/// Version of the interface that is requested: ONNX Runtime 1.24, the first
/// one whose Python package registers plugins.
inline constexpr uint32_t kApiVersion = 24;

// Opaque objects of ONNX Runtime.
struct OrtAllocator;
struct OrtEnv;
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtGraph;
struct OrtHardwareDevice;
struct OrtKernelContext;
struct OrtKeyValuePairs;
struct OrtLogger;
struct OrtMemoryInfo;
struct OrtNode;
struct OrtNodeComputeContext;
struct OrtOpAttr;
struct OrtRunOptions;
struct OrtSession;
struct OrtSessionOptions;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;
struct OrtValueInfo;

//===----------------------------------------------------------------------===//
// Enumerators
//===----------------------------------------------------------------------===//

enum OrtErrorCode : int {
  kOrtFail = 1,
  kOrtInvalidArgument = 2,
  kOrtNotImplemented = 9,
  kOrtEpFail = 11
};

enum OrtLoggingLevel : int { kOrtInfo = 1, kOrtWarning = 2, kOrtError = 3 };

enum OrtOpAttrType : int {
  kOrtAttrUndefined,
  kOrtAttrInt,
  kOrtAttrInts,
  kOrtAttrFloat,
  kOrtAttrFloats,
  kOrtAttrString,
  kOrtAttrStrings,
  kOrtAttrGraph,
  kOrtAttrTensor
};

/// ONNXType: kind of a value.
inline constexpr int kOnnxTensor = 1;
/// OrtHardwareDeviceType
inline constexpr int kHardwareCpu = 0;
/// OrtCompiledModelCompatibility
enum OrtCompatibility : int { kOrtOptimal = 1, kOrtUnsupported = 3 };
/// GraphOptimizationLevel
inline constexpr int kOptimizeAll = 99;

//===----------------------------------------------------------------------===//
// Function tables
//===----------------------------------------------------------------------===//

/// A function of any type.
using AnyFunction = void (*)();

struct OrtApiBase {
  const AnyFunction *(*getApi)(uint32_t version);
  const char *(*getVersionString)();
};

/// A function of type `F` at position `index` of a function table.
template <typename F> struct TableEntry {
  size_t index;
};

template <typename... Arguments>
using StatusFunction = OrtStatus *(Arguments...);
template <typename... Arguments>
using StatusEntry = TableEntry<StatusFunction<Arguments...>>;
/// Getter of a fact of `Object`.
template <typename Object, typename T>
using GetEntry = StatusEntry<const Object *, T *>;
/// Getter of `count` parts of `Object`.
template <typename Object, typename T>
using ListEntry = StatusEntry<const Object *, T *, size_t>;
template <typename Object> using ReleaseEntry = TableEntry<void(Object *)>;

/// Positions in the table OrtApi.
namespace api {
inline constexpr TableEntry<OrtStatus *(int code, const char *text)>
    createStatus{0};
inline constexpr TableEntry<int(const OrtStatus *)> getErrorCode{1};
inline constexpr TableEntry<const char *(const OrtStatus *)> getErrorMessage{2};
inline constexpr ReleaseEntry<OrtStatus> releaseStatus{93};

// Sessions of ONNX Runtime itself.
inline constexpr StatusEntry<int /*level*/, const char * /*id*/, OrtEnv **>
    createEnv{3};
inline constexpr ReleaseEntry<OrtEnv> releaseEnv{92};
inline constexpr StatusEntry<OrtSessionOptions **> createSessionOptions{10};
inline constexpr StatusEntry<OrtSessionOptions *, int> setOptimizationLevel{23};
inline constexpr StatusEntry<OrtSessionOptions *, int> setIntraOpNumThreads{24};
inline constexpr ReleaseEntry<OrtSessionOptions> releaseSessionOptions{100};
inline constexpr StatusEntry<const OrtEnv *, const void *, size_t,
                             const OrtSessionOptions *, OrtSession **>
    createSessionFromArray{8};
inline constexpr StatusEntry<
    OrtSession *, const OrtRunOptions *, const char *const * /*inputNames*/,
    const OrtValue *const * /*inputs*/, size_t /*inputCount*/,
    const char *const * /*outputNames*/, size_t /*outputCount*/,
    OrtValue ** /*outputs*/>
    run{9};
inline constexpr ReleaseEntry<OrtSession> releaseSession{95};

// Options of a session.
inline constexpr StatusEntry<const OrtSessionOptions *, OrtKeyValuePairs **>
    getConfigEntries{379};
inline constexpr TableEntry<void(const OrtKeyValuePairs *, const char *const **,
                                 const char *const **, size_t *)>
    getKeyValuePairs{298};
inline constexpr ReleaseEntry<OrtKeyValuePairs> releaseKeyValuePairs{300};

// Values and their types.
inline constexpr StatusEntry<OrtValue *, void **> getTensorMutableData{51};
inline constexpr GetEntry<OrtValue, size_t> getTensorSizeInBytes{318};
/// The extents belong to the value; null for a scalar.
inline constexpr StatusEntry<const OrtValue *, int * /*type*/,
                             const int64_t ** /*extents*/, size_t * /*rank*/>
    getTensorTypeAndExtents{414};
inline constexpr ReleaseEntry<OrtValue> releaseValue{96};
inline constexpr GetEntry<OrtTypeInfo, int> getOnnxType{56};
inline constexpr GetEntry<OrtTypeInfo, const OrtTensorTypeAndShapeInfo *>
    castToTensorInfo{55};
inline constexpr GetEntry<OrtTensorTypeAndShapeInfo, int> getElementType{60};
inline constexpr GetEntry<OrtTensorTypeAndShapeInfo, size_t> getDimensionsCount{
    61};
inline constexpr ListEntry<OrtTensorTypeAndShapeInfo, int64_t> getDimensions{
    62};
inline constexpr ListEntry<OrtTensorTypeAndShapeInfo, const char *>
    getSymbolicDimensions{63};
/// 0 if the rank is unknown (since ONNX Runtime 1.24).
inline constexpr GetEntry<OrtTensorTypeAndShapeInfo, size_t> getElementCount{
    64};

// Inputs and outputs of a running node.
inline constexpr GetEntry<OrtKernelContext, size_t> contextInputCount{88};
inline constexpr StatusEntry<const OrtKernelContext *, size_t,
                             const OrtValue **>
    contextInput{90};
inline constexpr StatusEntry<OrtKernelContext *, size_t,
                             const int64_t * /*extents*/, size_t /*rank*/,
                             OrtValue **>
    contextOutput{91};

/// Executes a function for each index below `total` on the session's intra-op
/// threads; `batches` 0: each index by itself.
inline constexpr StatusEntry<const OrtKernelContext *,
                             void (*)(void *user, size_t index),
                             size_t /*total*/, size_t /*batches*/, void *>
    parallelFor{274};

// Names and types of a graph's values.
inline constexpr GetEntry<OrtValueInfo, const char *> getValueName{289};
inline constexpr GetEntry<OrtValueInfo, const OrtTypeInfo *> getValueType{290};
inline constexpr GetEntry<OrtValueInfo, const OrtValue *> getInitializerValue{
    326};
inline constexpr GetEntry<OrtValueInfo, bool> isGraphOutput{330};
inline constexpr GetEntry<OrtValueInfo, bool> isConstantInitializer{331};
inline constexpr GetEntry<OrtValueInfo, bool> isFromOuterScope{332};

// Graphs.
inline constexpr GetEntry<OrtGraph, const char *> getModelPath{334};
inline constexpr GetEntry<OrtGraph, int64_t> getIrVersion{335};
inline constexpr GetEntry<OrtGraph, size_t> opsetCount{336};
inline constexpr StatusEntry<const OrtGraph *, const char ** /*domains*/,
                             int64_t * /*versions*/, size_t>
    getOpsets{337};
inline constexpr GetEntry<OrtGraph, size_t> inputCount{338};
inline constexpr ListEntry<OrtGraph, const OrtValueInfo *> getInputs{339};
inline constexpr GetEntry<OrtGraph, size_t> outputCount{340};
inline constexpr ListEntry<OrtGraph, const OrtValueInfo *> getOutputs{341};
inline constexpr GetEntry<OrtGraph, size_t> initializerCount{342};
inline constexpr ListEntry<OrtGraph, const OrtValueInfo *> getInitializers{343};
inline constexpr GetEntry<OrtGraph, size_t> nodeCount{344};
inline constexpr ListEntry<OrtGraph, const OrtNode *> getNodes{345};
inline constexpr GetEntry<OrtGraph, const OrtNode *> getParentNode{346};

// Nodes.
inline constexpr GetEntry<OrtNode, size_t> getNodeId{348};
inline constexpr GetEntry<OrtNode, const char *> getNodeName{349};
inline constexpr GetEntry<OrtNode, const char *> getOperatorType{350};
inline constexpr GetEntry<OrtNode, const char *> getDomain{351};
inline constexpr GetEntry<OrtNode, size_t> nodeInputCount{353};
inline constexpr ListEntry<OrtNode, const OrtValueInfo *> getNodeInputs{354};
inline constexpr GetEntry<OrtNode, size_t> nodeOutputCount{355};
inline constexpr ListEntry<OrtNode, const OrtValueInfo *> getNodeOutputs{356};
inline constexpr GetEntry<OrtNode, size_t> implicitInputCount{357};
inline constexpr ListEntry<OrtNode, const OrtValueInfo *> getImplicitInputs{
    358};
inline constexpr GetEntry<OrtNode, size_t> attributeCount{359};
inline constexpr ListEntry<OrtNode, const OrtOpAttr *> getAttributes{360};
inline constexpr GetEntry<OrtNode, size_t> subgraphCount{365};
inline constexpr StatusEntry<const OrtNode *, const OrtGraph **, size_t,
                             const char ** /*attributeNames*/>
    getSubgraphs{366};
inline constexpr GetEntry<OrtNode, const char *> getEpName{368};

// Attributes.
inline constexpr GetEntry<OrtOpAttr, OrtValue *> getTensorAttribute{362};
inline constexpr GetEntry<OrtOpAttr, OrtOpAttrType> getAttributeType{363};
inline constexpr GetEntry<OrtOpAttr, const char *> getAttributeName{364};
/// The last argument receives the number of bytes that are needed or written.
inline constexpr StatusEntry<const OrtOpAttr *, OrtOpAttrType, void *, size_t,
                             size_t *>
    readAttribute{272};
inline constexpr StatusEntry<const char * /*name*/, const void *, int /*count*/,
                             OrtOpAttrType, OrtOpAttr **>
    createAttribute{211};
inline constexpr ReleaseEntry<OrtOpAttr> releaseAttribute{212};

inline constexpr StatusEntry<const OrtLogger *, OrtLoggingLevel, const char *,
                             const char * /*file*/, int /*line*/,
                             const char * /*function*/>
    logMessage{247};
inline constexpr TableEntry<int(const OrtHardwareDevice *)> hardwareType{307};

// Further tables.
inline constexpr TableEntry<const AnyFunction *()> getModelEditorApi{291};
inline constexpr TableEntry<const AnyFunction *()> getEpApi{317};
} // namespace api

struct OrtEpFactory;
struct OrtNodeFusionOptions;

/// Positions in the table OrtEpApi.
namespace epApi {
inline constexpr StatusEntry<OrtEpFactory *, const OrtHardwareDevice *,
                             const OrtKeyValuePairs *, const OrtKeyValuePairs *,
                             OrtEpDevice **>
    createEpDevice{0};
inline constexpr StatusEntry<OrtEpGraphSupportInfo *, const OrtNode *const *,
                             size_t, const OrtNodeFusionOptions *>
    addNodesToFuse{2};
} // namespace epApi

/// Positions in the table OrtModelEditorApi.
namespace editorApi {
inline constexpr StatusEntry<const char * /*op*/, const char * /*domain*/,
                             const char * /*name*/, const char *const *, size_t,
                             const char *const *, size_t, OrtOpAttr **, size_t,
                             OrtNode **>
    createNode{6};
} // namespace editorApi

//===----------------------------------------------------------------------===//
// Structs that a plugin implements
//===----------------------------------------------------------------------===//

struct OrtNodeFusionOptions {
  uint32_t version = kApiVersion;
  /// True if ONNX Runtime may free the constants and passes none in a run.
  bool dropsConstants = false;
};

struct OrtNodeComputeInfo {
  uint32_t version = kApiVersion;
  OrtStatus *(*createState)(OrtNodeComputeInfo *, OrtNodeComputeContext *,
                            void **state) = nullptr;
  OrtStatus *(*compute)(OrtNodeComputeInfo *, void *state,
                        OrtKernelContext *) = nullptr;
  void (*releaseState)(OrtNodeComputeInfo *, void *state) = nullptr;
};

/// An execution provider of one session. Null functions are optional.
struct OrtEp {
  uint32_t version = kApiVersion;
  const char *(*getName)(const OrtEp *) = nullptr;
  OrtStatus *(*getCapability)(OrtEp *, const OrtGraph *,
                              OrtEpGraphSupportInfo *) = nullptr;
  OrtStatus *(*compile)(OrtEp *, const OrtGraph **, const OrtNode **fused,
                        size_t count, OrtNodeComputeInfo **,
                        OrtNode **contextNodes) = nullptr;
  void (*releaseNodeComputeInfos)(OrtEp *, OrtNodeComputeInfo **,
                                  size_t count) = nullptr;
  /// Data layout, dynamic options, begin and end of runs, memory and streams.
  void *unusedFunctions[7] = {};
  const char *(*getCompiledModelCompatibility)(OrtEp *,
                                               const OrtGraph *) = nullptr;
  /// Zeros where later versions have functions.
  void *laterFunctions[32] = {};
};

struct OrtEpFactory {
  uint32_t version = kApiVersion;
  const char *(*getName)(const OrtEpFactory *) = nullptr;
  const char *(*getVendor)(const OrtEpFactory *) = nullptr;
  OrtStatus *(*getSupportedDevices)(OrtEpFactory *,
                                    const OrtHardwareDevice *const *, size_t,
                                    OrtEpDevice **, size_t maxDevices,
                                    size_t *deviceCount) = nullptr;
  OrtStatus *(*createEp)(OrtEpFactory *, const OrtHardwareDevice *const *,
                         const OrtKeyValuePairs *const *, size_t deviceCount,
                         const OrtSessionOptions *, const OrtLogger *,
                         OrtEp **) = nullptr;
  void (*releaseEp)(OrtEpFactory *, OrtEp *) = nullptr;
  uint32_t (*getVendorId)(const OrtEpFactory *) = nullptr;
  const char *(*getVersion)(const OrtEpFactory *) = nullptr;
  OrtStatus *(*validateCompatibility)(OrtEpFactory *,
                                      const OrtHardwareDevice *const *,
                                      size_t deviceCount, const char *info,
                                      OrtCompatibility *) = nullptr;
  OrtStatus *(*createAllocator)(OrtEpFactory *, const OrtMemoryInfo *,
                                const OrtKeyValuePairs *,
                                OrtAllocator **) = nullptr;
  void (*releaseAllocator)(OrtEpFactory *, OrtAllocator *) = nullptr;
  OrtStatus *(*createDataTransfer)(OrtEpFactory *, void **) = nullptr;
  bool (*isStreamAware)(const OrtEpFactory *) = nullptr;
  OrtStatus *(*createStream)(OrtEpFactory *, const void *, const void *,
                             void **) = nullptr;
  /// Zeros where later versions have functions.
  void *laterFunctions[32] = {};
};

static_assert(sizeof(OrtNodeFusionOptions) == 8);
static_assert(offsetof(OrtNodeFusionOptions, dropsConstants) == 4);
static_assert(sizeof(OrtNodeComputeInfo) == 32);
static_assert(offsetof(OrtEp, releaseNodeComputeInfos) == 32);
static_assert(offsetof(OrtEp, getCompiledModelCompatibility) == 96);
static_assert(offsetof(OrtEp, laterFunctions) == 104);
static_assert(offsetof(OrtEpFactory, createEp) == 32);
static_assert(offsetof(OrtEpFactory, validateCompatibility) == 64);
static_assert(offsetof(OrtEpFactory, isStreamAware) == 96);
static_assert(offsetof(OrtEpFactory, laterFunctions) == 112);

} // namespace mpc::ort

#endif // MPC_LIB_BINDINGS_ONNXRUNTIME_ORTABI_H
