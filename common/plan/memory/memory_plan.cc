#include "common/plan/memory/memory_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/round_up.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/optim/optimizer.h"
#include "common/partition/memory_bounds.h"
#include "common/partition/pulled_types.h"
#include "common/partition/schema.h"
#include "common/partition/tensor_spec.h"
#include "common/partition/verified_places.h"
#include "common/plan/device/device_memory_parts.h"
#include "common/plan/device/transformer_device_plan.h"
#include "common/plan/memory/group_plan.h"
#include "common/plan/memory/matrix_memory.h"
#include "common/plan/memory/rows_memory.h"
#include "common/plan/memory/score_memory.h"
#include "common/plan/memory/served_messages.h"
#include "common/plan/memory/unit_bytes.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/plan/ranks/planned_stages.h"
#include "common/plan/ranks/rank_size.h"
#include "common/plan/ranks/sharded_memory.h"
#include "common/plan/size/model_size.h"
#include "common/step/compute_order.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// A task that trains next to nothing, and what talking to servers or other workers adds.
constexpr uint64_t kProgramBytes = 31 * kMiB;
constexpr uint64_t kTransformerProgramBytes = 34 * kMiB;
constexpr uint64_t kConnectedBytes = 2 * kMiB;
// CUDA's context, kernels and libraries in the memory of the process that uses a device: guessed,
// as none of it has been measured.
constexpr uint64_t kCudaProgramBytes = 512 * kMiB;
// Batches in memory (worker/data/sampling/prefetcher.h), and the model's own copy.
constexpr uint64_t kBatches = 5;
// Returns the floats of optimizer state of a dense parameter.
uint64_t StateFloats(const v1::OptimizerSpec& spec) {
  const auto optimizer = CreateOptimizer(spec, Granularity::kElements);
  return optimizer.ok() ? (*optimizer)->state_floats(1) : 0;
}

class Planner {
 public:
  Planner(const v1::JobSpec& spec, const DataSize& data, const WorkerProcessors& processors,
          const ModelSize& whole, const PlannedStages& stages, int stage)
      : spec_(spec),
        data_(data),
        processors_(processors),
        whole_(whole),
        stages_(stages),
        stage_of_pipeline_(stage),
        activation_stashes_(stages.shape.stages == 1 ? 1
                                                     : MostActivationStashes(stages.shape, stage)),
        model_(SizeOfRank(spec, whole_, stages.division, stage)),
        P_(model_.dense()),
        trained_(model_.trained()),
        W_(SizeAlong(kGradientAxes, spec)),
        trains_(!spec.stop().evaluate_only()),
        examples_(trains_ ? LargestMicroBatch(spec) : 0),
        evaluated_(EvaluatedExamples(spec, data, whole)),
        on_device_(spec.compute().device() == v1::ComputeSpec::CUDA),
        all_reduce_(TrainsByAllReduce(spec)),
        stage_(ZeroStage(spec)),
        has_rows_(!model_.sparse.empty()),
        rows_on_servers_(has_rows_ && RowsOnServers(spec)),
        held_as_(HeldAs()),
        served_(spec, model_, held_as_),
        dense_state_floats_(StateFloats(spec.optimizer())) {}

  MemoryPlan Plan() {
    plan_.parameters = P_;
    if (stage_ == 0 || !AddShards()) {
      AddParameters();
      AddMessages();
    }
    if (model_.transformer.has_value()) {
      AddTransformer();
    } else {
      AddPerceptron();
    }
    if (has_rows_) {
      const RowsMemory memory(spec_, data_, model_, examples_, evaluated_);
      const std::vector<MemoryPart> rows = memory.OfWorker();
      plan_.worker.insert(plan_.worker.end(), rows.begin(), rows.end());
      if (spec_.parallelism().zero().redundancy() > 0) {
        AddWorker("copy of another worker's rows", memory.Copy());
      }
    }
    if (TakesCuts()) AddCut();
    if (spec_.verify_every() > 0 && trains_) AddVerified();
    AddStageMessages();
    AddWorker("data", data_.bytes + examples_ * ExampleBytes() * Batches());
    if (on_device_) AddWorker("CUDA's own", kCudaProgramBytes);
    const uint64_t program =
        (model_.transformer.has_value() ? kTransformerProgramBytes : kProgramBytes) +
        (all_reduce_ && !rows_on_servers_ && spec_.workers() <= 1 ? 0 : kConnectedBytes);
    AddWorker("program and libraries", program);
    uint64_t in_groups = 0;
    for (const MemoryPart& part : PlanGroups(spec_, model_, stage_of_pipeline_)) {
      in_groups += part.mapped ? 0 : part.bytes;
      plan_.worker.push_back(part);
    }
    AddMatrices();
    if (DividesAnew(spec_)) AddNewSlices(program + in_groups);
    AddServers();
    return plan_;
  }

