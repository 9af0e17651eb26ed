#include "tests/benchmarks/parameter_server/sparse_limits.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/huge_memory.h"
#include "common/base/machine/prefetch.h"
#include "common/optim/optimizer.h"
#include "common/partition/tensor_spec.h"
#include "common/tables/sparse_table.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr uint64_t kRowsAtOnce = 4096;
// Rows whose memory is asked for before the first of them is used.
constexpr size_t kAhead = 16;

std::unique_ptr<const Optimizer> Sgd() {
  v1::OptimizerSpec spec;
  spec.set_name("sgd");
  spec.set_learning_rate(0.1f);
  return *CreateOptimizer(spec, Granularity::kRow);
}

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void PrefetchRow(const float* row) {
  for (uint32_t i = 0; i < kSparseDim; i += 16) Prefetch(row + i);
}

}  // namespace

struct SparseLimits::State {
  explicit State(uint64_t rows)
      : rows(rows),
        optimizer(Sgd()),
        table(spec, /*seed=*/1, *optimizer),
        array(rows * kSparseDim * sizeof(float)) {}

  float* row(uint64_t key) { return static_cast<float*>(array.data()) + key * kSparseDim; }

  const uint64_t rows;
  const SparseTableSpec spec = {.name = "rows", .dim = kSparseDim};
  const std::unique_ptr<const Optimizer> optimizer;
  SparseTable table;
  HugeMemory array;
  std::vector<float> values;
  RequestSource source;
};

SparseLimits::SparseLimits(uint64_t rows) : state_(std::make_unique<State>(rows)) {
  const std::vector<float> gradients(kRowsAtOnce * kSparseDim, 0.001f);
  std::vector<uint64_t> keys;
  for (uint64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    keys.clear();
    for (uint64_t key = begin; key < std::min(rows, begin + kRowsAtOnce); ++key) {
      keys.push_back(key);
    }
    state_->table.Update(keys, absl::MakeConstSpan(gradients).first(keys.size() * kSparseDim),
                         {.learning_rate = 0.1f}, SparseTable::Steps::kGiven, 0, 0);
  }
  std::memset(state_->array.data(), 0, rows * kSparseDim * sizeof(float));
}

SparseLimits::~SparseLimits() = default;

double SparseLimits::Measure(const std::string& what, KeyDistribution distribution, int64_t keys,
                             absl::Duration duration) {
  State& state = *state_;
  const std::vector<std::vector<uint64_t>>& requests =
      state.source.Draw(distribution, state.rows, keys);
  state.values.resize(keys * kSparseDim, 0.001f);
  const auto run = [&](const std::vector<uint64_t>& request) {
    const size_t floats = request.size() * kSparseDim;
    if (what == "table pull") {
      return state.table.Pull(request, absl::MakeSpan(state.values).first(floats));
    }
    if (what == "table push") {
      return state.table.Update(request, absl::MakeConstSpan(state.values).first(floats),
                                {.learning_rate = 1e-6f}, SparseTable::Steps::kGiven, 0, 0);
    }
    for (size_t i = 0; i < request.size(); ++i) {
      if (i + kAhead < request.size()) PrefetchRow(state.row(request[i + kAhead]));
      float* const row = state.row(request[i]);
      float* const value = &state.values[i * kSparseDim];
      if (what == "gather") {
        std::memcpy(value, row, kSparseDim * sizeof(float));
      } else {
        for (uint32_t k = 0; k < kSparseDim; ++k) row[k] += value[k];
      }
    }
  };
  uint64_t moved = 0;
  const double start = ProcessorSeconds();
  for (size_t i = 0; i < 2 || ProcessorSeconds() - start < absl::ToDoubleSeconds(duration); ++i) {
    run(requests[i % requests.size()]);
    moved += requests[i % requests.size()].size();
  }
  return static_cast<double>(moved) / (ProcessorSeconds() - start);
}

}  // namespace muster
