#include "common/kernels/gemm/gemm_primitive.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/kernels/aligned_floats.h"
#include "common/kernels/matmul.h"
#include "common/tensor/bfloat16.h"
#include "dnnl.h"

namespace muster {
namespace {

// Only sizes and types that no caller may pass make oneDNN refuse; there is nothing to go on with.
void Require(dnnl_status_t status, const char* what, const GemmProblem& problem) {
  if (status == dnnl_success) return;
  std::fprintf(stderr, "Gemm of m=%lld, n=%lld, k=%lld: oneDNN's %s failed with status %d\n",
               static_cast<long long>(problem.m), static_cast<long long>(problem.n),
               static_cast<long long>(problem.k), what, static_cast<int>(status));
  std::abort();
}

// For the life of the process.
dnnl_engine_t Engine() {
  static const dnnl_engine_t engine = [] {
    dnnl_engine_t made = nullptr;
    Require(dnnl_engine_create(&made, dnnl_cpu, 0), "engine", {});
    return made;
  }();
  return engine;
}

dnnl_memory_desc_t Describe(int64_t rows, int64_t cols, bool transposed, int64_t stride, bool bf16,
                            const GemmProblem& problem) {
  const dnnl_dims_t dims = {rows, cols};
  const dnnl_dims_t strides = {transposed ? 1 : stride, transposed ? stride : 1};
  dnnl_memory_desc_t description;
  Require(
      dnnl_memory_desc_init_by_strides(&description, 2, dims, bf16 ? dnnl_bf16 : dnnl_f32, strides),
      "memory description", problem);
  return description;
}

// A primitive and the descriptions of its arguments. Const after construction; scratch is the
// caller's, so that any thread may run it.
class Prepared {
 public:
  explicit Prepared(const GemmProblem& p)
      : a_(Describe(p.m, p.k, p.transpose_a == Transpose::kYes, p.a_stride, p.bf16_in, p)),
        b_(Describe(p.k, p.n, p.transpose_b == Transpose::kYes, p.b_stride, p.bf16_in, p)),
        bias_(Describe(1, p.n, false, p.n, false, p)),
        c_(Describe(p.m, p.n, false, p.c_stride, p.bf16_out, p)) {
    dnnl_matmul_desc_t operation;
    Require(dnnl_matmul_desc_init(&operation, &a_, &b_, p.has_bias ? &bias_ : nullptr, &c_),
            "matmul description", p);
    dnnl_primitive_attr_t attributes;
    Require(dnnl_primitive_attr_create(&attributes), "attributes", p);
    Require(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user),
            "scratchpad mode", p);
    if (p.accumulation == Accumulation::kAdd) {
      dnnl_post_ops_t post;
      Require(dnnl_post_ops_create(&post), "post-operations", p);
      Require(dnnl_post_ops_append_sum(post, 1), "sum", p);
      Require(dnnl_primitive_attr_set_post_ops(attributes, post), "sum", p);
      dnnl_post_ops_destroy(post);
    }
    dnnl_primitive_desc_t description;
    Require(dnnl_primitive_desc_create(&description, &operation, attributes, Engine(), nullptr),
            "matmul for this machine", p);
    scratchpad_ = *dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    Require(dnnl_primitive_create(&primitive_, description), "matmul primitive", p);
    dnnl_primitive_desc_destroy(description);
    dnnl_primitive_attr_destroy(attributes);
  }
  ~Prepared() { dnnl_primitive_destroy(primitive_); }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  void Run(const GemmProblem& problem, const void* a, const void* b, const float* bias,
           void* c) const {
    thread_local AlignedFloats scratch;
    const size_t scratch_bytes = dnnl_memory_desc_get_size(&scratchpad_);
    Memory memories[] = {
        {a_, const_cast<void*>(a), problem},
        {b_, const_cast<void*>(b), problem},
        {c_, c, problem},
        {scratchpad_, scratch.Reserve(static_cast<int64_t>(scratch_bytes / sizeof(float)) + 1),
         problem},
        {bias_, const_cast<float*>(bias), problem},
    };
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memories[0].get()},
                                         {DNNL_ARG_WEIGHTS, memories[1].get()},
                                         {DNNL_ARG_DST, memories[2].get()},
                                         {DNNL_ARG_SCRATCHPAD, memories[3].get()},
                                         {DNNL_ARG_BIAS, memories[4].get()}};
    Require(dnnl_primitive_execute(primitive_, Stream(), bias != nullptr ? 5 : 4, arguments),
            "execution", problem);
  }

 private:
  // A view of the caller's memory.
  class Memory {
   public:
    Memory(const dnnl_memory_desc_t& description, void* data, const GemmProblem& problem) {
      Require(dnnl_memory_create(&memory_, &description, Engine(), data), "memory", problem);
    }
    ~Memory() { dnnl_memory_destroy(memory_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    dnnl_memory_t get() const { return memory_; }

   private:
    dnnl_memory_t memory_ = nullptr;
  };

  // One a thread; computes in the calling thread's OpenMP team before it returns.
  static dnnl_stream_t Stream() {
    struct Owner {
      Owner() {
        Require(dnnl_stream_create(&stream, Engine(), dnnl_stream_in_order), "stream", {});
      }
      ~Owner() { dnnl_stream_destroy(stream); }
      dnnl_stream_t stream = nullptr;
    };
    thread_local const Owner owner;
    return owner.stream;
  }

  dnnl_memory_desc_t a_, b_, bias_, c_, scratchpad_;
  dnnl_primitive_t primitive_ = nullptr;
};

// The primitives last used, by problem and number of threads, for which oneDNN plans.
class Cache {
 public:
  std::shared_ptr<const Prepared> Get(const GemmProblem& problem, int threads) {
    const Key key = {problem, threads};
    {
      absl::MutexLock lock(&mutex_);
      const auto found = entries_.find(key);
      if (found != entries_.end()) {
        order_.splice(order_.begin(), order_, found->second);
        return found->second->second;
      }
    }
    // Takes milliseconds. Two threads may both make it; one of them stays.
    auto prepared = std::make_shared<const Prepared>(problem);
    absl::MutexLock lock(&mutex_);
    if (entries_.contains(key)) return prepared;
    order_.emplace_front(key, prepared);
    entries_[key] = order_.begin();
    constexpr size_t kMost = 1024;
    if (entries_.size() > kMost) {
      entries_.erase(order_.back().first);
      order_.pop_back();
    }
    return prepared;
  }

 private:
  using Key = std::pair<GemmProblem, int>;
  using Order = std::list<std::pair<Key, std::shared_ptr<const Prepared>>>;

  absl::Mutex mutex_;
  // The last used first.
  Order order_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Key, Order::iterator> entries_ ABSL_GUARDED_BY(mutex_);
};

void RunAsIs(const GemmProblem& problem, const void* a, const void* b, const float* bias, void* c) {
  // Never destroyed: oneDNN may be gone first at exit.
  static Cache* const cache = new Cache;
  ApplyComputeThreads();
  cache->Get(problem, ComputeThreads())->Run(problem, a, b, bias, c);
}

// On processors with AMX, oneDNN 2.6 runs an illegal instruction in some bf16 products over this
// many elements, such as 72 x 63 times 63 x 24, and in none over another number of several thousand
// that were tried at random. So these products are made of copies with one more element, which is
// zero.
constexpr int64_t kFaultyLength = 63;

// Returns a copy of a matrix of [along, kFaultyLength] elements, or of its transpose, with zeros
// for one more element of the second axis. `copy` holds it.
const BFloat16* CopyWithZeros(const BFloat16* from, int64_t along, int64_t stride, bool transposed,
                              std::vector<BFloat16>& copy) {
  constexpr int64_t kLength = kFaultyLength + 1;
  copy.assign(along * kLength, BFloat16());
  const int64_t rows = transposed ? kFaultyLength : along;
  const int64_t cols = transposed ? along : kFaultyLength;
  const int64_t copy_stride = transposed ? along : kLength;
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(from + row * stride, cols, copy.data() + row * copy_stride);
  }
  return copy.data();
}

void RunOfCopies(const GemmProblem& faulty, const void* a, const void* b, const float* bias,
                 void* c) {
  thread_local std::vector<BFloat16> copy_of_a, copy_of_b;
  GemmProblem problem = faulty;
  const bool a_transposed = problem.transpose_a == Transpose::kYes;
  const bool b_transposed = problem.transpose_b == Transpose::kYes;
  a = CopyWithZeros(static_cast<const BFloat16*>(a), problem.m, problem.a_stride, a_transposed,
                    copy_of_a);
  b = CopyWithZeros(static_cast<const BFloat16*>(b), problem.n, problem.b_stride, !b_transposed,
                    copy_of_b);
  problem.k = kFaultyLength + 1;
  problem.a_stride = a_transposed ? problem.m : problem.k;
  problem.b_stride = b_transposed ? problem.k : problem.n;
  RunAsIs(problem, a, b, bias, c);
}

}  // namespace

void RunGemmPrimitive(const GemmProblem& problem, const void* a, const void* b, const float* bias,
                      void* c) {
  const bool faulty = problem.bf16_in && problem.k == kFaultyLength;
  (faulty ? RunOfCopies : RunAsIs)(problem, a, b, bias, c);
}

}  // namespace muster