 private:
  void AddWorker(const std::string& name, uint64_t bytes) {
    plan_.worker.push_back({.name = name, .bytes = bytes});
  }
  void AddModelState(const std::string& name, uint64_t bytes) {
    plan_.worker.push_back({.name = name, .bytes = bytes, .model_state = true});
  }

  uint64_t StateFileBytes(uint64_t elements) const {
    return OffloadedBytes(elements * dense_state_floats_);
  }

  // Adds the state of so many parameters to memory, or to the disk.
  void AddOptimizerState(const std::string& name, uint64_t elements) {
    if (!OffloadsOptimizerState(spec_)) {
      return AddModelState(name, sizeof(float) * elements * dense_state_floats_);
    }
    plan_.disk_bytes = StateFileBytes(elements);
    plan_.worker.push_back({.name = "optimizer state, mapped from its file",
                            .bytes = std::min<uint64_t>(plan_.disk_bytes, kOffloadWindowBytes),
                            .mapped = true});
  }

  // Returns whether ranks write files while they train. The last checkpoint needs no copy.
  bool TakesCuts() const {
    if (!trains_ || !all_reduce_) return false;
    const bool keeps_best = !spec_.checkpoint().has_keep_best() || spec_.checkpoint().keep_best();
    return spec_.checkpoint().every_steps() > 0 ||
           (spec_.evaluation().every_steps() > 0 && keeps_best);
  }

  // Adds the copy of what a rank's files hold (worker/strategy/content_copy.h): its share of what
  // replicas have in common.
  void AddCut() {
    const uint64_t copies = SizeAlong(kExpertCopyAxes, spec_);
    const uint64_t held = stage_ == 0 ? P_ : held_elements_;
    const uint64_t stepped = stage_ == 0 ? trained_ : slice_elements_;
    const uint64_t floats = (held + stepped * dense_state_floats_) / copies;
    if (OffloadsOptimizerState(spec_)) {
      plan_.disk_bytes += OffloadedBytes(floats);
    } else {
      cut_bytes_ += sizeof(float) * floats;
    }
    if (has_rows_ && !rows_on_servers_) {
      cut_bytes_ += RowsMemory(spec_, data_, model_, examples_, evaluated_).KeptByWorker() / copies;
    }
    AddWorker("copy of a checkpoint's values", cut_bytes_);
  }

  // Adds the gradients of another data rank's examples (worker/strategy/verified_step.h).
  void AddVerified() {
    std::vector<uint64_t> elements;
    for (const TensorSpec& tensor : model_.tensors) {
      elements.push_back(tensor.frozen ? 0 : tensor.elements());
    }
    const UnitsAtOnce units = stage_ >= 2 ? UnitsAtOnce::kOne : UnitsAtOnce::kAll;
    AddWorker("gradients of another data rank's examples",
              sizeof(float) * PlacesOfVerified(model_.tensors, elements, units).elements);
  }

  void AddParameters() {
    if (HoldsUnitsInFlight(spec_) && AddUnitsInFlight()) return;
    AddModelState("parameters", SumOf(UnitBytes(model_, [this](size_t i) {
                    return model_.tensors[i].tied_to.empty() ? SizeOf(held_as_[i]) : 0;
                  })));
    // By all-reduce a device's never leave it.
    if (trains_ && (!all_reduce_ || !on_device_)) {
      AddModelState("gradients", sizeof(float) * trained_);
    }
    if (all_reduce_) AddOptimizerState("optimizer state", trained_);
    const uint64_t copies = on_device_ ? 0 : SumOf(CopiedBytes());
    if (copies > 0) AddModelState("16-bit weights", copies);
  }

  // What a worker has of parameters that servers hold for it; false if they cannot be laid out.
  bool AddUnitsInFlight() {
    const auto memory = PlanUnitsInFlight(model_.tensors, held_as_);
    if (!memory.ok()) return false;
    AddWorker("parameters of units in flight", memory->weights);
    if (trains_) AddWorker("gradients of units in flight", memory->gradients);
    AddModelState("16-bit weights", SumOf(CopiedBytes()));
    return true;
  }

