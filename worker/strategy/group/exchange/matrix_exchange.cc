#include "worker/strategy/group/exchange/matrix_exchange.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/base/status_macros.h"
#include "common/kernels/orthogonalise.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {
namespace {

// The elements of a peer that move in one of the two directions.
uint64_t SentTo(const MatrixPeer& peer, bool to_owners) {
  return to_owners ? ElementsOf(peer.sent) : ElementsOf(peer.given);
}
uint64_t ReceivedFrom(const MatrixPeer& peer, bool to_owners) {
  return to_owners ? ElementsOf(peer.taken) : ElementsOf(peer.returned);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MatrixExchange>> MatrixExchange::Create(RankGroups& groups,
                                                                       const ShardState& state,
                                                                       absl::Duration timeout,
                                                                       WaitForWork wait) {
  if (!state.divides_matrices()) return nullptr;
  const Axes axes = state.shard().size(kShardAxes) == 1      ? Axes(Axis::kTensor)
                    : state.shard().size(Axis::kTensor) == 1 ? kShardAxes
                                                             : kMatrixAxes;
  std::unique_ptr<MatrixExchange> exchange(new MatrixExchange(axes, timeout, std::move(wait)));
  if (axes == kMatrixAxes) MUSTER_RETURN_IF_ERROR(groups.Make(axes));
  exchange->group_ = &groups.Group(axes);
  MUSTER_ASSIGN_OR_RETURN(exchange->rounds_, state.MakeMatrixRounds());
  return exchange;
}

absl::Status MatrixExchange::Run(ShardState& state) {
  for (const MatrixRound& round : rounds_) MUSTER_RETURN_IF_ERROR(MakeRound(round, state));
  return absl::OkStatus();
}

absl::Status MatrixExchange::MakeRound(const MatrixRound& round, ShardState& state) {
  sent_.clear();
  for (const MatrixPeer& peer : round.peers) {
    for (const HeldSeries& series : peer.sent) {
      const auto from = state.Direction(series.block).subspan(series.first, series.count);
      sent_.insert(sent_.end(), from.begin(), from.end());
    }
  }
  MUSTER_RETURN_IF_ERROR(Move(round, /*to_owners=*/true));

  matrices_.resize(round.owned_elements);
  const float* next = received_.data();
  for (const MatrixPeer& peer : round.peers) {
    for (const OwnedSeries& series : peer.taken) {
      std::copy_n(next, series.count, matrices_.begin() + static_cast<ptrdiff_t>(series.first));
      next += series.count;
    }
  }
  for (const MatrixRound::Owned& matrix : round.owned) {
    Orthogonalise(matrix.rows, matrix.columns,
                  absl::MakeSpan(matrices_).subspan(matrix.first, matrix.rows * matrix.columns));
  }
  sent_.clear();
  for (const MatrixPeer& peer : round.peers) {
    for (const OwnedSeries& series : peer.given) {
      const auto from = matrices_.begin() + static_cast<ptrdiff_t>(series.first);
      sent_.insert(sent_.end(), from, from + static_cast<ptrdiff_t>(series.count));
    }
  }
  MUSTER_RETURN_IF_ERROR(Move(round, /*to_owners=*/false));

  next = received_.data();
  for (const MatrixPeer& peer : round.peers) {
    for (const HeldSeries& series : peer.returned) {
      std::copy_n(next, series.count, state.Direction(series.block).begin() + series.first);
      next += series.count;
    }
  }
  // An offloaded state has one round's directions mapped at a time.
  state.UnmapState();
  return absl::OkStatus();
}

absl::Status MatrixExchange::Move(const MatrixRound& round, bool to_owners) {
  uint64_t elements = 0;
  for (const MatrixPeer& peer : round.peers) elements += ReceivedFrom(peer, to_owners);
  received_.resize(elements);
  std::vector<CollectiveCall> messages;
  const float* in = sent_.data();
  float* out = received_.data();
  for (const MatrixPeer& peer : round.peers) {
    const uint64_t sent = SentTo(peer, to_owners);
    const uint64_t received = ReceivedFrom(peer, to_owners);
    if (peer.rank == group_->rank()) {
      std::copy_n(in, sent, out);
    } else {
      CollectiveCall message = {.root = peer.rank, .timeout = timeout_, .label = "directions"};
      if (sent > 0) {
        message.kind = Collective::kSend;
        message.in = in;
        message.count = sent;
        messages.push_back(message);
      }
      if (received > 0) {
        message.kind = Collective::kReceive;
        message.in = nullptr;
        message.out = out;
        message.count = received;
        messages.push_back(message);
      }
    }
    in += sent;
    out += received;
  }
  absl::Status status;
  for (const std::shared_ptr<Work>& work : group_->StartMessages(messages)) {
    status.Update(wait_(*work));
  }
  return status;
}

}  // namespace muster
