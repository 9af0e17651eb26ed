#include "tests/equivalence/expected_traffic.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/dense_layout.h"
#include "common/partition/shard_layout.h"
#include "common/plan/calls/job_calls.h"
#include "common/plan/calls/step_calls.h"
#include "common/plan/calls/step_traffic.h"
#include "common/step/shares.h"
#include "common/step/stage_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/schema.pb.h"
#include "tests/equivalence/step_observer.h"
#include "tests/equivalence/training_run.h"
#include "worker/runtime/training/prepared_job.h"

namespace muster {
namespace {

// Bytes of a label in records (worker/collectives/flight_recorder.h).
constexpr size_t kLabelBytes = 23;

// The labels of the calls that are recorded of steps. A rank alone along the data axes makes those
// of buckets with nobody.
std::vector<std::string> KnownLabels(const v1::JobSpec& job) {
  std::vector<std::string> labels = {"weights of unit",
                                     "gradients of unit",
                                     "shared gradients of unit",
                                     "gradients of both stages",
                                     "tied gradients",
                                     "examples and overflows",
                                     "norms of cells",
                                     "tensor rows",
                                     "sums of tensor rows",
                                     "sum over tensor ranks",
                                     "outputs to a stage",
                                     "outputs from a stage",
                                     "gradients to a stage",
                                     "gradients from a stage",
                                     "to next context rank",
                                     "from context rank",
                                     "keys and values",
                                     "gradients of keys",
                                     "context rank's heads",
                                     "sum over context ranks",
                                     "rows by expert",
                                     "choices of experts",
                                     "directions"};
  if (SizeAlong(kGradientAxes, job) > 1) labels.push_back("bucket");
  return labels;
}

// Returns the label of a call of training; empty: calls of its kind are not compared.
std::string LabelOf(const RecordedAction& action, const StepCall& call, int slices) {
  static const std::map<absl::string_view, absl::string_view> kLabels = {
      {"gather", "weights of unit "},
      {"scatter", "gradients of unit "},
      {"all-reduce bucket", "bucket "},
      {"all-reduce slices", "bucket "},
      {"sum shared gradients", "shared gradients of unit"},
      {"exchange tied sums", "gradients of both stages"},
      {"receive tied sums", "tied gradients"},
      {"send tied sums", "tied gradients"},
      {"gather counts", "examples and overflows"},
      {"gather norms", "norms of cells"},
      {"gather rows", "tensor rows"},
      {"gather gradients", "tensor rows"},
      {"gather softmax parts", "tensor rows"},
      {"scatter sums", "sums of tensor rows"},
      {"sum", "sum over tensor ranks"},
      {"gather keys and values", "keys and values"},
      {"scatter their gradients", "gradients of keys"},
      {"sum losses", "sum over context ranks"},
      {"gather rows by expert", "rows by expert"},
      {"send directions", "directions"},
      {"receive directions", "directions"},
      {"pull", "unit "},
      {"push", "unit "}};
  if (action.action.transfers()) {
    return absl::StrCat(action.action.of_gradient() ? "gradients " : "outputs ",
                        action.action.receives() ? "from a stage" : "to a stage");
  }
  if (call.among == kContext && call.kind == Collective::kSend) return "to next context rank";
  if (call.among == kContext && call.kind == Collective::kReceive) {
    return "from context rank";
  }
  if (call.among == kContext && call.kind == Collective::kAllToAll) return "context rank's heads";
  if (call.name == "sum choices of experts") {
    if (call.among == kDataAxes) return "choices of experts";
    return call.among == kContext ? "sum over context ranks" : "sum over tensor ranks";
  }
  const auto found = kLabels.find(call.name);
  // Rows are gathered along the data axes, too.
  if (found == kLabels.end() || (call.name == "gather rows" && call.among == kGradientAxes))
    return "";
  std::string label(found->second);
  if (call.name == "all-reduce slices") return absl::StrCat(label, slices);
  if (label.back() == ' ') absl::StrAppend(&label, call.index);
  return label;
}

// Calls of one group in their order, as text: operation, label and bytes.
using Calls = std::vector<std::string>;

std::string TextOf(Collective kind, absl::string_view label, uint64_t bytes) {
  label = label.substr(0, kLabelBytes);
  // Their number is that of the cells.
  if (label == "norms of cells") bytes = 0;
  return absl::StrCat(Name(kind), " ", label, " of ", bytes);
}

// Returns the name of the communicator that makes a call
// (worker/strategy/group/exchange/rank_groups.h).
std::string GroupOf(const v1::JobSpec& job, const RecordedAction& action, const StepCall& call) {
  if (call.among == Axes()) return "servers";
  if (call.among == kMatrixAxes) return "matrices";
  if (call.among == Axis::kTensor) return absl::StrCat("tensor", call.ranks);
  if (call.among == Axis::kPipeline) return action.action.transfers() ? "stages" : "tied";
  if (call.among == Axes().Others()) return "world";
  if (call.among == kContext) return "context";
  if (call.among == kExpertAxes) return "experts";
  if (call.among == kDataAxes) return "counting";
  if (call.among == kExpertShardAxes) return "expert shards";
  if (call.among == kExpertCopyAxes && call.ranks > 1) return "expert copies";
  const bool both = SizeAlong(kShardAxes, job) > 1 && SizeAlong(kCopyAxes, job) > 1;
  if (both) return call.among == kShardAxes ? "shard" : "replicas";
  return SizeAlong(kPartAxes, job) > 1 ? "data" : "world";
}

std::string AcquiredText(int unit, Direction direction) {
  return absl::StrCat("acquire ", unit, direction == Direction::kForward ? "" : " for backward");
}

// Returns the frozen parts that a rank gathers before its first step alone: where it has all
// weights, they stay.
struct FrozenPart {
  int unit = 0;
  uint64_t bytes = 0;
  // That each other rank has of it.
  uint64_t slice_bytes = 0;
};
std::vector<FrozenPart> GatheredOnce(const JobCalls& calls, int slot) {
  std::vector<FrozenPart> once;
  const uint32_t stage = calls.served() ? 0 : ZeroStage(calls.spec());
  if (stage == 0 || stage == 3) return once;
  const int rank = calls.mesh().Position(slot, kModelAxes);
  const DenseLayout layout = calls.LayoutOf(rank, calls.TensorsOf(rank).value()).value();
  for (const ShardLayout::Part& part : ShardLayout(layout, Holders(calls.mesh())).parts()) {
    if (!part.frozen || part.slices == 1) continue;
    const uint64_t slice_bytes = part.slice * SizeOf(part.compute);
    once.push_back({static_cast<int>(part.unit), (part.slices - 1) * slice_bytes, slice_bytes});
  }
  return once;
}

// Appends the gathers with which a rank begins: each unit's parts that are trained, and then those
// that are frozen.
void AppendFirstGathers(const JobCalls& calls, int slot, const RecordedStep& recorded,
                        std::map<std::string, Calls>& groups) {
  // Has by unit the group that makes a call, and the call.
  std::map<int, std::vector<std::pair<std::string, std::string>>> by_unit;
  for (const RecordedAction& action : recorded.actions) {
    if (action.part != "renew the weights") continue;
    for (const StepCall& call : recorded.CallsOf(action)) {
      by_unit[call.index].emplace_back(
          GroupOf(calls.spec(), action, call),
          TextOf(call.kind, LabelOf(action, call, 0), call.count * SizeOf(call.dtype)));
    }
  }
  for (const FrozenPart& part : GatheredOnce(calls, slot)) {
    const StepCall call = {.among = kShardAxes, .ranks = calls.mesh().size(kShardAxes)};
    by_unit[part.unit].emplace_back(
        GroupOf(calls.spec(), {}, call),
        TextOf(Collective::kAllGather, absl::StrCat("weights of unit ", part.unit),
               part.slice_bytes));
  }
  for (const auto& [unit, gathers] : by_unit) {
    for (const auto& [group, text] : gathers) groups[group].push_back(text);
  }
}

// Returns the calls of a slot's training, by group: those of servers among its acquired units.
std::map<std::string, Calls> PlannedCalls(const JobCalls& calls, uint64_t total_steps, int slot,
                                          uint64_t pull_window_bytes) {
  const v1::JobSpec& job = calls.spec();
  const Mesh& mesh = calls.mesh();
  const BatchDivision batch = {.batch_size = job.batch_size(),
                               .data_ranks = mesh.size(kDataAxes),
                               .job_data_ranks = mesh.size(kDataAxes),
                               .micro_batches = ShapeOfStages(job).micro_batches};
  StepToRecord step = {.shard = mesh.Position(slot, kHolderAxes),
                       .pull_window_bytes = pull_window_bytes};
  for (int i = 0; i < batch.micro_batches; ++i) {
    step.examples.push_back(batch.MicroBatch(mesh.Position(slot, kDataAxes), i).size());
  }
  const RecordedStep recorded = RankCalls::Create(calls, calls.KindOf(slot)).value()->Record(step);
  std::map<std::string, Calls> groups;
  // Before the first step ranks gather what they hold whole.
  AppendFirstGathers(calls, slot, recorded, groups);
  for (uint64_t clock = 0; clock < total_steps; ++clock) {
    int slices = 0;
    for (const RecordedAction& action : recorded.actions) {
      for (const StepCall& call : recorded.CallsOf(action)) {
        const std::string label = LabelOf(action, call, slices);
        if (call.name == "all-reduce slices") ++slices;
        if (label.empty()) continue;
        groups[GroupOf(job, action, call)].push_back(
            TextOf(call.kind, label, call.count * SizeOf(call.dtype)));
      }
      if (calls.served() && action.action.kind == ActionKind::kAcquire) {
        groups["servers"].push_back(AcquiredText(action.action.unit, action.action.direction));
      }
    }
  }
  return groups;
}

// Notes each slot's pulls and pushes, those of a unit as one, among the units that it acquires, in
// their order. Each slot is one thread's.
class RequestObserver final : public StepObserver {
 public:
  RequestObserver(const JobCalls& calls, uint64_t total_steps)
      : total_steps_(total_steps),
        in_flight_(HoldsUnitsInFlight(calls.spec())),
        slots_(calls.mesh().world_size()) {
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      const int rank = calls.KindOf(static_cast<int>(slot));
      const DenseLayout layout = calls.LayoutOf(rank, calls.TensorsOf(rank).value()).value();
      for (const DenseLayout::Block& block : layout.blocks()) {
        slots_[slot].blocks[{block.partition, block.index_in_partition}] = block;
        if (block.frozen) ++slots_[slot].frozen_blocks;
      }
    }
  }