  // Tied tensors are gathered in their owners' type; those of another type have a copy.
  uint64_t TiedCopyBytes() const {
    uint64_t bytes = 0;
    for (const TensorSpec& tensor : model_.tensors) {
      for (const TensorSpec& owner : model_.tensors) {
        const bool copied = owner.name == tensor.tied_to && owner.compute != tensor.compute;
        if (copied) bytes += tensor.elements() * SizeOf(tensor.compute);
      }
    }
    return bytes;
  }

  // Of a rank with so many in its shard group.
  absl::StatusOr<ShardedMemory> Sharded(uint32_t shards) const {
    return PlanShardedMemory(model_.tensors, {.stage = stage_,
                                              .shards = shards,
                                              .replicas = SizeAlong(kCopyAxes, spec_),
                                              .expert_ranks = SizeAlong(kExpertAxes, spec_),
                                              .kept_bytes = KeptGatheredBytes(spec_),
                                              .half_wire = IsHalf(spec_.update().wire())});
  }

  // What a rank has of parameters that it shares out with others; false if they cannot be laid out,
  // as no job's are that is admitted.
  bool AddShards() {
    const uint32_t shards = SmallestShardGroup(spec_);
    const uint32_t replicas = SizeAlong(kCopyAxes, spec_);
    const auto memory = Sharded(shards);
    if (!memory.ok()) return false;
    held_elements_ = memory->held_elements;
    slice_elements_ = memory->stepped_elements;
    if (on_device_) {
      // While a checkpoint is written, and between groups.
      AddModelState("slice of parameters", sizeof(float) * memory->held_elements);
      AddModelState("slice of optimizer state",
                    sizeof(float) * memory->stepped_elements * dense_state_floats_);
      return true;
    }
    AddModelState("slice of parameters", memory->weight_slices);
    if (stage_ == 3) {
      AddWorker("gathered parameters of units in flight", memory->gathered_weights);
    } else {
      AddModelState("gathered parameters", memory->gathered_weights);
    }
    if (stage_ >= 2) {
      AddWorker("gradients of units in flight", memory->gradients);
    } else {
      AddModelState("gradients", memory->gradients);
    }
    AddModelState("16-bit weights", TiedCopyBytes());
    AddModelState("slice of sums of gradients", memory->gradient_sums);
    AddOptimizerState("slice of optimizer state", memory->stepped_elements);
    if (DividesAnew(spec_) && OffloadsOptimizerState(spec_)) {
      // The largest two at once are those of the fewest ranks, and of one more.
      plan_.disk_bytes += StateFileBytes(Sharded(shards + 1)->stepped_elements);
    }
    AddWorker("gradients on the wire", memory->wire);
    // Weights, sums and optimizer state. With worker daemons of one size each rank keeps one copy.
    if (spec_.parallelism().zero().redundancy() > 0) {
      AddWorker("copy of another worker's slice",
                sizeof(float) *
                    (memory->held_elements + memory->stepped_elements * (1 + dense_state_floats_)));
    }
    plan_.worker.push_back({.name = "others' memory, if on one machine",
                            .bytes = (shards - 1) * memory->shared_in_group +
                                     (replicas - 1) * memory->shared_with_replica,
                            .mapped = true});
    return true;
  }

  // Adds what a rank needs beyond its steps' peak while it divides the parameters anew: its former
  // slice, copy and rows are there beside the new ones, and little else: its program and groups.
  void AddNewSlices(uint64_t program) {
    const uint64_t slice = sizeof(float) * held_elements_;
    const uint64_t sums = sizeof(float) * slice_elements_;
    const uint64_t state = sums * dense_state_floats_;
    const uint64_t in_memory = slice + (OffloadsOptimizerState(spec_) ? 0 : state);
    const bool copies = spec_.parallelism().zero().redundancy() > 0;
    uint64_t rows = 0;
    if (has_rows_ && !rows_on_servers_) {
      rows = RowsMemory(spec_, data_, model_, examples_, evaluated_).KeptByWorker();
    }
    // What one call moves: a part of a former shard, or rows, which are sent and received.
    const uint64_t moved = std::max(std::min<uint64_t>(kReshardingCallBytes, slice + state),
                                    std::min<uint64_t>(2 * kReshardingCallBytes, 2 * rows));
    const uint64_t bytes = program + data_.bytes + 2 * in_memory +
                           (copies ? slice + sums + state : 0) + 2 * rows + moved + cut_bytes_;
    const uint64_t in_steps = plan_.worker_own_bytes();
    AddWorker("new slice while the workers change", bytes > in_steps ? bytes - in_steps : 0);
  }

