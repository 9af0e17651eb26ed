#ifndef MUSTER_WORKER_STRATEGY_SERVERS_PARAMETER_SERVER_STRATEGY_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_PARAMETER_SERVER_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/checkpoint/storage.h"
#include "common/partition/dense_layout.h"
#include "common/partition/schema.h"
#include "common/partition/unit_places.h"
#include "common/tensor/dtype.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "worker/strategy/background_cuts.h"
#include "worker/strategy/global_norm.h"
#include "worker/strategy/servers/clock_entrance.h"
#include "worker/strategy/servers/data_rank_peers.h"
#include "worker/strategy/servers/dense_pulls.h"
#include "worker/strategy/servers/dense_pushes.h"
#include "worker/strategy/servers/dense_runs.h"
#include "worker/strategy/servers/served_cuts.h"
#include "worker/strategy/servers/served_loss_scale.h"
#include "worker/strategy/servers/served_rows.h"
#include "worker/strategy/servers/shard_router.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class TablesSchema;
class TaskOrder;
}  // namespace v1

// Parameters live on servers: pulls them unit by unit, pushes gradients as units finish, closes the
// clock.
//
//   BeginStep(c)      sends the first dense pulls, first unit first
//   Acquire(u)        sends those of later units (dense_pulls.h); waits for unit u's
//   GradientReady(u)  in the last micro-batch, sends unit u's pushes (dense_pushes.h). Scaled
//                     gradients leave divided by the scale, once all are there and it is known
//                     whether any overflowed (served_loss_scale.h)
//   EndStep           where clocks do not wait for backup workers, enters the clock and then sends
//                     all pushes, or drops the gradients (clock_entrance.h); sends a close to every
//                     partition, waits until all is acknowledged; where the job clips by global
//                     norm, slot 0 then combines the partitions' norms and hands out the scale
//
// Under ZeRO stage 3 (HoldsUnitsInFlight) the worker has memory only for the parameters and
// gradients of units in flight. Each unit's gradients then leave in every micro-batch; those of a
// unit that others are tied to leave once the last of these has added its part. The servers add the
// micro-batches up. From the first gradient that overflows on, the step's gradients leave as zeros,
// and the group leaves the clock out.
//
// With `wire` of less than f32, gradients and all parameters travel as halves. Dense pushes then
// carry the rounding error of one step over to the next (dense_residual.h); pushed rows are rounded
// stochastically (row_groups.h); what is pulled is rounded to the nearest by the server, whose
// tables and sums stay f32.
//
// Where several ranks compute the model, each slot pulls the shares of its rank
// (TablesSchema::tensor_ranks and pipeline), and pushes those that no lower rank has, with
// gradients that its peers have added up (data_rank_peers.h). Context ranks have all shares of
// their rank, and each pushes what its own tokens come to, which servers add as they add data
// ranks' gradients. Examples count on the first rank alone, in pushes on the first context rank.
// The ranks of a group begin at the same clock: the least that any of them has not closed
// everywhere. Those that have closed it repeat it for the others; servers have their pushes
// already.
//
// Messages carry 1 to 4 MiB. BSP, SSP and ASP are all the same here: servers answer a pull when its
// clock is reached. A schema without dense tensors makes it the sparse half of a hybrid job.
class ParameterServerStrategy final : public Strategy {
 public:
  struct Options {
    ShardRouterOptions router;
    // Bound on the tensor bytes of a message (a larger block is sent alone).
    uint64_t max_message_bytes = 4 << 20;
    // Bound on what is asked for and not waited for yet, but for the unit that is due and the next:
    // enough that servers and their connections always have something to do, and no more, since on
    // its way it lies in memory.
    uint64_t pull_window_bytes = kPullWindowBytes;
    // Bound on what is pushed and not acknowledged yet, but for the pushes of one unit alone: a
    // server that is behind has it all in the memory that it shares with the worker.
    uint64_t push_window_bytes = kPushWindowBytes;
    // Pulls all as f32, also what the schema says is computed with in 16 bits, and rounds nothing:
    // for engines that round for themselves, and for who wants the values.
    bool pull_f32 = false;
    // The memory of gradients and of what is pulled, so that servers of this machine reach them;
    // null: the process's own memory. The same that `make_client`'s clients have.
    std::shared_ptr<RegisteredMemory> registered_memory;
    // The other ranks of the slot's data rank; null: there are none. Outlives the strategy.
    DataRankPeers* peers = nullptr;
    // The storage of checkpoints, from which the slot's own state is taken over: residuals of
    // half-precision pushes, and its loss scale; null: that state begins anew. Outlives the
    // strategy.
    const CheckpointStorage* checkpoints = nullptr;
    // Slot 0's way from the squared norms that partitions report to the factor by which all
    // gradients are scaled; null takes ClipByNorm over these tables. For those who hold more
    // parameters than the servers do.
    std::function<absl::StatusOr<NormClipping>(
        absl::Span<const std::vector<double>> partition_norms)>
        clipping;
  };

