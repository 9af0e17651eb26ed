#include "server/shard/tables/job_tables.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/kernels/orthogonalise_scratch.h"
#include "common/optim/schedule.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

// A slot has a ledger of its own in every partition; more than these would be a mistake.
constexpr uint32_t kMostSlots = 1 << 16;

uint32_t ContextRanks(const v1::OpenTablesRequest& request) {
  return std::max(1u, request.context_ranks());
}

// Returns the mesh of the slots. REQUIRES: ValidateSlots.
Mesh MeshOfSlots(const v1::OpenTablesRequest& request) {
  const Mesh parts = MeshOf(request.schema());
  const auto context = static_cast<int>(ContextRanks(request));
  const int data = static_cast<int>(request.slots()) / (parts.size(kPartAxes) * context);
  return Mesh({.pipeline = parts.size(Axis::kPipeline),
               .replica = data,
               .context_copies = context,
               .tensor = parts.size(Axis::kTensor),
               .expert = parts.size(kExpertAxes)});
}

// Checks that the slots are whole data ranks, of which some share out experts. REQUIRES:
// ValidateSchema.
absl::Status ValidateSlots(const v1::OpenTablesRequest& request) {
  const uint64_t context = ContextRanks(request);
  const Mesh parts = MeshOf(request.schema());
  const uint64_t ranks = context * parts.size(kPartAxes);
  if (request.slots() % ranks != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots is ", request.slots(), ", which ", ranks,
                     ", schema.pipeline times context_ranks times schema.tensor_ranks, does not "
                     "divide: each data rank has that many slots"));
  }
  const uint64_t experts = parts.size(kExpertAxes);
  const uint64_t data = request.slots() / ranks;
  const bool within = context % experts == 0;
  if (within || (experts % context == 0 && data % (experts / context) == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "schema.expert_ranks is ", experts, ", but there are ", data, " data ranks of ", context,
      " context_ranks: it must divide context_ranks, or be a multiple of it "
      "that divides all of them"));
}

absl::Status ValidateUpdate(const v1::OpenTablesRequest& request) {
  const v1::UpdateSpec& update = request.update();
  const bool synchronous = !update.unlimited_staleness() && update.staleness_bound() == 0;
  if (update.staleness_bound() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("update.staleness_bound is ", update.staleness_bound(),
                     ", expected at least 0; set unlimited_staleness for no bound"));
  }
  if (!synchronous && update.deterministic()) {
    return absl::InvalidArgumentError(
        "update.deterministic needs staleness_bound 0: with another bound, results depend on the "
        "order in which pushes arrive");
  }
  if (update.backup_workers() >= request.slots()) {
    return absl::InvalidArgumentError(
        absl::StrCat("update.backup_workers is ", update.backup_workers(), ", and the job has ",
                     request.slots(), " slots; a clock needs at least one that it waits for"));
  }
  if (!synchronous && update.backup_workers() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "update.backup_workers is ", update.backup_workers(),
        ", which needs staleness_bound 0: with another bound, no clock waits for all"));
  }
  if (!synchronous && request.pushed_micro_batches() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pushed_micro_batches is ", request.pushed_micro_batches(),
        ", but the gradients of single micro-batches need staleness_bound 0: with another bound, "
        "each push changes the parameters"));
  }
  if (!synchronous && MeshOfSlots(request).size(kShareAxes) > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schema.tensor_ranks is ", request.schema().tensor_ranks(), ", schema.pipeline ",
        request.schema().pipeline(), ", schema.expert_ranks ", request.schema().expert_ranks(),
        " and context_ranks ", request.context_ranks(),
        ", but ranks that compute one model need staleness_bound 0: with another bound, they read "
        "different versions of the parameters"));
  }
  const float max_norm = request.schema().clipping().by_global_norm();
  if (!synchronous && max_norm > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("clipping.by_global_norm is ", max_norm,
                     ", but clipping needs staleness_bound 0: with another bound, a clock has no "
                     "single gradient whose norm can be taken"));
  }
  return absl::OkStatus();
}