  // Adds what a worker needs beside the state to orthogonalise matrices. Where ranks divide these,
  // a unit's are sent, received and owned, of which each rank has about an equal part.
  void AddMatrices() {
    const MatrixMemory matrices = PlanMatrices(model_);
    if (!all_reduce_ || !trains_ || matrices.scratch == 0) return;
    AddWorker("one matrix to orthogonalise", sizeof(float) * matrices.scratch);
    if (SizeAlong(kMatrixAxes, spec_) == 1) return;
    const uint64_t shards = SmallestShardGroup(spec_);
    const uint64_t part = CeilDivide(matrices.of_unit, shards) + matrices.largest;
    AddWorker("matrices of a unit brought together", 3 * sizeof(float) * part);
    if (spec_.parallelism().zero().redundancy() > 0) {
      AddWorker("directions for copies", 2 * sizeof(float) * slice_elements_);
    }
  }

  // What a worker holds each tensor in: those that servers send in 16 bits, in these alone.
  std::vector<DType> HeldAs() const {
    if (!all_reduce_ && !on_device_) return PulledTypes(model_.tensors);
    return std::vector<DType>(model_.tensors.size(), DType::kF32);
  }

  // By unit: what is computed with in 16 bits, and held in f32, has a copy.
  std::vector<uint64_t> CopiedBytes() const {
    return UnitBytes(model_, [this](size_t i) {
      const bool copied = model_.tensors[i].compute != held_as_[i];
      return copied ? SizeOf(model_.tensors[i].compute) : 0;
    });
  }

  void AddMessages() {
    const bool half = IsHalf(spec_.update().wire());
    if (all_reduce_) {
      if (W_ == 1 || on_device_ || !trains_) return;
      if (half) AddWorker("gradients on the wire", 2 * trained_);
      plan_.worker.push_back({.name = "others' gradients, if on one machine",
                              .bytes = (W_ - 1) * (sizeof(float) + (half ? 2 : 0)) * trained_,
                              .mapped = true});
      return;
    }
    if (RanksTogether(spec_) == 1) {
      AddWorker("messages with servers", served_.Parameters());
    } else {
      // Payloads to and from a server of the same machine are copied on the way
      // (worker/strategy/group/served_group.h).
      AddWorker("messages with servers",
                served_.CopiedParameters() + (trains_ ? served_.Gradients() : 0));
      AddWorker("gradients of another stage", trains_ ? served_.TiedGradients() : 0);
    }
    if (!half || !trains_) return;
    // What was rounded away, two steps' pushes, and the first once more while a cut is sent.
    AddWorker("what pushes carry over", 2 * (sizeof(float) + 2) * trained_);
  }

  void AddTransformer() {
    if (on_device_) {
      const DeviceMemoryBytes bytes = PlanDeviceBytes(
          spec_, model_, LargestMicroBatch(spec_),
          {.activation_stashes = activation_stashes_, .messages = stages_.messages});
      plan_.device = DeviceMemoryParts(spec_, model_, bytes);
      plan_.activation_bytes = bytes.activations;
      return;
    }
    // Each activation stash has room for the largest chunk.
    ActivationLayout::Bytes training;
    for (const UnitRange& units : model_.chunks) {
      const ActivationLayout::Bytes bytes = ActivationsOf(units, examples_, Pass::kTraining);
      if (bytes.total() > training.total()) training = bytes;
    }
    const uint64_t of_block = training.total() - training.kept - training.logits;
    plan_.activation_bytes = activation_stashes_ * training.total();
    AddWorker("activations kept", activation_stashes_ * training.kept);
    AddWorker("activations of one block", activation_stashes_ * of_block);
    AddWorker("logits", activation_stashes_ * training.logits);
    AddWorker(
        "kernels' scratch",
        PlanTransformerScratch(model_, trains_ ? examples_ : std::max<uint64_t>(1, evaluated_),
                               spec_.compute(), processors_.multiply_bf16,
                               spec_.threads_per_worker() > 0 ? spec_.threads_per_worker()
                                                              : std::max(1u, processors_.threads)));
    if (evaluated_ == 0) return;
    const UnitRange units = {model_.chunks.front().first, model_.chunks.back().end};
    AddWorker("evaluation", ActivationsOf(units, evaluated_, Pass::kEvaluation).total());
  }