  void Acquired(uint32_t slot, int unit, Direction direction, const ModelParameters&) override {
    EndRequest(slots_[slot]);
    slots_[slot].made.push_back(AcquiredText(unit, direction));
  }
  void Sent(uint32_t slot_index, const DenseRequest& request) override {
    Slot& slot = slots_[slot_index];
    // The trained values are read after the last step.
    if (slot.steps == total_steps_) return;
    for (uint32_t i = 0; i < request.blocks; ++i) {
      const DenseLayout::Block& block =
          slot.blocks.at({request.partition, request.first_block + i});
      if (block.frozen && !in_flight_) {
        slot.frozen_bytes += block.elements() * SizeOf(request.dtype);
        ++slot.frozen_requests;
        continue;
      }
      if (request.kind != slot.kind || block.unit != slot.unit || slot.asked.count(&block) > 0) {
        EndRequest(slot);
      }
      slot.kind = request.kind;
      slot.unit = block.unit;
      slot.bytes += block.elements() * SizeOf(request.dtype);
      slot.asked.insert(&block);
    }
  }
  void StepEnded(uint32_t slot, uint64_t clock, const StepSums& sums) override {
    EndRequest(slots_[slot]);
    ++slots_[slot].steps;
  }

  const Calls& made(int slot) const { return slots_[slot].made; }
  // Returns the bytes of frozen blocks that stay, and expects that the slot asked once for each.
  uint64_t PulledOnce(int slot) const {
    EXPECT_EQ(slots_[slot].frozen_requests, in_flight_ ? 0 : slots_[slot].frozen_blocks);
    return slots_[slot].frozen_bytes;
  }

