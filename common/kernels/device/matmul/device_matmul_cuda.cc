// Products by cuBLASLt.
//
// cuBLASLt thinks in columns: a row-major [r, c] array is to it a column-major [c, r] one. So that
// nothing is turned, it is asked for cᵀ = op(b)ᵀ · op(a)ᵀ: its first operand is our b, its second
// our a, its rows are our columns n, and a bias along its rows is one along our columns, as wanted.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/device/matmul/device_matmul.h"

namespace muster {
namespace {

// What alignment counts at most: beyond it no algorithm asks for more.
constexpr uint32_t kMaxAlignment = 256;
constexpr int kMaxCandidates = 32;
// Of a few hundred bytes each, the library's part included.
constexpr size_t kMostPlans = 1024;

absl::Status BlasStatus(cublasStatus_t result, absl::string_view what) {
  if (result == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": cuBLASLt says ", cublasLtGetStatusName(result),
                                           ", ", cublasLtGetStatusString(result));
  switch (result) {
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return absl::UnimplementedError(message);
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return absl::UnavailableError(message);
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::ResourceExhaustedError(message);
    case CUBLAS_STATUS_INVALID_VALUE:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status CudaError(cudaError_t result, absl::string_view what) {
  if (result == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": CUDA says ", cudaGetErrorName(result), ", ",
                                          cudaGetErrorString(result)));
}

cudaDataType_t BlasType(DType type) {
  switch (type) {
    case DType::kBf16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

// The largest power of two that divides both a pointer and the bytes from row to row.
uint32_t AlignmentOf(const void* data, int64_t stride, DType type) {
  const uint64_t bits =
      reinterpret_cast<uintptr_t>(data) | static_cast<uint64_t>(stride) * SizeOf(type);
  return static_cast<uint32_t>(std::min<uint64_t>(kMaxAlignment, bits & (~bits + 1)));
}

// Opaque descriptors of the library, freed with their owner.
template <typename Handle, cublasStatus_t (*kDestroy)(Handle)>
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Descriptor() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  Handle get() const { return handle_; }
  Handle* out() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

using Operation = Descriptor<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy>;
using Layout = Descriptor<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;
using Preference = Descriptor<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy>;

template <typename Value>
absl::Status Set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute,
                 const Value& value) {
  return BlasStatus(
      cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof(value)),
      "setting an attribute of a matrix product");
}

template <typename Value>
absl::Status Set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
                 const Value& value) {
  return BlasStatus(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
      "setting a preference of a matrix product");
}

// A stored [rows, cols] array, turned.
absl::StatusOr<Layout> MakeLayout(DType type, int64_t rows, int64_t cols, int64_t stride) {
  Layout layout;
  MUSTER_RETURN_IF_ERROR(
      BlasStatus(cublasLtMatrixLayoutCreate(layout.out(), BlasType(type), cols, rows, stride),
                 "describing an operand of a matrix product"));
  return layout;
}

cublasLtEpilogue_t BlasEpilogue(const MatmulProblem& p) {
  switch (p.epilogue) {
    case MatmulEpilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case MatmulEpilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case MatmulEpilogue::kGelu:
      return p.has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case MatmulEpilogue::kGeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// Two events for timing.
class Stopwatch {
 public:
  Stopwatch() {
    if (cudaEventCreate(&begin_) != cudaSuccess) begin_ = nullptr;
    if (cudaEventCreate(&end_) != cudaSuccess) end_ = nullptr;
  }
  ~Stopwatch() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
  }
  bool ok() const { return begin_ != nullptr && end_ != nullptr; }
  absl::Status Begin(cudaStream_t stream) {
    return CudaError(cudaEventRecord(begin_, stream), "timing a matrix product");
  }
  // Waits for the device.
  absl::StatusOr<float> EndMilliseconds(cudaStream_t stream) {
    float milliseconds = 0;
    MUSTER_RETURN_IF_ERROR(CudaError(cudaEventRecord(end_, stream), "timing a matrix product"));
    MUSTER_RETURN_IF_ERROR(CudaError(cudaEventSynchronize(end_), "timing a matrix product"));
    MUSTER_RETURN_IF_ERROR(
        CudaError(cudaEventElapsedTime(&milliseconds, begin_, end_), "timing a matrix product"));
    return milliseconds;
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

struct PlanKey {
  MatmulProblem problem;
  uint32_t a_alignment = 0;
  uint32_t b_alignment = 0;
  uint32_t c_alignment = 0;

  friend bool operator==(const PlanKey& x, const PlanKey& y) {
    return x.problem == y.problem && x.a_alignment == y.a_alignment &&
           x.b_alignment == y.b_alignment && x.c_alignment == y.c_alignment;
  }
  template <typename H>
  friend H AbslHashValue(H h, const PlanKey& key) {
    return H::combine(std::move(h), key.problem, key.a_alignment, key.b_alignment, key.c_alignment);
  }
};

// Everything that is prepared for one product.
struct Plan {
  Operation operation;
  Layout a;
  Layout b;
  Layout c;
  cublasLtMatmulAlgo_t algorithm = {};
  // Proposals not tried yet, the best last.
  std::vector<cublasLtMatmulAlgo_t> others;
  bool measured = false;
  MatmulChoice choice;
  // Place in the order in which products were first seen.
  uint64_t number = 0;
};

class CudaMatmul final : public DeviceMatmul {
 public:
  CudaMatmul(cublasLtHandle_t handle, const DeviceMatmulOptions& options)
      : options_(options), handle_(handle) {}
  ~CudaMatmul() override { cublasLtDestroy(handle_); }

  absl::Status Run(DeviceStream& stream, const MatmulProblem& problem,
                   const MatmulOperands& operands) override {
    const PlanKey key = KeyOf(problem, operands);
    auto found = plans_.find(key);
    if (found == plans_.end() || (measuring_ && !found->second.measured)) {
      MUSTER_RETURN_IF_ERROR(CheckMatmul(problem, operands));
      MUSTER_ASSIGN_OR_RETURN(Plan plan, MakePlan(stream, key, operands));
      if (found != plans_.end()) {
        plan.number = found->second.number;
      } else {
        MakeRoom();
        plan.number = next_number_++;
      }
      found = plans_.insert_or_assign(key, std::move(plan)).first;
    }
    Plan& plan = found->second;
    absl::Status ran = Launch(stream, key.problem, plan, plan.algorithm, operands);
    // Refused before anything was queued: the next proposal may run.
    while (absl::IsUnimplemented(ran) && !plan.others.empty()) {
      plan.algorithm = plan.others.back();
      plan.others.pop_back();
      ++plan.choice.chosen;
      ran = Launch(stream, key.problem, plan, plan.algorithm, operands);
    }
    return ran;
  }

  void StartMeasuring() override { measuring_ = true; }
  void StopMeasuring() override { measuring_ = false; }
  std::vector<MatmulChoice> Choices() const override {
    std::map<uint64_t, const MatmulChoice*> in_order;
    for (const auto& [key, plan] : plans_) in_order[plan.number] = &plan.choice;
    std::vector<MatmulChoice> choices;
    for (const auto& [number, choice] : in_order) choices.push_back(*choice);
    return choices;
  }

 private:
  // Micro-batches may come in any number of extents, each with products of its own. Those that were
  // measured stay.
  void MakeRoom() {
    if (plans_.size() < kMostPlans) return;
    absl::erase_if(plans_, [](const auto& entry) { return !entry.second.measured; });
  }

  static PlanKey KeyOf(const MatmulProblem& problem, const MatmulOperands& operands) {
    const MatmulProblem p = Dense(problem);
    return {p, AlignmentOf(operands.a, p.a_stride, p.in), AlignmentOf(operands.b, p.b_stride, p.in),
            AlignmentOf(operands.c, p.c_stride, p.out)};
  }

  // The epilogue's pointers are part of the operation.
  static absl::Status Point(const MatmulProblem& p, const Plan& plan,
                            const MatmulOperands& operands) {
    if (p.has_bias) {
      MUSTER_RETURN_IF_ERROR(Set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias));
    }
    if (operands.aux == nullptr) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(
        Set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux));
    return Set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{p.n});
  }

  absl::Status Launch(DeviceStream& stream, const MatmulProblem& p, const Plan& plan,
                      const cublasLtMatmulAlgo_t& algorithm, const MatmulOperands& operands) {
    MUSTER_RETURN_IF_ERROR(Point(p, plan, operands));
    const float alpha = 1;
    const float beta = p.accumulation == Accumulation::kAdd ? 1 : 0;
    return BlasStatus(
        cublasLtMatmul(handle_, plan.operation.get(), &alpha, operands.b, plan.b.get(), operands.a,
                       plan.a.get(), &beta, operands.c, plan.c.get(), operands.c, plan.c.get(),
                       &algorithm, options_.workspace, options_.workspace_bytes,
                       static_cast<cudaStream_t>(stream.native())),
        Describe(p));
  }

  absl::StatusOr<Plan> Describing(const MatmulProblem& p, const MatmulOperands& operands) {
    Plan plan;
    MUSTER_RETURN_IF_ERROR(
        BlasStatus(cublasLtMatmulDescCreate(plan.operation.out(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
                   Describe(p)));
    const cublasOperation_t turned = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    MUSTER_RETURN_IF_ERROR(Set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA,
                               p.transpose_b == Transpose::kYes ? turned : plain));
    MUSTER_RETURN_IF_ERROR(Set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB,
                               p.transpose_a == Transpose::kYes ? turned : plain));
    MUSTER_RETURN_IF_ERROR(Set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, BlasEpilogue(p)));
    MUSTER_RETURN_IF_ERROR(Point(p, plan, operands));
    const bool a_turned = p.transpose_a == Transpose::kYes;
    const bool b_turned = p.transpose_b == Transpose::kYes;
    MUSTER_ASSIGN_OR_RETURN(
        plan.a, MakeLayout(p.in, a_turned ? p.k : p.m, a_turned ? p.m : p.k, p.a_stride));
    MUSTER_ASSIGN_OR_RETURN(
        plan.b, MakeLayout(p.in, b_turned ? p.n : p.k, b_turned ? p.k : p.n, p.b_stride));
    MUSTER_ASSIGN_OR_RETURN(plan.c, MakeLayout(p.out, p.m, p.n, p.c_stride));
    return plan;
  }