  // `schema` is the job's, as every slot makes it from the same specification and data.
  // Options::router's slot and incarnation are taken from the order. InvalidArgument: the schema is
  // not valid, or `wire` is not F32 where the worker cannot keep what pushes round away: under ZeRO
  // stage 3, and where several ranks compute the model.
  static absl::StatusOr<std::unique_ptr<ParameterServerStrategy>> Create(
      const v1::TaskOrder& order, const v1::TablesSchema& schema, Options options,
      ShardRouterDependencies dependencies);

  absl::StatusOr<uint64_t> Start() override;
  void SetRateFactor(double factor) override { router_.set_rate_factor(factor); }
  absl::Status BeginStep(uint64_t clock) override;
  absl::Status Acquire(int unit, Direction direction) override;
  void Release(int unit, Direction direction) override {}
  ModelParameters parameters() const override { return pulls_.parameters(); }
  absl::Status Prefetch(const MicroBatch& micro_batch) override;
  absl::Status LookUp(MicroBatch& micro_batch) override;
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override;
  Accumulation GradientStore(int unit) const override {
    return micro_batches_ == 1 || in_flight() ? Accumulation::kWrite : Accumulation::kAdd;
  }
  GradientSpans gradients() const override { return pushes_.gradients(); }
  float loss_scale() const override { return loss_scale_.scaling().scale(); }
  absl::Status GradientReady(int unit) override;
  absl::Status PushRows(MicroBatch& micro_batch) override;
  absl::Status EndStep() override;
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override { return cuts_.Cut(clock); }
  BackgroundCuts& background_cuts() override { return cuts_; }
  const LossScaler* loss_scaler() const override { return loss_scale_.scaling().scaler(); }
  StrategyCounters counters() const override;
  absl::optional<uint64_t> LeftOutUntil() const override { return left_out_until_; }

  // Says that this slot has no gradient of the unit in this step, in place of GradientReady. The
  // unit's parameters stay as they are if no slot has one. REQUIRES: gradients are not scaled, the
  // slot has the whole model, and the step is one micro-batch.
  absl::Status NoGradient(int unit);

  // Ends waits for servers, now and later, with Aborted: the ranks of the job are to meet. For any
  // thread.
  void EndWaits(absl::string_view reason) { router_.Interrupt(reason); }

  // Returns how many clocks this slot has closed on all partitions; absent before Start.
  absl::optional<uint64_t> closed() const { return closed_; }

  // The scale that this slot handed out at the end of the last step; 1 on slots that do not clip,
  // and where the job does not clip by global norm.
  double last_clipping_scale() const { return last_clipping_scale_; }

 private:
  using Handle = ShardRouter::Handle;

  // A slot's share of the job's tables.
  struct Share {
    // The first unit that the slot computes.
    int first_unit = 0;
    Tables tables;
    DenseLayout layout;
    // The layout of all ranks' shares; absent if there is one.
    absl::optional<DenseLayout> joined;
  };

  ParameterServerStrategy(Share share, const v1::TaskOrder& order, const v1::TablesSchema& schema,
                          const Options& options, ShardRouterDependencies dependencies);

