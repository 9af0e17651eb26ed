#include "worker/strategy/group/exchange/step_agreement.h"

#include <iterator>
#include <numeric>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {
namespace {

// A rank adds this to the sum of examples if it has written its files.
constexpr double kHasWritten = 1.0 / (1 << 16);

}  // namespace

StepAgreement::StepAgreement(Communicator& world, Options options)
    : world_(world), options_(std::move(options)) {}

StepAgreement::~StepAgreement() {
  if (examples_sum_ == nullptr) return;
  world_.Abort("a step was given up with the sum of its examples under way");
  examples_sum_->Wait(absl::InfiniteDuration()).IgnoreError();
}

void StepAgreement::BeforeBackward(uint64_t examples, SeriesPosition position) {
  examples_ += examples;
  if (options_.extent == Extent::kAll || position != SeriesPosition::kLast) return;
  summed_examples_ = static_cast<double>(examples_) + (has_written_ ? kHasWritten : 0);
  if (world_.size() == 1) return;
  before_sum_ = world_.traffic();
  examples_sum_ = world_.Start(
      Sum(absl::MakeSpan(&summed_examples_, 1), options_.timeout, "examples of the step"));
}

absl::StatusOr<StepTotal> StepAgreement::Run(int overflowed, absl::Span<const double> cells) {
  StepTotal total;
  if (options_.extent == Extent::kAll) {
    const CollectiveTraffic before = world_.traffic();
    MUSTER_RETURN_IF_ERROR(GatherAll(overflowed, cells, total));
    Add(Since(before, world_.traffic()), traffic_.sent, traffic_.received);
    return total;
  }
  if (examples_sum_ != nullptr) {
    MUSTER_RETURN_IF_ERROR(std::exchange(examples_sum_, nullptr)->Wait(absl::InfiniteDuration()));
    Add(Since(before_sum_, world_.traffic()), traffic_.sent, traffic_.received);
  }
  total.examples = static_cast<uint64_t>(summed_examples_);
  const double writers = (summed_examples_ - static_cast<double>(total.examples)) / kHasWritten;
  total.all_have_written = writers == world_.size();
  return total;
}

absl::Status StepAgreement::GatherAll(int overflowed, absl::Span<const double> cells,
                                      StepTotal& total) {
  const size_t ranks = world_.size();
  const int64_t head[] = {options_.counts_examples ? static_cast<int64_t>(examples_) : 0,
                          overflowed * 2 + (has_written_ ? 1 : 0)};
  heads_.resize(ranks * std::size(head));
  MUSTER_RETURN_IF_ERROR(world_.Run(AllGather(absl::MakeConstSpan(head), heads_.data(),
                                              options_.timeout, "examples and overflows")));
  total.all_have_written = true;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const int64_t* const other = &heads_[rank * std::size(head)];
    total.examples += other[0];
    total.all_have_written &= (other[1] & 1) == 1;
    const int first = static_cast<int>(other[1] >> 1);
    if (first < 0) continue;
    if (total.overflowed < 0 || first < total.overflowed) total.overflowed = first;
  }
  const std::vector<size_t>& counts = options_.cells_by_rank;
  cells_.resize(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  if (cells_.empty()) return absl::OkStatus();
  CollectiveCall gather = AllGather(cells, cells_.data(), options_.timeout, "norms of cells");
  gather.counts = counts;
  MUSTER_RETURN_IF_ERROR(world_.Run(gather));
  total.cells = cells_;
  return absl::OkStatus();
}

}  // namespace muster
