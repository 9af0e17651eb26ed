#include "worker/strategy/group/step_exchange.h"

#include <cstddef>
#include <numeric>

#include "common/base/status_macros.h"

namespace muster {
namespace {

CollectiveCall AllGather(DType dtype, const void* in, void* out, absl::Duration timeout,
                         absl::string_view label) {
  CollectiveCall call;
  call.kind = Collective::kAllGather;
  call.dtype = dtype;
  call.in = in;
  call.out = out;
  call.timeout = timeout;
  call.label = label;
  return call;
}

}  // namespace

StepExchange::StepExchange(absl::Span<const uint32_t> row_dims)
    : sums_(row_dims.begin(), row_dims.end()) {}

absl::StatusOr<StepTotal> StepExchange::Run(Communicator& communicator, absl::Duration timeout,
                                            const StepShare& mine,
                                            absl::Span<const size_t> cells_by_rank) {
  const size_t ranks = communicator.size();
  const size_t width = 2 + mine.rows.size();
  std::vector<int64_t> head = {static_cast<int64_t>(mine.examples), mine.overflowed};
  for (const RowSum& rows : mine.rows) head.push_back(static_cast<int64_t>(rows.keys().size()));
  heads_.resize(ranks * width);
  CollectiveCall gather =
      AllGather(DType::kInt64, head.data(), heads_.data(), timeout, "examples and rows");
  gather.count = width;
  MUSTER_RETURN_IF_ERROR(communicator.Run(gather));

  StepTotal total;
  for (size_t rank = 0; rank < ranks; ++rank) {
    total.examples += heads_[rank * width];
    const int overflowed = static_cast<int>(heads_[rank * width + 1]);
    if (overflowed < 0) continue;
    if (total.overflowed < 0 || overflowed < total.overflowed) total.overflowed = overflowed;
  }
  for (size_t table = 0; table < mine.rows.size(); ++table) {
    counts_.clear();
    for (size_t rank = 0; rank < ranks; ++rank) counts_.push_back(heads_[rank * width + 2 + table]);
    MUSTER_RETURN_IF_ERROR(GatherTable(communicator, timeout, mine.rows[table], sums_[table]));
  }
  total.rows = sums_;
  cells_.resize(std::accumulate(cells_by_rank.begin(), cells_by_rank.end(), size_t{0}));
  if (cells_.empty()) return total;
  gather = AllGather(DType::kF64, mine.cells.data(), cells_.data(), timeout, "norms of cells");
  gather.counts = cells_by_rank;
  MUSTER_RETURN_IF_ERROR(communicator.Run(gather));
  total.cells = cells_;
  return total;
}

absl::Status StepExchange::GatherTable(Communicator& communicator, absl::Duration timeout,
                                       const RowSum& mine, RowSum& sum) {
  sum.Clear();
  const size_t total = std::accumulate(counts_.begin(), counts_.end(), size_t{0});
  if (total == 0) return absl::OkStatus();
  keys_.resize(total);
  CollectiveCall gather =
      AllGather(DType::kInt64, mine.keys().data(), keys_.data(), timeout, "keys of rows");
  gather.counts = counts_;
  MUSTER_RETURN_IF_ERROR(communicator.Run(gather));

  const size_t dim = mine.dim();
  rows_.resize(total * dim);
  std::vector<size_t> floats;
  for (size_t count : counts_) floats.push_back(count * dim);
  gather = AllGather(DType::kF32, mine.sums().data(), rows_.data(), timeout, "gradients of rows");
  gather.counts = floats;
  MUSTER_RETURN_IF_ERROR(communicator.Run(gather));
  // Rank after rank, as they lie here.
  sum.Add(keys_, rows_);
  return absl::OkStatus();
}

}  // namespace muster
