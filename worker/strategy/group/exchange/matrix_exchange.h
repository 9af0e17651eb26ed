#ifndef MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_MATRIX_EXCHANGE_H_
#define MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_MATRIX_EXCHANGE_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/partition/matrix_rounds.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/group/exchange/rank_groups.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// Orthogonalises matrices that tensor ranks and shards divide among them, between the sums of a
// step and the step itself (matrix_rounds.h says who does which, and what that costs). Round by
// round, each rank sends what it holds of directions to the owners, in one message each; these
// orthogonalise whole matrices and send them back. All that changes are directions in the optimizer
// state, which are no part of what training goes on from: a step that fails here can be made again.
//
// Used by one thread.
class MatrixExchange {
 public:
  // Creates the exchange of a rank with this state; a collective call of all ranks. Null: no matrix
  // of the job is divided. `groups` outlives it. Errors are the communicators' and the layout's.
  static absl::StatusOr<std::unique_ptr<MatrixExchange>> Create(RankGroups& groups,
                                                                const ShardState& state,
                                                                absl::Duration timeout,
                                                                WaitForWork wait);

  // Brings the orthogonalised directions of the state's divided matrices to all ranks that hold
  // some of them; a collective call of all ranks. REQUIRES: the state is as that of Create, and has
  // the directions of its own gradients (ShardState::DirectMatrices). Errors are the
  // communicators'.
  absl::Status Run(ShardState& state);

  // Returns the axes of the group in which directions move: of kMatrixAxes those that divide
  // matrices; and the group's traffic.
  Axes axes() const { return axes_; }
  CollectiveTraffic traffic() const { return group_->traffic(); }

 private:
  MatrixExchange(Axes axes, absl::Duration timeout, WaitForWork wait)
      : axes_(axes), timeout_(timeout), wait_(std::move(wait)) {}

  // Elements that go to other ranks and come from them, in order of peers; those of this rank
  // itself are moved here.
  absl::Status Move(const MatrixRound& round, bool to_owners);
  absl::Status MakeRound(const MatrixRound& round, ShardState& state);

  const Axes axes_;
  const absl::Duration timeout_;
  const WaitForWork wait_;
  // Const after Create.
  Communicator* group_ = nullptr;
  std::vector<MatrixRound> rounds_;
  // The elements that a round sends and receives, and the matrices that the rank owns.
  std::vector<float> sent_;
  std::vector<float> received_;
  std::vector<float> matrices_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_MATRIX_EXCHANGE_H_