  // Returns the bytes of the arrays of one pass over so many sequences.
  ActivationLayout::Bytes ActivationsOf(const UnitRange& units, uint64_t sequences,
                                        Pass pass) const {
    ActivationRequest request =
        ActivationRequestOf(*model_.transformer, sequences, spec_.compute());
    request.pass = pass;
    request.split_backward = stages_.shape.order == StageOrder::kZeroBubble;
    SetUnits(request.layers, units, request);
    return ActivationLayout(request).bytes();
  }

  void AddPerceptron() {
    uint64_t outputs = 0, gradients = 0;
    for (const ProductSize& product : model_.products) {
      outputs += product.out;
      // The logits' gradients take their place.
      if (product.tensor != whole_.products.back().tensor) gradients += product.out;
      // What another stage hands a chunk.
      const int unit = static_cast<int>(model_.tensors[product.tensor].unit);
      const bool received =
          std::any_of(model_.chunks.begin(), model_.chunks.end(),
                      [unit](const UnitRange& units) { return unit > 0 && units.first == unit; });
      if (!received) continue;
      outputs += product.in;
      gradients += product.in;
    }
    // Rows of tables are joined to the first layer's input, which has room for its gradient.
    if (has_rows_ && !model_.products.empty()) outputs += 2 * model_.products[0].in;
    AddWorker("activations",
              activation_stashes_ * sizeof(float) * (outputs + gradients) * examples_);
    AddWorker("kernels' scratch", PlanPackedBytes(model_, std::max(examples_, evaluated_)));
    // With what was read, and the model's own copy of it.
    AddWorker("evaluation", (sizeof(float) * outputs + 2 * ExampleBytes()) * evaluated_);
    const uint64_t scores = PlanScores(spec_, data_);
    if (scores > 0) AddWorker("scores of an evaluation", scores);
  }

  // Adds the memory from which and to which a stage's messages travel
  // (worker/runtime/training/stage_links.h).
  void AddStageMessages() {
    if (stages_.messages == 0 || on_device_) return;
    AddWorker("messages with other stages", stages_.messages * stages_.message_bytes);
    // All stages map all others', whoever sends to whom.
    plan_.worker.push_back(
        {.name = "other stages' messages, if on one machine",
         .bytes = (stages_.shape.stages - 1) * stages_.messages * stages_.message_bytes,
         .mapped = true});
  }

  // Returns the number of micro-batches' examples in memory. A stage reads all of a step, and each
  // activation stash has its own copy.
  uint64_t Batches() const {
    if (stages_.shape.stages == 1) return kBatches;
    return kBatches + stages_.shape.micro_batches + activation_stashes_ - 2;
  }

  // As it is read.
  uint64_t ExampleBytes() const {
    if (const auto& transformer = model_.transformer; transformer.has_value()) {
      // Tokens and labels; and this rank's, with positions, where ranks share out sequences.
      const uint64_t own = transformer->context_ranks > 1 ? 3 * transformer->T : 0;
      return (transformer->context() * 2 + own) * sizeof(int32_t);
    }
    uint64_t example = sizeof(float) * data_.dense_features + sizeof(int32_t);
    example += data_.keys * (sizeof(uint64_t) + sizeof(float)) + sizeof(int64_t);
    if (data_.vocabulary > 0) example += model_.lookups * sizeof(int32_t);
    return example;
  }

  void AddServers() {
    if (!all_reduce_) AddDenseServers();
    if (!rows_on_servers_) return;
    const RowsMemory rows(spec_, data_, model_, examples_, evaluated_);
    plan_.servers.push_back({.name = "rows", .bytes = rows.OnServers()});
  }

