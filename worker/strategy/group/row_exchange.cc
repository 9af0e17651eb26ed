#include "worker/strategy/group/row_exchange.h"

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

absl::StatusOr<uint64_t> RowExchange::Run(Communicator& communicator, absl::Duration timeout,
                                          uint64_t examples, absl::Span<const RowSum> mine,
                                          absl::Span<RowSum> sums) {
  const size_t ranks = communicator.size();
  const size_t width = 1 + mine.size();
  std::vector<int64_t> head = {static_cast<int64_t>(examples)};
  for (const RowSum& rows : mine) head.push_back(static_cast<int64_t>(rows.keys().size()));
  heads_.resize(ranks * width);
  CollectiveCall gather =
      AllGather(DType::kInt64, head.data(), heads_.data(), timeout, "examples and rows");
  gather.count = width;
  MUSTER_RETURN_IF_ERROR(communicator.Run(gather));

  uint64_t all_examples = 0;
  for (size_t rank = 0; rank < ranks; ++rank) all_examples += heads_[rank * width];
  for (size_t table = 0; table < mine.size(); ++table) {
    counts_.clear();
    for (size_t rank = 0; rank < ranks; ++rank) counts_.push_back(heads_[rank * width + 1 + table]);
    MUSTER_RETURN_IF_ERROR(GatherTable(communicator, timeout, mine[table], sums[table]));
  }
  return all_examples;
}

absl::Status RowExchange::GatherTable(Communicator& communicator, absl::Duration timeout,
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
