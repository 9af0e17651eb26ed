#include "client/chaos/integer_pushers.h"

#include "absl/strings/str_cat.h"
#include "client/chaos/integer_contribution.h"
#include "common/base/status_macros.h"

namespace muster {

absl::StatusOr<std::unique_ptr<IntegerPushers>> IntegerPushers::Create(StandaloneServer& server,
                                                                       IntegerTables tables) {
  MUSTER_ASSIGN_OR_RETURN(DenseLayout layout, tables.Layout());
  return std::unique_ptr<IntegerPushers>(
      new IntegerPushers(server, std::move(tables), std::move(layout)));
}

IntegerPushers::IntegerPushers(StandaloneServer& server, IntegerTables tables, DenseLayout layout)
    : tables_(std::move(tables)), layout_(std::move(layout)) {
  for (int slot = 0; slot < tables_.slots; ++slot) {
    pushers_.push_back(std::make_unique<IntegerPusher>(server, tables_, layout_, slot));
  }
}

IntegerPushers::~IntegerPushers() {
  for (std::thread& thread : threads_) thread.join();
}

void IntegerPushers::Begin(uint64_t clocks) {
  target_ = clocks;
  running_ = tables_.slots;
  results_.assign(tables_.slots, absl::OkStatus());
  for (int slot = 0; slot < tables_.slots; ++slot) {
    threads_.emplace_back([this, slot, clocks] {
      results_[slot] = pushers_[slot]->Push(clocks);
      --running_;
    });
  }
}

absl::Status IntegerPushers::Await() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (const absl::Status& result : results_) MUSTER_RETURN_IF_ERROR(result);
  clocks_ = target_;
  return absl::OkStatus();
}

void IntegerPushers::Rewind() {
  for (auto& pusher : pushers_) pusher->Rewind(clocks_);
}

absl::Status IntegerPushers::CheckSums() {
  std::vector<int64_t> expected(tables_.dense_elements + tables_.rows * kIntegerRowDim);
  for (const auto& pusher : pushers_) pusher->AddSums(clocks_, expected);
  uint64_t wrong = 0;
  std::string first;
  // Weights move against the gradient.
  const auto compare = [&](uint64_t element, float actual) {
    const auto sum = static_cast<float>(-expected[element]);
    if (actual == sum) return;
    if (wrong++ == 0) {
      first = absl::StrCat("element ", element, " is ", actual, " instead of ", sum);
    }
  };
  for (uint32_t partition = 0; partition < tables_.partitions; ++partition) {
    MUSTER_ASSIGN_OR_RETURN(const IntegerPusher::Values values, pushers_[0]->Pull(partition));
    size_t at = 0;
    for (uint32_t id : layout_.partition_blocks(partition)) {
      const DenseLayout::Block& block = layout_.blocks()[id];
      for (uint64_t i = block.begin; i < block.end; ++i) compare(i, values.dense[at++]);
    }
    at = 0;
    for (uint64_t key : KeysOf(partition, tables_.partitions, tables_.rows)) {
      for (uint32_t i = 0; i < kIntegerRowDim; ++i) {
        compare(tables_.dense_elements + key * kIntegerRowDim + i, values.rows[at++]);
      }
    }
  }
  if (wrong == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("after ", clocks_, " clocks of ", tables_.slots,
                                          " slots ", first, "; ", wrong,
                                          " values are wrong in total"));
}

}  // namespace muster