// Checks that a generation may go on with an earlier one's tables, if it is to. REQUIRES:
// ValidateUpdate.
absl::Status ValidateTakeover(const v1::OpenTablesRequest& request) {
  const uint64_t earlier = request.takes_over_generation();
  if (earlier == 0) return absl::OkStatus();
  if (earlier >= request.generation()) {
    return absl::InvalidArgumentError(absl::StrCat("takes_over_generation is ", earlier,
                                                   ", expected one before generation ",
                                                   request.generation()));
  }
  const v1::UpdateSpec& update = request.update();
  if (update.unlimited_staleness() || update.staleness_bound() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "takes_over_generation is ", earlier,
        ", which needs staleness_bound 0: with another bound, the tables are at no clock at which "
        "other slots could go on"));
  }
  if (update.backup_workers() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes_over_generation is ", earlier, ", and update.backup_workers ",
                     update.backup_workers(),
                     ": clocks that leave slots out cannot be closed for them; set one of the two "
                     "to 0"));
  }
  return absl::OkStatus();
}

absl::Status ValidateRequest(const v1::OpenTablesRequest& request) {
  if (request.job_id().empty()) return absl::InvalidArgumentError("job_id is empty");
  if (request.slots() == 0 || request.slots() > kMostSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots is ", request.slots(), ", expected 1 to ", kMostSlots));
  }
  if (request.slot() >= request.slots()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slot is ", request.slot(), ", but the job has ", request.slots(), " slots"));
  }
  MUSTER_RETURN_IF_ERROR(ValidateSchema(request.schema()));
  MUSTER_RETURN_IF_ERROR(ValidateSlots(request));
  MUSTER_RETURN_IF_ERROR(ValidateUpdate(request));
  MUSTER_RETURN_IF_ERROR(ValidateTakeover(request));
  std::vector<bool> seen(request.schema().partitions());
  for (const v1::PartitionTerm& term : request.partitions()) {
    if (term.partition() >= seen.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("partitions names partition ", term.partition(), " of ", seen.size()));
    }
    if (seen[term.partition()]) {
      return absl::InvalidArgumentError(
          absl::StrCat("partitions names partition ", term.partition(), " twice"));
    }
    seen[term.partition()] = true;
  }
  return absl::OkStatus();
}

// Returns the fingerprint of what two requests must agree on beside the schema.
uint64_t RequestFingerprint(const v1::OpenTablesRequest& request) {
  const v1::UpdateSpec& update = request.update();
  std::string text = absl::StrCat(request.slots(), "/", update.staleness_bound(), "/",
                                  update.unlimited_staleness(), "/", update.deterministic(), "/",
                                  static_cast<int>(update.durability()));
  // Stored fingerprints of jobs without micro-batches, context ranks or backup workers do not have
  // these fields.
  if (request.pushed_micro_batches() > 0) {
    absl::StrAppend(&text, "/", request.pushed_micro_batches());
  }
  if (ContextRanks(request) > 1) absl::StrAppend(&text, "/context ", request.context_ranks());
  if (update.backup_workers() > 0) absl::StrAppend(&text, "/backup ", update.backup_workers());
  return Fingerprint(text, SchemaFingerprint(request.schema()));
}

// Returns which ranks push each block; none if there is one, which pushes all.
std::vector<BlockPushers> PushersOfBlocks(const ServedTensors& dense) {
  std::vector<BlockPushers> pushers;
  bool all_of_one = dense.ranks() == 1;
  for (const DenseLayout::Block& block : dense.layout.blocks()) {
    all_of_one &= !block.frozen;
    pushers.push_back(block.frozen ? BlockPushers::Nobody() : BlockPushers::Of(dense, block));
  }
  if (all_of_one) pushers.clear();
  return pushers;
}

}  // namespace

JobTables::JobTables(const v1::OpenTablesRequest& request, ServedTensors dense)
    : request_(std::make_unique<v1::OpenTablesRequest>(request)),
      fingerprint_(RequestFingerprint(request)),
      pushers_(PushersOfBlocks(dense)),
      tables_{std::move(dense.tensors), TablesFromSchema(request.schema()).sparse},
      layout_(std::move(dense.layout)),
      mesh_(MeshOfSlots(request)) {}

JobTables::~JobTables() = default;

