// A stand-in for cuBLASLt on memory of the host, and for the events it is timed by, so that what
// device_matmul_cuda.cc asks of the library is tested where there is no GPU: layouts, operations,
// epilogues and their pointers mean what the library's documentation says they mean, column by
// column. It knows three algorithms: the second is the fastest, the third cannot run.
#include "common/kernels/device/matmul/fake_cublaslt.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "common/tensor/float16.h"

namespace muster {
namespace {

constexpr float kMilliseconds[] = {2.0f, 1.0f, 0.0f};
constexpr int kCannotRun = 2;

struct FakeLayout {
  cudaDataType type = CUDA_R_32F;
  uint64_t rows = 0;
  uint64_t cols = 0;
  int64_t ld = 0;
};
struct FakeOperation {
  cublasOperation_t turn_a = CUBLAS_OP_N;
  cublasOperation_t turn_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  int64_t aux_ld = 0;
};
struct FakePreference {
  uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_MASK;
};

FakeCublasLtCounts counts;
float clock_milliseconds = 0;

std::map<cudaEvent_t, float>& Events() {
  static auto* const events = new std::map<cudaEvent_t, float>();
  return *events;
}

template <typename Real, typename Handle>
Real& Of(Handle handle) {
  return *reinterpret_cast<Real*>(handle);
}

float Load(cudaDataType type, const void* data, int64_t at) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[at];
  const uint16_t bits = static_cast<const uint16_t*>(data)[at];
  return type == CUDA_R_16BF ? F32OfBf16(bits) : F32OfF16(bits);
}
void Store(cudaDataType type, float value, void* data, int64_t at) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<uint16_t*>(data)[at] = type == CUDA_R_16BF ? Bf16OfF32(value) : F16OfF32(value);
  }
}

constexpr double kRoot = 0.7978845608028654;
double Gelu(double x) { return x / 2 * (1 + std::tanh(kRoot * (x + 0.044715 * x * x * x))); }
double GeluSlope(double x) {
  const double t = std::tanh(kRoot * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * kRoot * (1 + 3 * 0.044715 * x * x);
}

// Element (row, col) of op(matrix), columns stored one after another.
float Element(const FakeLayout& layout, cublasOperation_t turn, const void* data, uint64_t row,
              uint64_t col) {
  if (turn == CUBLAS_OP_T) std::swap(row, col);
  return Load(layout.type, data, static_cast<int64_t>(row + col * layout.ld));
}

bool Fits(const FakeOperation& op, const FakeLayout& a, const FakeLayout& b, const FakeLayout& d) {
  const bool turn_a = op.turn_a == CUBLAS_OP_T, turn_b = op.turn_b == CUBLAS_OP_T;
  const uint64_t m = turn_a ? a.cols : a.rows, k = turn_a ? a.rows : a.cols;
  const uint64_t kb = turn_b ? b.cols : b.rows, n = turn_b ? b.rows : b.cols;
  if (m != d.rows || n != d.cols || k != kb) return false;
  for (const FakeLayout* each : {&a, &b, &d}) {
    if (each->ld < static_cast<int64_t>(each->rows)) return false;
  }
  const bool wants_aux = (op.epilogue & 128) != 0;
  if (wants_aux &&
      (op.aux == nullptr || op.aux_ld % 8 != 0 || op.aux_ld < static_cast<int64_t>(d.rows))) {
    return false;
  }
  return (op.epilogue & CUBLASLT_EPILOGUE_BIAS) == 0 || op.bias != nullptr;
}

}  // namespace

FakeCublasLtCounts GetFakeCublasLtCounts() { return counts; }

}  // namespace muster

using muster::Of;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(&muster::counts);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusName(cublasStatus_t) { return "a status"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "of the stand-in for cuBLASLt"; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  ++muster::counts.descriptors;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new muster::FakeLayout{type, rows, cols, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  --muster::counts.descriptors;
  delete &Of<muster::FakeLayout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  ++muster::counts.descriptors;
  *operation = reinterpret_cast<cublasLtMatmulDesc_t>(new muster::FakeOperation());
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  --muster::counts.descriptors;
  delete &Of<muster::FakeOperation>(operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  auto& operation = Of<muster::FakeOperation>(handle);
  const auto set = [&](auto& field) {
    if (bytes != sizeof(field)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(operation.turn_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(operation.turn_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(operation.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(operation.bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(operation.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(operation.aux_ld);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  ++muster::counts.descriptors;
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new muster::FakePreference());
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  --muster::counts.descriptors;
  delete &Of<muster::FakePreference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    std::memcpy(&Of<muster::FakePreference>(preference).reduction, value, sizeof(uint32_t));
  }
  const size_t size = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4;
  return bytes == size ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  ++muster::counts.heuristics;
  *count = 0;
  if (!muster::Fits(Of<muster::FakeOperation>(operation), Of<muster::FakeLayout>(a),
                    Of<muster::FakeLayout>(b), Of<muster::FakeLayout>(d)) ||
      Of<muster::FakePreference>(preference).reduction != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (int i = 0; i < 3 && i < requested; ++i) {
    results[i] = {};
    results[i].algo.data[0] = i;
    results[i].state = CUBLAS_STATUS_SUCCESS;
    ++*count;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void*, size_t, cudaStream_t) {
  const auto& op = Of<muster::FakeOperation>(operation);
  const auto& la = Of<muster::FakeLayout>(a_layout);
  const auto& lb = Of<muster::FakeLayout>(b_layout);
  const auto& ld = Of<muster::FakeLayout>(d_layout);
  const int algorithm = static_cast<int>(algo->data[0]);
  if (algorithm == muster::kCannotRun) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (c != d || c_layout != d_layout || !muster::Fits(op, la, lb, ld)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  ++muster::counts.runs;
  muster::clock_milliseconds += muster::kMilliseconds[algorithm];
  const uint64_t k = op.turn_a == CUBLAS_OP_T ? la.rows : la.cols;
  for (uint64_t col = 0; col < ld.cols; ++col) {
    for (uint64_t row = 0; row < ld.rows; ++row) {
      double sum = 0;
      for (uint64_t l = 0; l < k; ++l) {
        sum += double{muster::Element(la, op.turn_a, a, row, l)} *
               muster::Element(lb, op.turn_b, b, l, col);
      }
      sum *= *static_cast<const float*>(alpha);
      const int64_t at = static_cast<int64_t>(row + col * ld.ld);
      const float scale = *static_cast<const float*>(beta);
      if (scale != 0) sum += scale * muster::Load(ld.type, d, at);
      if ((op.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) {
        sum += muster::Load(ld.type, op.bias, static_cast<int64_t>(row));
      }
      const int64_t aux_at = static_cast<int64_t>(row + col * op.aux_ld);
      if ((op.epilogue & CUBLASLT_EPILOGUE_GELU) != 0) {
        muster::Store(ld.type, static_cast<float>(sum), op.aux, aux_at);
        sum = muster::Gelu(sum);
      } else if (op.epilogue == CUBLASLT_EPILOGUE_DGELU) {
        sum *= muster::GeluSlope(muster::Load(ld.type, op.aux, aux_at));
      }
      muster::Store(ld.type, static_cast<float>(sum), d, at);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new char);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  muster::Events().erase(event);
  delete reinterpret_cast<char*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  muster::Events()[event] = muster::clock_milliseconds;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = muster::Events()[end] - muster::Events()[begin];
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) { return "an error"; }
const char* cudaGetErrorString(cudaError_t) { return "of the stand-in for CUDA"; }

}  // extern "C"