  // Pushes the step's gradients, or drops them if the clock does not wait for this slot.
  absl::Status EnterClock();
  // Returns whether the slot does the clipping by global norm of a clock of this entry: the lowest
  // that the clock waits for does.
  bool Clips(const ClockEntrance::Entry& entry) const {
    return max_norm_ > 0 && entry.FirstSlot() == slot_;
  }
  // Combines the norms of `clock` and has the optimizers run. For the slot that clips alone.
  absl::Status ExchangeNorms(uint64_t clock);
  void SetClosed(uint64_t clocks);
  // Returns what the slot has of the tables. Errors are ValidateSchema's.
  static absl::StatusOr<Share> ShareOf(const v1::TaskOrder& order, const v1::TablesSchema& schema);

  // Has the peers sum the unit's gradients of what they have in common.
  absl::Status SumShared(int unit);
  absl::Status AddTied(int unit);
  bool in_flight() const { return holding_ == UnitPlaces::Holding::kInFlight; }
  // Sends the unit's pushes, for a micro-batch or for the step.
  absl::Status Push(int unit);
  // Divides the unit's gradients by the loss scale. Withdraws the step's gradients from the first
  // one on that is not finite.
  void Divide(int unit);
  // Begins the clock with the loss scale that all ranks of the data rank begin it with.
  absl::Status AgreeOnLossScale();
  // Takes what the step's gradients came to.
  absl::Status TakeGradients();
  // Internal: some of this clock's dense values have not come.
  absl::Status CheckAllPulled() const;
  // Waits for an answer, and counts the time.
  absl::Status Await(const Handle& operation);

  // The examples of what the slot pushes count; those of the clocks that it closes do.
  const bool pushes_examples_;
  const bool closes_examples_;
  const int first_unit_;
  const Tables tables_;
  const DenseLayout layout_;
  const DenseLayout trained_layout_;
  const absl::optional<DenseLayout> joined_;
  const Options options_;
  const std::unique_ptr<const v1::TaskOrder> order_;
  // The type of gradients and parameters in messages.
  const DType wire_;
  const Clock& time_;
  const std::function<void(absl::string_view)> log_;
  const uint32_t slot_;
  // The global norm that gradients are clipped to; 0: they are not.
  const double max_norm_;
  const bool synchronous_;
  const int units_;
  const UnitPlaces::Holding holding_;
  const std::vector<std::vector<DenseRun>> runs_;
  // True for each partition of which the slot pushes blocks.
  const std::vector<bool> pushes_to_;
  // The units whose gradients are complete once a unit is ready, by that unit, last one first.
  const std::vector<std::vector<int>> complete_with_;

  StrategyCounters counters_;
  ServedLossScale loss_scale_;
  DensePulls pulls_;
  DensePushes pushes_;
  ServedRows rows_;
  ServedCuts cuts_;
  ClockEntrance entrance_;
  // True if clocks do not wait for backup workers.
  const bool enters_;
  // True if the slot closes a clock on no partition before its pushes are in on all of them: others
  // may have to go on without this slot, and complete the clock from the pushes alone.
  const bool pushes_before_closes_;
  // The decision on the step's clock; without backup workers it waits for all.
  ClockEntrance::Entry entry_;
  absl::optional<uint64_t> left_out_until_;

  uint64_t clock_ = 0;
  absl::optional<uint64_t> closed_;
  // The numbers of examples in the step's micro-batches so far, and in the last one.
  uint64_t examples_ = 0;
  uint64_t micro_batch_examples_ = 0;
  // The step's micro-batches that BeforeBackward has seen, and the last one's position.
  int micro_batches_ = 0;
  SeriesPosition position_ = SeriesPosition::kLast;
  // The first tensor of the step whose scaled gradient is not finite; null: none so far.
  const TensorSpec* overflowed_ = nullptr;
  // True if the slot adds nothing to the clock, since gradients overflowed.
  bool left_out_ = false;
  double last_clipping_scale_ = 1;

  // Last: its destruction ends all use of the arenas by operations under way.
  ShardRouter router_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_PARAMETER_SERVER_STRATEGY_H_