  absl::StatusOr<std::vector<cublasLtMatmulHeuristicResult_t>> Propose(const PlanKey& key,
                                                                       const Plan& plan) {
    Preference preference;
    MUSTER_RETURN_IF_ERROR(BlasStatus(cublasLtMatmulPreferenceCreate(preference.out()),
                                      "making preferences of a matrix product"));
    MUSTER_RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                               uint64_t{options_.workspace_bytes}));
    // Its A is our b.
    MUSTER_RETURN_IF_ERROR(
        Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment));
    MUSTER_RETURN_IF_ERROR(
        Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment));
    MUSTER_RETURN_IF_ERROR(
        Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_alignment));
    MUSTER_RETURN_IF_ERROR(
        Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.c_alignment));
    // Sums of parts in 16 bits would round more often than once.
    MUSTER_RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                               uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}));
    std::vector<cublasLtMatmulHeuristicResult_t> proposals(
        std::clamp(options_.candidates, 1, kMaxCandidates));
    int count = 0;
    MUSTER_RETURN_IF_ERROR(BlasStatus(
        cublasLtMatmulAlgoGetHeuristic(
            handle_, plan.operation.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(),
            preference.get(), static_cast<int>(proposals.size()), proposals.data(), &count),
        Describe(key.problem)));
    proposals.resize(count);
    proposals.erase(std::remove_if(proposals.begin(), proposals.end(),
                                   [](const cublasLtMatmulHeuristicResult_t& each) {
                                     return each.state != CUBLAS_STATUS_SUCCESS;
                                   }),
                    proposals.end());
    if (proposals.empty()) {
      return absl::UnimplementedError(
          absl::StrCat(Describe(key.problem), ": cuBLASLt has no algorithm for it"));
    }
    return proposals;
  }

  // Milliseconds of one run, the best of several; or why it cannot run.
  absl::StatusOr<float> Time(DeviceStream& stream, const MatmulProblem& p, const Plan& plan,
                             const cublasLtMatmulAlgo_t& algorithm,
                             const MatmulOperands& operands) {
    Stopwatch stopwatch;
    if (!stopwatch.ok()) return absl::InternalError("CUDA has no events for timing");
    const auto native = static_cast<cudaStream_t>(stream.native());
    // Once untimed: code is loaded at first use.
    MUSTER_RETURN_IF_ERROR(Launch(stream, p, plan, algorithm, operands));
    float best = 0;
    for (int i = 0; i < std::max(1, options_.repetitions); ++i) {
      MUSTER_RETURN_IF_ERROR(stopwatch.Begin(native));
      MUSTER_RETURN_IF_ERROR(Launch(stream, p, plan, algorithm, operands));
      MUSTER_ASSIGN_OR_RETURN(const float milliseconds, stopwatch.EndMilliseconds(native));
      best = i == 0 ? milliseconds : std::min(best, milliseconds);
    }
    return best;
  }

  absl::StatusOr<Plan> MakePlan(DeviceStream& stream, const PlanKey& key,
                                const MatmulOperands& operands) {
    MUSTER_ASSIGN_OR_RETURN(Plan plan, Describing(key.problem, operands));
    MUSTER_ASSIGN_OR_RETURN(const auto proposals, Propose(key, plan));
    MatmulChoice choice;
    choice.product = Describe(key.problem);
    choice.proposals = static_cast<int>(proposals.size());
    if (measuring_) {
      absl::Status why_not;
      float best = 0;
      for (size_t i = 0; i < proposals.size(); ++i) {
        const absl::StatusOr<float> time =
            Time(stream, key.problem, plan, proposals[i].algo, operands);
        if (!time.ok()) {
          why_not = time.status();
          continue;
        }
        if (plan.measured && *time >= best) continue;
        plan.measured = true;
        best = *time;
        choice.chosen = static_cast<int>(i);
      }
      if (!plan.measured) return why_not;
      choice.microseconds = 1e3 * best;
    } else {
      for (size_t i = proposals.size() - 1; i > 0; --i) plan.others.push_back(proposals[i].algo);
    }
    plan.algorithm = proposals[choice.chosen].algo;
    plan.choice = std::move(choice);
    return plan;
  }

  const DeviceMatmulOptions options_;
  const cublasLtHandle_t handle_;
  bool measuring_ = false;
  absl::flat_hash_map<PlanKey, Plan> plans_;
  uint64_t next_number_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMatmul>> MakeDeviceMatmul(const DeviceMatmulOptions& options) {
  cublasLtHandle_t handle = nullptr;
  MUSTER_RETURN_IF_ERROR(BlasStatus(cublasLtCreate(&handle), "starting cuBLASLt"));
  return std::make_unique<CudaMatmul>(handle, options);
}

}  // namespace muster
