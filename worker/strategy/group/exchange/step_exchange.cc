#include "worker/strategy/group/exchange/step_exchange.h"

#include <cstddef>
#include <iterator>
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

absl::StatusOr<StepTotal> StepExchange::Run(Communicator& communicator, absl::Duration timeout,
                                            const StepShare& mine,
                                            absl::Span<const size_t> cells_by_rank) {
  const size_t ranks = communicator.size();
  const int64_t head[] = {static_cast<int64_t>(mine.examples), mine.overflowed};
  heads_.resize(ranks * std::size(head));
  CollectiveCall gather =
      AllGather(DType::kInt64, head, heads_.data(), timeout, "examples and overflows");
  gather.count = std::size(head);
  MUSTER_RETURN_IF_ERROR(communicator.Run(gather));

  StepTotal total;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const int64_t* const other = &heads_[rank * std::size(head)];
    total.examples += other[0];
    const int overflowed = static_cast<int>(other[1]);
    if (overflowed < 0) continue;
    if (total.overflowed < 0 || overflowed < total.overflowed) total.overflowed = overflowed;
  }
  cells_.resize(std::accumulate(cells_by_rank.begin(), cells_by_rank.end(), size_t{0}));
  if (cells_.empty()) return total;
  gather = AllGather(DType::kF64, mine.cells.data(), cells_.data(), timeout, "norms of cells");
  gather.counts = cells_by_rank;
  MUSTER_RETURN_IF_ERROR(communicator.Run(gather));
  total.cells = cells_;
  return total;
}

}  // namespace muster
