#include "common/plan/memory_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/round_up.h"
#include "common/job/job_road.h"
#include "common/job/job_validator.h"
#include "common/mesh/data_ranks.h"
#include "common/mesh/zero.h"
#include "common/optim/optimizer.h"
#include "common/partition/pulled_types.h"
#include "common/partition/schema.h"
#include "common/partition/tensor_spec.h"
#include "common/partition/wire_dtype.h"
#include "common/plan/distinct_rows.h"
#include "common/plan/sharded_memory.h"
#include "common/plan/transformer_device_plan.h"
#include "common/plan/transformer_memory_plan.h"
#include "common/tensor/dtype.h"
#include "common/text/format_bytes.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr uint64_t kFloat = sizeof(float);
constexpr uint64_t kMiB = uint64_t{1} << 20;
// A task that trains next to nothing, and what talking to servers or other workers adds.
constexpr uint64_t kProgramBytes = 30 * kMiB;
constexpr uint64_t kTransformerProgramBytes = 65 * kMiB / 2;
constexpr uint64_t kConnectedBytes = 2 * kMiB;
// CUDA's context, kernels and libraries in the memory of the process that uses a device: guessed,
// as none of it has been measured.
constexpr uint64_t kCudaProgramBytes = 512 * kMiB;
// Labels of one forward pass of an evaluation (worker/runtime/training/evaluator.cc).
constexpr uint64_t kEvaluationLabels = 1024;
// Batches in memory (worker/data/sampling/prefetcher.h), and the model's own copy.
constexpr uint64_t kBatches = 5;
// Shared memory of a connection to a server, each way
// (common/rpc/parameter_service/data_channel_client.h).
constexpr uint64_t kConnectionBytes = 72 * kMiB;
// Parameters that are asked for before they are due, and gradients that are sent before earlier
// ones are acknowledged (worker/strategy/servers/parameter_server_strategy.h).
constexpr uint64_t kPullWindowBytes = 16 * kMiB;
constexpr uint64_t kPushWindowBytes = 8 * kMiB;
// Gradients of a partition that a server leaves where they are until other workers' come
// (server/shard/tables/dense_table.cc).
constexpr uint64_t kKeptGradientBytes = 1 * kMiB;
// Messages of this size and more are put together in slabs of 2 MiB at least, for one size each, of
// which batches have two (common/base/buffer_pool.h). Rows lie in such slabs, too.
constexpr uint64_t kSmallestInSlab = 64 << 10;
constexpr uint64_t kSlabBytes = 2 * kMiB;
// Offloaded optimizer state that is mapped at a time (worker/strategy/shard_state.cc), and the
// pages of its file.
constexpr uint64_t kOffloadWindowBytes = 32 * kMiB;
constexpr uint64_t kPageBytes = 4096;
// The bytes of a call in which ranks divide parameters anew (worker/strategy/group/resharding.h).
constexpr uint64_t kReshardingCallBytes = 64 * kMiB;
// What a table keeps beside a row's floats.
constexpr uint64_t kRowOverheadBytes = 64;

bool IsHalf(v1::UpdateSpec::WireType wire) {
  return wire == v1::UpdateSpec::BF16 || wire == v1::UpdateSpec::F16;
}

uint64_t StateFloats(const v1::OptimizerSpec& spec, Granularity granularity, uint64_t n) {
  const auto optimizer = CreateOptimizer(spec, granularity);
  return optimizer.ok() ? (*optimizer)->state_floats(n) : 0;
}

// By unit, of its tensors' elements so many bytes each: `bytes_of(i)` of tensor i's.
template <typename BytesOf>
std::vector<uint64_t> UnitBytes(const ModelSize& model, const BytesOf& bytes_of) {
  std::vector<uint64_t> bytes;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSpec& tensor = model.tensors[i];
    bytes.resize(std::max<size_t>(bytes.size(), tensor.unit + 1));
    bytes[tensor.unit] += tensor.elements() * bytes_of(i);
  }
  return bytes;
}