  void AddDenseServers() {
    const auto add = [this](const char* name, uint64_t bytes) {
      plan_.servers.push_back({.name = name, .bytes = bytes});
    };
    add("parameters", sizeof(float) * whole_.dense());
    const uint64_t whole = sizeof(float) * whole_.trained();
    add("optimizer state", whole * dense_state_floats_);
    const MatrixMemory matrices = PlanMatrices(whole_);
    if (matrices.scratch > 0) {
      add("matrices to orthogonalise",
          sizeof(float) * matrices.scratch * LayoutOptions(spec_.update()).partitions);
    }
    add("sums of the open clock", whole);
    // An only worker's gradients are the sums, as they came.
    const uint64_t workers = std::max(1u, spec_.workers());
    const uint64_t gradients = workers == 1 ? 0 : served_.Gradients();
    add("messages with workers", workers * (gradients + served_.Parameters()));
    if (IsHalf(spec_.update().wire())) add("what pushes carry over, in a cut", whole * W_);
    const bool deterministic = spec_.update().deterministic();
    const bool keeps_previous = HoldsUnitsInFlight(spec_) || SizeAlong(kShareAxes, spec_) > 1;
    if (keeps_previous && !deterministic) add("values before the last step", whole);
    if (deterministic) add("gradients that wait for their turn", sizeof(float) * PushedElements());
  }

  // Elements of gradients that all workers push in a clock.
  uint64_t PushedElements() const {
    uint64_t experts = 0;
    for (const TensorSpec& tensor : whole_.tensors) {
      if (tensor.placement.kind == Placement::Kind::kExperts) experts += tensor.elements();
    }
    return whole_.dense() * W_ - experts * (W_ - W_ / SizeAlong(kExpertAxes, spec_));
  }

  const v1::JobSpec& spec_;
  const DataSize& data_;
  const WorkerProcessors processors_;
  // The model, and what a rank has and computes of it.
  const ModelSize& whole_;
  const PlannedStages& stages_;
  const int stage_of_pipeline_;
  // Sets of activations, each of one micro-batch and one chunk.
  const uint64_t activation_stashes_;
  const ModelSize model_;
  const uint64_t P_;
  // The part of P that is not frozen.
  const uint64_t trained_;
  // Data ranks.
  const uint64_t W_;
  // Where nothing is trained, what only training writes to is never there: gradients, activations
  // that backward reads, messages of gradients.
  const bool trains_;
  // Of a micro-batch.
  const uint64_t examples_;
  // Of one forward pass of an evaluation; 0: there is none.
  const uint64_t evaluated_;
  // What is computed, and with what, is in a device's memory.
  const bool on_device_;
  const bool all_reduce_;
  // Of ZeRO.
  const uint32_t stage_;
  const bool has_rows_;
  const bool rows_on_servers_;
  const std::vector<DType> held_as_;
  const ServedMessages served_;
  const uint64_t dense_state_floats_;
  MemoryPlan plan_;
  // Under a ZeRO stage, the elements of a rank's slice, and those of them that are trained.
  uint64_t held_elements_ = 0;
  uint64_t slice_elements_ = 0;
  // The copy of what a rank's files of a checkpoint hold.
  uint64_t cut_bytes_ = 0;
};

}  // namespace

uint64_t MemoryPlan::worker_bytes() const { return SumOfParts(worker); }

uint64_t MemoryPlan::worker_own_bytes() const {
  uint64_t bytes = 0;
  for (const MemoryPart& part : worker) bytes += part.mapped ? 0 : part.bytes;
  return bytes;
}

uint64_t MemoryPlan::worker_state_bytes() const { return SumOfState(worker); }

uint64_t MemoryPlan::device_state_bytes() const { return SumOfState(device); }

uint64_t MemoryPlan::device_bytes() const { return SumOfParts(device); }

uint64_t MemoryPlan::server_bytes() const { return SumOfParts(servers); }

std::vector<MemoryPlan> PlanMemoryOfStages(const v1::JobSpec& spec, const DataSize& data,
                                           const WorkerProcessors& processors) {
  const ModelSize model = SizeOfModel(spec, data);
  const PlannedStages stages = PlanStages(spec, data, model);
  std::vector<MemoryPlan> plans;
  for (int stage = 0; stage < stages.shape.stages; ++stage) {
    plans.push_back(Planner(spec, data, processors, model, stages, stage).Plan());
  }
  return plans;
}

MemoryPlan PlanMemory(const v1::JobSpec& spec, const DataSize& data,
                      const WorkerProcessors& processors) {
  const std::vector<MemoryPlan> plans = PlanMemoryOfStages(spec, data, processors);
  const auto needs = [](const MemoryPlan& plan) {
    return std::pair(plan.device_bytes(), plan.worker_own_bytes());
  };
  return *std::max_element(
      plans.begin(), plans.end(),
      [&needs](const MemoryPlan& a, const MemoryPlan& b) { return needs(a) < needs(b); });
}

}  // namespace muster