 private:
  struct Slot {
    // By partition and position in it.
    std::map<std::pair<uint32_t, uint32_t>, DenseLayout::Block> blocks;
    Calls made;
    uint64_t steps = 0;
    // The request at hand: its unit's blocks so far.
    Collective kind = Collective::kReceive;
    uint32_t unit = 0;
    uint64_t bytes = 0;
    std::set<const DenseLayout::Block*> asked;
    // These are of frozen blocks that stay: their number, and what was asked for.
    int frozen_blocks = 0;
    int frozen_requests = 0;
    uint64_t frozen_bytes = 0;
  };

  static void EndRequest(Slot& slot) {
    if (slot.asked.empty()) return;
    slot.made.push_back(TextOf(slot.kind, absl::StrCat("unit ", slot.unit), slot.bytes));
    slot.asked.clear();
    slot.bytes = 0;
  }

  const uint64_t total_steps_;
  const bool in_flight_;
  std::vector<Slot> slots_;
};

// Returns the calls that a slot made, by group.
std::vector<Calls> CallsMade(const v1::JobSpec& job,
                             const std::vector<std::vector<RecordedCall>>& groups) {
  const std::vector<std::string> known = KnownLabels(job);
  std::vector<Calls> result;
  for (const std::vector<RecordedCall>& group : groups) {
    Calls made;
    for (const RecordedCall& call : group) {
      const bool compared = std::any_of(known.begin(), known.end(), [&](absl::string_view label) {
        return absl::StartsWith(call.label, label.substr(0, kLabelBytes));
      });
      // The records of rows name these, too.
      if (!compared || absl::StartsWith(call.label, "gradients of rows")) continue;
      made.push_back(TextOf(call.kind, call.label, call.count * SizeOf(call.dtype)));
    }
    if (!made.empty()) result.push_back(std::move(made));
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

void ExpectPredictedTraffic(const v1::JobSpec& given, uint64_t pull_window_bytes) {
  v1::JobSpec job = given;
  job.clear_evaluation();
  SCOPED_TRACE(
      absl::StrCat(job.parallelism().ShortDebugString(), " ", job.compute().ShortDebugString()));
  const PreparedJob prepared = PrepareJob(job).value();
  const bool by_all_reduce = TrainsByAllReduce(job);
  const JobCalls calls = JobCalls::Create(*prepared.schema, job,
                                          by_all_reduce ? CallRoad::kAllReduce : CallRoad::kServers)
                             .value();
  const auto predicted =
      by_all_reduce ? PredictAllReduceTraffic(*prepared.schema, job, AllReduceWay::kSharedMemory)
                    : PredictServerTraffic(*prepared.schema, {}, job, AllReduceWay::kSharedMemory);
  ASSERT_EQ(predicted.status(), absl::OkStatus());
  RequestObserver observer(calls, prepared.total_steps);
  const RunResult run =
      by_all_reduce
          ? TrainByAllReduce(job, {})
          : TrainOnServers(job, {.pull_window_bytes = pull_window_bytes, .observer = &observer});
  ASSERT_EQ(run.counters.size(), predicted->workers.size());
  const auto steps = static_cast<double>(prepared.total_steps);
  uint64_t tensor_bytes = 0;
  for (size_t slot = 0; slot < run.counters.size(); ++slot) {
    SCOPED_TRACE(slot);
    const StrategyCounters& counters = run.counters[slot];
    const WorkerTraffic& all = predicted->workers[slot];
    const WorkerTraffic& tensor = predicted->tensor[slot];
    const WorkerTraffic& stages = predicted->pipeline[slot];
    const double sent = all.sent - tensor.sent - stages.sent;
    const double received = all.received - tensor.received - stages.received;
    // These are gathers of frozen weights.
    double once = 0;
    for (const FrozenPart& part : GatheredOnce(calls, static_cast<int>(slot))) {
      once += static_cast<double>(part.bytes);
    }
    if (calls.served()) once = static_cast<double>(observer.PulledOnce(static_cast<int>(slot)));
    EXPECT_EQ(by_all_reduce ? counters.bytes_sent : counters.bytes_pushed,
              steps * sent + (by_all_reduce ? once : 0));
    EXPECT_EQ(by_all_reduce ? counters.bytes_received : counters.bytes_pulled,
              steps * received + once);
    // Bytes between expert ranks depend on what routers choose.
    if (SizeAlong(kExpertAxes, job) == 1) {
      EXPECT_EQ(counters.tensor_bytes_sent, steps * tensor.sent);
      EXPECT_EQ(counters.tensor_bytes_received, steps * tensor.received);
    }
    EXPECT_EQ(counters.stage_bytes_sent, steps * stages.sent);
    EXPECT_EQ(counters.stage_bytes_received, steps * stages.received);
    if (SizeAlong(Axis::kPipeline, job) > 1) {
      EXPECT_GT(counters.stage_bytes_sent, 0);
    }
    tensor_bytes += counters.tensor_bytes_sent;
    const int rank = static_cast<int>(slot);
    std::map<std::string, Calls> planned =
        PlannedCalls(calls, prepared.total_steps, rank, pull_window_bytes);
    if (pull_window_bytes != kPullWindowBytes) {
      EXPECT_NE(planned, PlannedCalls(calls, prepared.total_steps, rank, kPullWindowBytes));
    }
    if (calls.served()) EXPECT_EQ(observer.made(rank), planned["servers"]);
    planned.erase("servers");
    std::vector<Calls> groups;
    for (auto& [name, made] : planned) groups.push_back(std::move(made));
    std::sort(groups.begin(), groups.end());
    EXPECT_EQ(CallsMade(job, run.collectives[slot]), groups);
  }
  // A stage may have layers of which tensor ranks exchange nothing; not all have.
  if (SizeAlong(Axis::kTensor, job) > 1) {
    EXPECT_GT(tensor_bytes, 0);
  }
}

}  // namespace muster