absl::StatusOr<std::shared_ptr<const JobTables>> JobTables::Create(
    const v1::OpenTablesRequest& request) {
  MUSTER_RETURN_IF_ERROR(ValidateRequest(request));
  MUSTER_ASSIGN_OR_RETURN(ServedTensors dense, ServedFromSchema(request.schema()));
  std::shared_ptr<JobTables> tables(new JobTables(request, std::move(dense)));
  const v1::TablesSchema& schema = request.schema();
  MUSTER_ASSIGN_OR_RETURN(tables->dense_optimizer_,
                          CreateOptimizer(schema.optimizer(), Granularity::kElements));
  MUSTER_ASSIGN_OR_RETURN(tables->row_optimizer_,
                          CreateOptimizer(schema.optimizer(), Granularity::kRow));
  const v1::UpdateSpec& update = request.update();
  tables->policy_ = update.unlimited_staleness()
                        ? StalenessPolicy::Unlimited()
                        : StalenessPolicy::Bounded(update.staleness_bound());
  tables->order_ = update.deterministic() ? SummationOrder::kSlot : SummationOrder::kArrival;
  tables->durable_ = update.durability() == v1::UpdateSpec::EVERY_PUSH;
  tables->clips_by_norm_ = schema.clipping().by_global_norm() > 0;
  return tables;
}

absl::StatusOr<std::shared_ptr<const JobTables>> JobTables::Earlier(uint64_t generation,
                                                                    uint32_t slots) const {
  v1::OpenTablesRequest request = *request_;
  request.set_generation(generation);
  request.clear_takes_over_generation();
  request.set_slots(slots);
  request.clear_slot();
  return Create(request);
}

const std::string& JobTables::job_id() const { return request_->job_id(); }
uint64_t JobTables::generation() const { return request_->generation(); }
uint32_t JobTables::slots() const { return request_->slots(); }
std::vector<BlockPushers> JobTables::PushersOf(uint32_t partition) const {
  std::vector<BlockPushers> pushers;
  if (pushers_.empty()) return pushers;
  for (const uint32_t id : layout_.partition_blocks(partition)) pushers.push_back(pushers_[id]);
  return pushers;
}
uint64_t JobTables::seed() const { return request_->schema().seed(); }
bool JobTables::pushes_micro_batches() const { return request_->pushed_micro_batches() > 0; }
uint32_t JobTables::pushes_of_block() const {
  return std::max(1u, request_->pushed_micro_batches());
}

RowPolicy JobTables::row_policy() const {
  const v1::SparseTableOptions& options = request_->schema().sparse_options();
  return {.admit_after = options.admit_after(),
          .expire_after = options.expire_after_clocks(),
          .keep_from_updates = options.keep_from_updates()};
}

uint64_t JobTables::cache_bytes() const {
  const uint64_t bytes = request_->schema().sparse_options().cache_bytes();
  return bytes == 0 ? 0 : std::max<uint64_t>(1, bytes / partitions());
}

uint32_t JobTables::backup_workers() const { return request_->update().backup_workers(); }

bool JobTables::own_steps() const { return request_->schema().own_steps(); }

OptimizerStep JobTables::StepAt(uint64_t clock, double scale, double rate_factor) const {
  const v1::TablesSchema& schema = request_->schema();
  OptimizerStep step;
  step.learning_rate = LearningRate(schema.schedule(), schema.optimizer().learning_rate(), clock,
                                    schema.total_steps(), rate_factor);
  if (!policy_.synchronous()) step.learning_rate /= static_cast<float>(slots());
  step.step = clock + 1;
  step.gradient_scale = static_cast<float>(scale);
  if (schema.clipping().by_value() > 0) step.clip_value = schema.clipping().by_value();
  return step;
}

uint64_t JobTables::PredictedDenseBytes(uint32_t partition) const {
  uint64_t bytes = 0;
  // A step of the largest matrix takes this.
  int64_t scratch = 0;
  for (uint32_t id : layout_.partition_blocks(partition)) {
    const DenseLayout::Block& block = layout_.blocks()[id];
    if (block.of_matrix()) {
      scratch = std::max(scratch, OrthogonaliseScratch(block.rows, block.columns));
    }
    const uint64_t elements = block.elements();
    // Counts weights; under BSP also sums; previous weights, if they are kept; in slot order also,
    // for each pusher but one, a gradient that waits for its turn or its other
    // micro-batches.
    uint64_t arrays = policy_.synchronous() && !block.frozen ? 2 : 1;
    if (keeps_previous() && !block.frozen) ++arrays;
    if (order_ == SummationOrder::kSlot && !block.frozen) arrays += pushers(block) - 1;
    bytes += (arrays * elements + StateFloats(block, *dense_optimizer_)) * sizeof(float);
  }
  bytes += static_cast<uint64_t>(scratch) * sizeof(float);
  return bytes;
}

}  // namespace muster