uint64_t SumOf(const std::vector<uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

// The largest sum of `count` neighbours.
uint64_t LargestOf(const std::vector<uint64_t>& values, size_t count) {
  uint64_t largest = 0;
  for (size_t first = 0; first < values.size(); ++first) {
    uint64_t together = 0;
    for (size_t i = first; i < std::min(first + count, values.size()); ++i) together += values[i];
    largest = std::max(largest, together);
  }
  return largest;
}

// Examples that all workers together see before the job ends; the largest number for more.
uint64_t ExamplesSeen(const v1::JobSpec& spec, const DataSize& data) {
  if (spec.stop().steps() > 0) {
    uint64_t examples = 0;
    const bool too_many =
        __builtin_mul_overflow(spec.stop().steps(), uint64_t{spec.batch_size()}, &examples);
    return too_many ? std::numeric_limits<uint64_t>::max() : examples;
  }
  return data.examples > 0 ? data.examples : uint64_t{1} << 40;
}

class Planner {
 public:
  Planner(const v1::JobSpec& spec, const DataSize& data, const WorkerProcessors& processors)
      : spec_(spec),
        data_(data),
        processors_(processors),
        model_(SizeOfModel(spec, data)),
        P_(model_.dense()),
        W_(std::max(1u, spec.workers())),
        trains_(!spec.stop().evaluate_only()),
        examples_(trains_ ? LargestMicroBatch(spec) : 0),
        evaluated_(EvaluatedExamples()),
        on_device_(spec.compute().device() == v1::ComputeSpec::CUDA),
        all_reduce_(TrainsByAllReduce(spec)),
        stage_(ZeroStage(spec)),
        has_rows_(!model_.sparse.empty()),
        rows_on_servers_(has_rows_ && RowsOnServers(spec)),
        held_as_(HeldAs()),
        dense_state_floats_(StateFloats(spec.optimizer(), Granularity::kElements, 1)),
        row_floats_(model_.row_dim() +
                    StateFloats(spec.optimizer(), Granularity::kRow, model_.row_dim())) {}

  MemoryPlan Plan() {
    if (stage_ == 0 || !AddShards()) {
      AddParameters();
      AddMessages();
    }
    if (model_.transformer.has_value()) {
      AddTransformer();
    } else {
      AddPerceptron();
    }
    if (has_rows_) AddRows();
    AddWorker("data", data_.bytes + examples_ * ExampleBytes() * kBatches);
    if (on_device_) AddWorker("CUDA's own", kCudaProgramBytes);
    const uint64_t program =
        (model_.transformer.has_value() ? kTransformerProgramBytes : kProgramBytes) +
        (all_reduce_ && !rows_on_servers_ && W_ == 1 ? 0 : kConnectedBytes);
    AddWorker("program and libraries", program);
    if (DividesAnew(spec_)) AddNewSlices(program);
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

  // Adds the state of so many parameters to memory, or to the disk.
  void AddOptimizerState(const std::string& name, uint64_t elements) {
    const uint64_t bytes = kFloat * elements * dense_state_floats_;
    if (!OffloadsOptimizerState(spec_)) return AddModelState(name, bytes);
    plan_.disk_bytes = RoundUp(bytes, kPageBytes);
    plan_.worker.push_back({.name = "optimizer state, mapped from its file",
                            .bytes = std::min(plan_.disk_bytes, kOffloadWindowBytes),
                            .mapped = true});
  }

  // The number that the evaluator takes at once (worker/runtime/training/evaluator.cc), or all that
  // a data rank has.
  uint64_t EvaluatedExamples() const {
    if (!Evaluates(spec_)) return 0;
    const uint64_t labels = model_.transformer.has_value() ? model_.transformer->T : 1;
    const uint64_t at_once = kEvaluationLabels / std::max<uint64_t>(1, labels);
    uint64_t each = std::max<uint64_t>(1, at_once);
    const auto share = [this](uint64_t examples) {
      return CeilDivide<uint64_t>(examples, DataRanks(spec_));
    };
    const uint64_t held_out =
        spec_.has_validation() ? data_.validation_examples
                               : static_cast<uint64_t>(std::round(
                                     spec_.data().holdout() * static_cast<double>(data_.examples)));
    if (spec_.has_validation() ? held_out > 0 : data_.examples > 0) {
      each = std::min(each, share(held_out));
    }
    const uint64_t most = spec_.evaluation().max_examples();
    if (most > 0) each = std::min(each, share(most));
    return each;
  }

  void AddParameters() {
    if (HoldsUnitsInFlight(spec_) && AddUnitsInFlight()) return;
    AddModelState("parameters", SumOf(UnitBytes(model_, [this](size_t i) {
                    return model_.tensors[i].tied_to.empty() ? SizeOf(held_as_[i]) : 0;
                  })));
    // By all-reduce a device's never leave it.
    if (trains_ && (!all_reduce_ || !on_device_)) AddModelState("gradients", kFloat * P_);
    if (all_reduce_) AddOptimizerState("optimizer state", P_);
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

  // What a rank has of parameters that it shares out with others; false if they cannot be laid out,
  // as no job's are that is admitted.
  bool AddShards() {
    const uint32_t shards = SmallestShardGroup(spec_);
    const uint32_t replicas = DataRanks(spec_) / ShardGroupSize(spec_);
    const auto memory =
        PlanShardedMemory(model_.tensors, {.stage = stage_,
                                           .shards = shards,
                                           .replicas = replicas,
                                           .kept_bytes = KeptGatheredBytes(spec_),
                                           .half_wire = IsHalf(spec_.update().wire())});
    if (!memory.ok()) return false;
    slice_elements_ = memory->stepped_elements;
    if (on_device_) {
      // While a checkpoint is written, and between groups.
      AddModelState("slice of parameters", kFloat * memory->stepped_elements);
      AddModelState("slice of optimizer state",
                    kFloat * memory->stepped_elements * dense_state_floats_);
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
    AddWorker("gradients on the wire", memory->wire);
    // Weights, sums and optimizer state. With worker daemons of one size each rank keeps one copy.
    if (spec_.parallelism().zero().redundancy() > 0) {
      AddWorker("copy of another worker's slice",
                kFloat * memory->stepped_elements * (2 + dense_state_floats_));
    }
    plan_.worker.push_back({.name = "others' memory, if on one machine",
                            .bytes = (shards - 1) * memory->shared_in_group +
                                     (replicas - 1) * memory->shared_with_replica,
                            .mapped = true});
    return true;
  }

  // Adds what a rank needs beyond its steps' peak while it divides the parameters anew: its former
  // slice and copy are there beside the new slice, and little else.
  void AddNewSlices(uint64_t program) {
    const uint64_t slice = kFloat * slice_elements_;
    const uint64_t state = slice * dense_state_floats_;
    const uint64_t in_memory = slice + (OffloadsOptimizerState(spec_) ? 0 : state);
    const bool copies = spec_.parallelism().zero().redundancy() > 0;
    const uint64_t bytes = program + data_.bytes + 2 * in_memory +
                           (copies ? 2 * slice + state : 0) +
                           std::min(kReshardingCallBytes, slice + state);
    const uint64_t in_steps = plan_.worker_own_bytes();
    AddWorker("new slice while the workers change", bytes > in_steps ? bytes - in_steps : 0);
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
      if (half) AddWorker("gradients on the wire", 2 * P_);
      plan_.worker.push_back({.name = "others' gradients, if on one machine",
                              .bytes = (W_ - 1) * (kFloat + (half ? 2 : 0)) * P_,
                              .mapped = true});
      return;
    }
    AddWorker("messages with servers", ParameterMessages());
    if (!half || !trains_) return;
    // What was rounded away, two steps' pushes, and the first once more while a cut is sent.
    AddWorker("what pushes carry over", 2 * (kFloat + 2) * P_);
  }

  // By unit, as they travel: gradients, and parameters that do not come where they belong.
  std::vector<uint64_t> PushedBytes() const {
    const uint64_t element = IsHalf(spec_.update().wire()) ? 2 : kFloat;
    return UnitBytes(model_, [this, element](size_t i) {
      return model_.tensors[i].tied_to.empty() ? element : 0;
    });
  }
  std::vector<uint64_t> PulledBytes() const {
    const auto wire = WireDType(spec_.update().wire());
    const bool half = IsHalf(spec_.update().wire());
    return UnitBytes(model_, [this, half, wire](size_t i) -> uint64_t {
      const bool lands = !half || held_as_[i] == *wire;
      return lands || !model_.tensors[i].tied_to.empty() ? 0 : 2;
    });
  }
  uint64_t SharedWithServers() const { return std::max(1u, spec_.servers()) * kConnectionBytes; }

  // One worker's that servers of other machines have received: at most a window, or one unit's, and
  // some wait there for other workers'. Those of a job's only worker stay until the clock ends. The
  // worker sends them from where they are computed, and a server of its machine reads them there.
  uint64_t GradientMessages() const {
    const std::vector<uint64_t> pushed = PushedBytes();
    const uint64_t most = std::min(SumOf(pushed), SharedWithServers());
    if (W_ == 1) return most;
    const uint64_t partitions = LayoutOptions(spec_.update()).partitions;
    const uint64_t sent = std::max(kPushWindowBytes, LargestOf(pushed, 1));
    return std::min(most, sent + partitions * kKeptGradientBytes);
  }

  // One worker's on their way from servers that are of another type than they are kept in, as far
  // as it asks for them, the unit that is due and the next at least. The others come where they
  // belong.
  uint64_t ParameterMessages() const {
    const std::vector<uint64_t> pulled = PulledBytes();
    const uint64_t due = LargestOf(pulled, 2);
    return std::min(SumOf(pulled), std::max(kPullWindowBytes, due));
  }

  void AddDevice() {
    const DeviceMemoryBytes bytes = PlanDeviceBytes(spec_, model_, LargestMicroBatch(spec_));
    const auto add = [this](const std::string& name, uint64_t size) {
      plan_.device.push_back({.name = name, .bytes = size});
    };
    const auto add_state = [this](const std::string& name, uint64_t size) {
      plan_.device.push_back({.name = name, .bytes = size, .model_state = true});
    };
    add_state("16-bit weights", bytes.rounded_weights);
    if (stage_ == 0) {
      add_state("parameters", bytes.weights);
      add_state("gradients", bytes.gradients);
      add_state("optimizer state", bytes.optimizer_state);
    } else {
      add_state("slice of parameters", bytes.weights);
      add_state("slice of sums of gradients", bytes.gradient_sums);
      add_state("slice of optimizer state", bytes.optimizer_state);
      if (stage_ == 3) {
        add("gathered parameters of units in flight", bytes.gathered_weights);
      } else {
        add_state("gathered parameters", bytes.gathered_weights);
      }
      if (stage_ >= 2) {
        add("gradients of units in flight", bytes.gradients);
      } else {
        add_state("gradients", bytes.gradients);
      }
    }
    add("activations", bytes.activations);
    add("logits", bytes.logits);
    add("kernels' scratch", bytes.scratch);
    add("CUDA's own", kDeviceHeadroomBytes + kCudaContextBytes);
    if (W_ > 1 && all_reduce_) add("NCCL's own", NcclGroups() * kNcclBytes);
  }

  // The number of a rank's groups with communicators on its device: all ranks or its shard group,
  // and its shard's replicas.
  uint64_t NcclGroups() const {
    const uint32_t shards = ShardGroupSize(spec_);
    return stage_ > 0 && shards < DataRanks(spec_) ? 2 : 1;
  }

  void AddTransformer() {
    if (on_device_) return AddDevice();
    const TransformerSize& size = *model_.transformer;
    const ActivationLayout::Bytes training =
        PlanActivations(size, examples_, spec_.compute(), Pass::kTraining);
    AddWorker("activations kept", training.kept);
    AddWorker("activations of one block", training.total() - training.kept - training.logits);
    AddWorker("logits", training.logits);
    AddWorker(
        "kernels' scratch",
        PlanTransformerScratch(model_, trains_ ? examples_ : std::max<uint64_t>(1, evaluated_),
                               spec_.compute(), processors_.multiply_bf16,
                               spec_.threads_per_worker() > 0 ? spec_.threads_per_worker()
                                                              : std::max(1u, processors_.threads)));
    if (evaluated_ == 0) return;
    AddWorker("evaluation",
              PlanActivations(size, evaluated_, spec_.compute(), Pass::kEvaluation).total());
  }

  void AddPerceptron() {
    uint64_t floats = 0;
    for (size_t i = 0; i < model_.products.size(); ++i) {
      // Outputs, and their gradients but for the logits', which take their place.
      const bool last = i + 1 == model_.products.size();
      floats += model_.products[i].out * (last ? 1 : 2);
    }
    // Rows of tables are joined to the first layer's input, which has a gradient.
    if (has_rows_ && !model_.products.empty()) floats += 2 * model_.products[0].in;
    AddWorker("activations", kFloat * floats * examples_);
    AddWorker("kernels' scratch", PlanPackedBytes(model_, std::max(examples_, evaluated_)));
    // With what was read, and the model's own copy of it.
    AddWorker("evaluation", (kFloat * floats + 2 * ExampleBytes()) * evaluated_);
  }

  // Rows of a micro-batch with their gradients, of an evaluation's pass without, a step's sums, and
  // rows that are kept here.
  void AddRows() {
    const uint64_t row = kFloat * model_.row_dim() + sizeof(uint64_t);
    const uint64_t in_batch = DistinctRows(model_, data_, examples_);
    const uint64_t lookups = examples_ * model_.lookups;
    const uint64_t of_lookup = sizeof(int32_t) + 8;
    // By half again, as arrays grow with the largest batch so far.
    AddWorker("rows of a batch",
              3 * (in_batch * (2 * row + sizeof(uint64_t)) + lookups * of_lookup) / 2);
    AddWorker("rows of an evaluation",
              DistinctRows(model_, data_, evaluated_) * (row + sizeof(uint64_t)) +
                  evaluated_ * model_.lookups * of_lookup);
    if (rows_on_servers_) {
      // Pulled and pushed ones in the memory shared with servers and where they are put together,
      // and the gradients of two earlier batches, held until they are sent.
      const uint64_t partitions = LayoutOptions(spec_.update()).partitions;
      const bool in_slabs = in_batch * row >= partitions * kSmallestInSlab;
      AddWorker("messages of rows",
                5 * in_batch * row + std::max(in_batch * row, in_slabs ? 2 * kSlabBytes : 0));
      return;
    }
    const uint64_t own = DistinctRows(model_, data_, CeilDivide(uint64_t{spec_.batch_size()}, W_));
    if (trains_) {
      const uint64_t of_step = stage_ == 0 ? RowsOfStep(own) : DividedRowsOfStep(own);
      AddWorker("rows of a step", of_step + of_step / 2);
    }
    AddWorker("sparse tables",
              TableBytes(OwnedRows(DistinctRows(model_, data_, ExamplesSeen(spec_, data_)))));
  }

  // Returns at most `count` times so many rows.
  static uint64_t Times(uint64_t count, uint64_t rows) {
    return rows > kMostRows / count ? kMostRows : count * rows;
  }

  // Returns the most rows that a rank owns of so many: those of its partitions.
  uint64_t OwnedRows(uint64_t rows) const {
    const uint64_t shards = ShardGroupSize(spec_);
    if (shards == 1) return rows;
    const uint64_t partitions = LayoutOptions(spec_.update()).partitions;
    return CeilDivide(rows, partitions) * CeilDivide(partitions, shards);
  }

  // Returns the bytes of sums over so many rows, whose index is a quarter as large.
  uint64_t SumBytes(uint64_t rows) const {
    return (rows + rows / 4) * (kFloat * model_.row_dim() + sizeof(uint64_t) + 16);
  }

  // Returns the bytes of this worker's `own` rows, summed, and of all workers', gathered and
  // summed.
  uint64_t RowsOfStep(uint64_t own) const {
    const uint64_t row = kFloat * model_.row_dim() + sizeof(uint64_t);
    return SumBytes(own) + Times(W_, own) * (row + 16) +
           SumBytes(DistinctRows(model_, data_, spec_.batch_size()));
  }

  // Returns the same where the ranks of a shard group divide rows (row_exchange.h in
  // worker/strategy/group): sums of its own, of what it owns in its group and, with several groups,
  // in all; two arrays of rows on their way, for look-ups, too; and keys with their positions.
  uint64_t DividedRowsOfStep(uint64_t own) const {
    const uint64_t row = kFloat * model_.row_dim() + sizeof(uint64_t);
    const uint64_t shards = ShardGroupSize(spec_);
    const uint64_t replicas = W_ / shards;
    const uint64_t asked = std::max(own, DistinctRows(model_, data_, evaluated_));
    const uint64_t of_group =
        OwnedRows(DistinctRows(model_, data_, CeilDivide(uint64_t{spec_.batch_size()}, replicas)));
    uint64_t moved = std::max(asked, Times(shards, OwnedRows(asked)));
    uint64_t sums = SumBytes(own) + SumBytes(of_group);
    if (replicas > 1) {
      moved = std::max(moved, Times(replicas, of_group));
      sums += SumBytes(OwnedRows(DistinctRows(model_, data_, spec_.batch_size())));
    }
    return sums + 2 * moved * row + 2 * asked * (sizeof(uint64_t) + sizeof(uint32_t));
  }

  // Records in slabs (common/tables/row_memory.h), and the index of their keys
  // (common/tables/key_index.h): buckets of five keys, a power of two of them, at most five eighths
  // full. The most there is at a time may have been when it grew, and its keys went over from one
  // of half the size.
  uint64_t TableBytes(uint64_t rows) const {
    constexpr uint64_t kHead = 32, kBucket = 64;
    const auto records = [this](uint64_t count) {
      const uint64_t bytes = count * (kFloat * row_floats_ + kHead);
      // Of the first only what is touched.
      return bytes <= kSlabBytes ? bytes : RoundUp(bytes, kSlabBytes);
    };
    const uint64_t buckets = std::bit_ceil((rows * 8 + 24) / 25);
    return std::max(records(rows) + buckets * kBucket,
                    records(buckets / 2 * 25 / 8) + buckets * (kBucket + kBucket / 2));
  }

  // As it is read.
  uint64_t ExampleBytes() const {
    if (model_.transformer.has_value()) return model_.transformer->T * 2 * sizeof(int32_t);
    uint64_t example = kFloat * data_.dense_features + sizeof(int32_t);
    example += data_.keys * (sizeof(uint64_t) + kFloat) + sizeof(int64_t);
    if (data_.vocabulary > 0) example += model_.lookups * sizeof(int32_t);
    return example;
  }

  void AddServers() {
    if (!all_reduce_) {
      plan_.servers.push_back({.name = "parameters", .bytes = kFloat * P_});
      plan_.servers.push_back(
          {.name = "optimizer state", .bytes = kFloat * P_ * dense_state_floats_});
      plan_.servers.push_back({.name = "sums of the open clock", .bytes = kFloat * P_});
      // An only worker's gradients are the sums, as they came.
      const uint64_t gradients = W_ == 1 ? 0 : GradientMessages();
      plan_.servers.push_back(
          {.name = "messages with workers", .bytes = W_ * (gradients + ParameterMessages())});
      if (IsHalf(spec_.update().wire())) {
        plan_.servers.push_back(
            {.name = "what pushes carry over, in a cut", .bytes = kFloat * P_ * W_});
      }
      if (HoldsUnitsInFlight(spec_) && !spec_.update().deterministic()) {
        plan_.servers.push_back({.name = "values before the last step", .bytes = kFloat * P_});
      }
      if (spec_.update().deterministic()) {
        plan_.servers.push_back(
            {.name = "gradients that wait for their turn", .bytes = kFloat * P_ * W_});
      }
    }
    if (!rows_on_servers_) return;
    const uint64_t row = kFloat * row_floats_ + kRowOverheadBytes;
    const uint64_t all = DistinctRows(model_, data_, ExamplesSeen(spec_, data_)) * row;
    const uint64_t cache = spec_.sparse_tables().cache_bytes();
    // Beyond the cache, the rows that one step touches.
    const uint64_t of_step = DistinctRows(model_, data_, spec_.batch_size()) * row;
    plan_.servers.push_back(
        {.name = "rows", .bytes = cache == 0 ? all : std::min(all, cache + of_step)});
  }

  const v1::JobSpec& spec_;
  const DataSize& data_;
  const WorkerProcessors processors_;
  const ModelSize model_;
  const uint64_t P_;
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
  const uint64_t dense_state_floats_;
  // Floats of a row with its state.
  const uint64_t row_floats_;
  MemoryPlan plan_;
  // Under a ZeRO stage, the elements of a rank's slice.
  uint64_t slice_elements_ = 0;
};

uint64_t Sum(const std::vector<MemoryPart>& parts) {
  uint64_t bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.bytes;
  return bytes;
}

uint64_t StateOf(const std::vector<MemoryPart>& parts) {
  uint64_t bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.model_state ? part.bytes : 0;
  return bytes;
}

}  // namespace

uint64_t MemoryPlan::worker_bytes() const { return Sum(worker); }

uint64_t MemoryPlan::worker_own_bytes() const {
  uint64_t bytes = 0;
  for (const MemoryPart& part : worker) bytes += part.mapped ? 0 : part.bytes;
  return bytes;
}

uint64_t MemoryPlan::worker_state_bytes() const { return StateOf(worker); }

uint64_t MemoryPlan::device_state_bytes() const { return StateOf(device); }

uint64_t MemoryPlan::device_bytes() const { return Sum(device); }

uint64_t MemoryPlan::server_bytes() const { return Sum(servers); }

bool RowsOnServers(const v1::JobSpec& spec) {
  return !TrainsByAllReduce(spec) || spec.update().sparse() == v1::UpdateSpec::PARAMETER_SERVER;
}

MemoryPlan PlanMemory(const v1::JobSpec& spec, const DataSize& data,
                      const WorkerProcessors& processors) {
  return Planner(spec, data, processors).Plan();
}

std::string MemoryTable(const std::vector<MemoryPart>& parts, const std::string& indent) {
  std::vector<MemoryPart> sorted = parts;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const MemoryPart& a, const MemoryPart& b) { return a.bytes > b.bytes; });
  sorted.push_back({.name = "together", .bytes = Sum(parts)});
  size_t width = 0;
  for (const MemoryPart& part : sorted) width = std::max(width, part.name.size());
  std::string table;
  for (const MemoryPart& part : sorted) {
    if (part.bytes == 0) continue;
    char text[160];
    std::snprintf(text, sizeof(text), "%s%-*s %12s\n", indent.c_str(), static_cast<int>(width),
                  part.name.c_str(), FormatBytes(part.bytes).c_str());
    table += text;
  }
  return table;
}

}  // namespace muster
