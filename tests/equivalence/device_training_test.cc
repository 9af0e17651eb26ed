// Training on an emulated device reads a unit's parameters between Acquire and Release alone, in
// graphs, too, and in evaluations: with memory poisoned everywhere else, the same bits come out.
// And tensor ranks and stages of pipelines on devices train as one process does, in every stage of
// ZeRO.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/checkpoint/memory_storage.h"
#include "common/device/device.h"
#include "common/device/emulated_device_counts.h"
#include "common/files/temp_folder.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/local_tensors.h"
#include "common/partition/schema.h"
#include "common/plan/calls/step_traffic.h"
#include "common/step/stage_spec.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "tests/equivalence/poisoning_strategy.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"
#include "worker/data/sampling/sampler.h"
#include "worker/device/memory/device_options.h"
#include "worker/device/passes/device_passes.h"
#include "worker/device/weights/copying_strategy.h"
#include "worker/device/weights/device_shard.h"
#include "worker/nn/context_group.h"
#include "worker/nn/tensor_group.h"
#include "worker/runtime/device/device_engine.h"
#include "worker/runtime/device/device_job.h"
#include "worker/runtime/training/micro_batch_reader.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/strategy/local_strategy_for_testing.h"
#include "worker/strategy/strategy.h"

namespace muster {
namespace {

// The memory of the device of `passes`, by way of its stream. An access ends the graph of what was
// computed so far, so that memory poisoned after a Release is so for all that comes later.
class DeviceMemory final : public ComputeMemory {
 public:
  explicit DeviceMemory(DevicePasses& passes) : passes_(passes) {}

  void* Allocate(size_t bytes) override {
    buffers_.push_back(DeviceBuffer::Allocate(MemoryPlace::kDevice, bytes).value());
    return buffers_.back().data();
  }
  void Copy(void* to, const void* from, size_t bytes) override {
    passes_.stream().CopyOnDevice(to, from, bytes);
  }
  void Poison(void* to, size_t bytes) override { passes_.stream().Fill(to, 0xff, bytes); }

 private:
  DevicePasses& passes_;
  std::vector<DeviceBuffer> buffers_;
};

// The results of training on one rank.
struct Trained {
  // The losses of each clock's evaluation, if there are any, and then its step.
  std::vector<double> losses;
  // The weights by tensor, as a step at the last clock reads them.
  std::vector<std::vector<float>> weights;
  StrategyCounters counters;
};

void ExpectSameBits(const Trained& actual, const Trained& expected) {
  EXPECT_FALSE(actual.losses.empty());
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_FALSE(actual.weights.empty());
  EXPECT_EQ(actual.weights, expected.weights);
}

// A rank of the job.
struct Rank {
  const DeviceOptions& options;
  DevicePasses& passes;
  Strategy& strategy;
  TensorGroup* tensor_group = nullptr;
  ContextGroup* context_group = nullptr;
  ExpertGroup* expert_group = nullptr;
  absl::optional<ModelStage> stage = absl::nullopt;
  Communicator* stages = nullptr;
  int number = 0;
};

class DeviceJob : public ::testing::Test {
 protected:
  void Prepare(const v1::JobSpec& spec) {
    spec_ = spec;
    job_ = std::make_unique<PreparedJob>(PrepareJob(spec_).value());
    sampler_ = Sampler::Create({.seed = spec_.seed(),
                                .data_ranks = SizeAlong(kDataAxes, spec_),
                                .batches = job_->batches,
                                .training_examples = job_->dataset->info().examples,
                                .micro_batches = spec_.micro_batches()})
                   .value();
  }

  // Returns what a rank has of the tensors.
  std::vector<TensorSpec> TensorsOf(int rank) const {
    return LocalTensors(job_->model->description().tensors,
                        DivisionOf(*job_->schema, MeshOf(spec_)),
                        MeshOf(spec_).Position(rank, kShareAxes))
        .value();
  }

  // Trains and evaluates by a strategy of the passes' device, itself or in poisoned copies.
  void Train(const Rank& rank, bool poisoned, Trained& trained) {
    if (!poisoned) {
      Train(rank, trained);
      return;
    }
    const std::vector<TensorSpec> tensors = TensorsOf(rank.number);
    PoisoningStrategy poisoning(rank.strategy, tensors, std::make_unique<DeviceMemory>(rank.passes),
                                rank.stages == nullptr ? PoisoningStrategy::Passes::kOneAfterAnother
                                                       : PoisoningStrategy::Passes::kAlternate);
    Train({rank.options, rank.passes, poisoning, rank.tensor_group, rank.context_group,
           rank.expert_group, rank.stage, rank.stages, rank.number},
          trained);
  }

  void Train(const Rank& rank, Trained& trained) {
    const int64_t captures = CountsOfEmulatedDevice().captures;
    const auto engine = MakeDeviceEngine(spec_, rank.options,
                                         {.passes = rank.passes,
                                          .strategy = rank.strategy,
                                          .tensor_group = rank.tensor_group,
                                          .context_group = rank.context_group,
                                          .expert_group = rank.expert_group,
                                          .stage = rank.stage,
                                          .stages = rank.stages});
    ASSERT_TRUE(engine.ok()) << engine.status();
    const uint64_t steps = spec_.stop().steps();
    MicroBatchReader reader(*job_->dataset, *sampler_,
                            MeshOf(spec_).Position(rank.number, kDataAxes),
                            {.start_clock = 0, .end_clock = steps}, clock_);
    Batch held_out;
    // At most as many sequences as a rank's micro-batch has.
    std::vector<int64_t> sequences = {0};
    if (spec_.batch_size() >= 2 * spec_.micro_batches() * SizeAlong(kDataAxes, spec_))
      sequences.push_back(1);
    ASSERT_EQ(job_->dataset->Read(sequences, held_out), absl::OkStatus());
    for (uint64_t clock = 0; clock < steps; ++clock) {
      if (spec_.evaluation().every_steps() > 0) {
        ASSERT_EQ((*engine)->BeginEvaluation(clock), absl::OkStatus());
        PassResult evaluated;
        ASSERT_EQ((*engine)->Evaluate(held_out, PassOutput::kScores, evaluated), absl::OkStatus());
        trained.losses.push_back(evaluated.loss_sum);
      }
      StepSums sums;
      ASSERT_EQ((*engine)->Train(clock, reader, sums), absl::OkStatus());
      trained.losses.push_back(sums.loss_sum);
    }
    EXPECT_GT(CountsOfEmulatedDevice().captures, captures);
    ReadWeights(rank, trained);
  }

  void ReadWeights(const Rank& rank, Trained& trained) {
    const std::vector<TensorSpec> tensors = TensorsOf(rank.number);
    trained.weights.resize(tensors.size());
    ASSERT_EQ(rank.strategy.BeginStep(spec_.stop().steps()), absl::OkStatus());
    for (int unit = 0; unit < job_->model->description().units; ++unit) {
      ASSERT_EQ(rank.strategy.Acquire(unit, Direction::kForward), absl::OkStatus());
      for (size_t t = 0; t < tensors.size(); ++t) {
        if (static_cast<int>(tensors[t].unit) != unit) continue;
        const ModelParameters read = rank.strategy.parameters();
        // Under stages there is no f32 copy of what is computed with in 16 bits.
        const bool rounded = read.values[t].empty() || tensors[t].compute != DType::kF32;
        const size_t elements = tensors[t].elements();
        trained.weights[t].resize(elements);
        if (elements == 0) continue;
        rank.passes.stream().CopyToHost(
            trained.weights[t].data(),
            rounded ? read.rounded[t] : static_cast<const void*>(read.values[t].data()),
            elements * (rounded ? sizeof(uint16_t) : sizeof(float)));
      }
      rank.strategy.Release(unit, Direction::kForward);
    }
    ASSERT_EQ(rank.passes.Wait(), absl::OkStatus());
  }

  // Returns the results of the group's ranks, each of which has its replica on a device.
  std::vector<Trained> TrainReplicas(bool poisoned) {
    std::vector<Trained> trained(spec_.workers());
    InProcessGroup group(static_cast<int>(spec_.workers()));
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < static_cast<int>(spec_.workers()); ++rank) {
      ranks.emplace_back([&, rank] {
        TrainReplica(MakeHostCommunicator(group.Join(rank), {.same_machine = true}).value(),
                     poisoned, trained[rank]);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return trained;
  }

  void TrainReplica(std::unique_ptr<Communicator> communicator, bool poisoned, Trained& trained) {
    const int rank = communicator->rank();
    v1::TaskOrder order;
    order.set_job_id("job");
    order.set_generation(1);
    order.set_slot(rank);
    order.set_checkpoint_root("/checkpoints");
    *order.mutable_spec() = spec_;
    auto options =
        ResidentDeviceOptionsFor(spec_, job_->dataset->info(), *job_->schema, /*device=*/0);
    ASSERT_TRUE(options.ok()) << options.status();
    const ModelStage stage = StageOfJob(spec_, *job_->schema, job_->model->description().units,
                                        MeshOf(spec_).Position(rank, Axis::kPipeline));
    TakeStage(stage, options->compute);
    MemoryStorage storage;
    ShardedDependencies dependencies;
    dependencies.storage = &storage;
    dependencies.clock = &clock_;
    const auto strategy = MakeDeviceStrategy(
        order, *job_->schema, *options,
        [](Communicator& host) { return host.Split(0, host.rank()); }, std::move(dependencies));
    ASSERT_TRUE(strategy.ok()) << strategy.status();
    ASSERT_EQ((*strategy)->Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    Train({*options, *strategy->passes(), **strategy, (*strategy)->tensor_group(),
           (*strategy)->context_group(), (*strategy)->expert_group(), stage,
           (*strategy)->stage_group(), rank},
          poisoned, trained);
    trained.counters = (*strategy)->counters();
  }

  // Returns the result of parameters that are this process's, and copied to a device.
  Trained TrainCopies(bool poisoned) {
    Trained trained;
    const auto local = LocalStrategy::Create(*job_->schema).value();
    const auto options = DeviceOptionsFor(spec_, job_->dataset->info(), /*device=*/0).value();
    const auto copying = CopyingStrategy::Create(*local, options).value();
    Train({options, copying->passes(), *copying}, poisoned, trained);
    return trained;
  }

  const TempFolder folder_;
  const RealClock clock_;
  v1::JobSpec spec_;
  std::unique_ptr<PreparedJob> job_;
  std::unique_ptr<const Sampler> sampler_;
};

// The job has dropout or not, and computes in this type.
using Parameters = std::tuple<bool, v1::ComputeSpec::Type>;

class DeviceTrainingTest : public DeviceJob, public ::testing::WithParamInterface<Parameters> {
 protected:
  v1::JobSpec Job(uint32_t workers, uint32_t stage = 0) {
    const auto [dropout, type] = GetParam();
    v1::JobSpec spec = TinyJob("transformer", "adamw", WriteTinyText(folder_));
    spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_bucket_bytes(4096);
    spec.mutable_compute()->set_type(type);
    spec.set_workers(workers);
    spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
    // The emulated device takes as long for a head of few tokens as for one of 64. A call is
    // captured the second time, so that the third step launches graphs alone.
    spec.mutable_model()->mutable_transformer()->set_heads(2);
    spec.mutable_model()->mutable_transformer()->set_kv_heads(1);
    spec.set_batch_size(6);
    spec.set_micro_batches(3);
    spec.mutable_stop()->set_steps(3);
    spec.mutable_evaluation()->set_every_steps(1);
    if (dropout) {
      spec.mutable_model()->mutable_transformer()->set_dropout(0.1);
      spec.mutable_model()->mutable_transformer()->set_attention_dropout(0.1);
    }
    return spec;
  }

  // Trains in a pipeline of two stages, each of two replicas in a stage of ZeRO.
  void ExpectNothingReleasedIsRead(v1::ParallelismSpec::PipelineSchedule schedule, uint32_t zero) {
    v1::JobSpec spec = InPipeline(Job(/*workers=*/2, zero), /*stages=*/2, schedule);
    spec.set_batch_size(4);
    spec.set_micro_batches(2);
    Prepare(spec);
    const std::vector<Trained> poisoned = TrainReplicas(/*poisoned=*/true);
    const std::vector<Trained> plain = TrainReplicas(/*poisoned=*/false);
    for (int rank = 0; rank < 4; ++rank) ExpectSameBits(poisoned[rank], plain[rank]);
  }
};

// The largest batch is neither the first nor the last.
TEST_P(DeviceTrainingTest, BatchesThatChangeReadNothingReleased) {
  v1::JobSpec spec = Job(/*workers=*/1, /*stage=*/0);
  for (const auto& [step, batch_size] : {std::pair<uint64_t, uint32_t>(1, 9), {2, 3}}) {
    v1::BatchChange& change = *spec.add_batch_changes();
    change.set_step(step);
    change.set_batch_size(batch_size);
  }
  Prepare(spec);
  ExpectSameBits(TrainReplicas(/*poisoned=*/true)[0], TrainReplicas(/*poisoned=*/false)[0]);
}

TEST_P(DeviceTrainingTest, AReplicaAloneReadsNothingReleased) {
  Prepare(Job(/*workers=*/1));
  ExpectSameBits(TrainReplicas(/*poisoned=*/true)[0], TrainReplicas(/*poisoned=*/false)[0]);
}

TEST_P(DeviceTrainingTest, ReplicasInAGroupReadNothingReleased) {
  Prepare(Job(/*workers=*/2));
  const std::vector<Trained> poisoned = TrainReplicas(/*poisoned=*/true);
  const std::vector<Trained> plain = TrainReplicas(/*poisoned=*/false);
  for (int rank = 0; rank < 2; ++rank) ExpectSameBits(poisoned[rank], plain[rank]);
}

TEST_P(DeviceTrainingTest, ShardsOfEveryStageReadNothingReleased) {
  for (const uint32_t stage : {1, 2, 3}) {
    Prepare(Job(/*workers=*/2, stage));
    const std::vector<Trained> poisoned = TrainReplicas(/*poisoned=*/true);
    const std::vector<Trained> plain = TrainReplicas(/*poisoned=*/false);
    for (int rank = 0; rank < 2; ++rank) ExpectSameBits(poisoned[rank], plain[rank]);
  }
}

TEST_P(DeviceTrainingTest, TensorRanksOfEveryStageReadNothingReleased) {
  for (const uint32_t stage : {0, 3}) {
    v1::JobSpec spec = Job(/*workers=*/4, stage);
    spec.mutable_model()->mutable_transformer()->set_heads(4);
    spec.mutable_model()->mutable_transformer()->set_kv_heads(2);
    Prepare(OnMesh(spec, /*tensor=*/2, /*data=*/2, stage));
    const std::vector<Trained> poisoned = TrainReplicas(/*poisoned=*/true);
    const std::vector<Trained> plain = TrainReplicas(/*poisoned=*/false);
    for (int rank = 0; rank < 4; ++rank) ExpectSameBits(poisoned[rank], plain[rank]);
  }
}

TEST_P(DeviceTrainingTest, StagesOfAPipelineReadNothingReleased) {
  ExpectNothingReleasedIsRead(v1::ParallelismSpec::ONE_F_ONE_B, /*zero=*/0);
  ExpectNothingReleasedIsRead(v1::ParallelismSpec::INTERLEAVED, /*zero=*/1);
}

TEST_P(DeviceTrainingTest, StagesOfAPipelineReadNothingReleasedExhaustive) {
  ExpectNothingReleasedIsRead(v1::ParallelismSpec::ONE_F_ONE_B, /*zero=*/1);
  ExpectNothingReleasedIsRead(v1::ParallelismSpec::INTERLEAVED, /*zero=*/0);
}

TEST_P(DeviceTrainingTest, CopiesOfTheHostsParametersAreNotReadReleased) {
  Prepare(Job(/*workers=*/1));
  ExpectSameBits(TrainCopies(/*poisoned=*/true), TrainCopies(/*poisoned=*/false));
}

std::string NameOfJob(const ::testing::TestParamInfo<Parameters>& info) {
  const auto& [dropout, type] = info.param;
  return v1::ComputeSpec::Type_Name(type) + (dropout ? "WithDropout" : "");
}

INSTANTIATE_TEST_SUITE_P(Jobs, DeviceTrainingTest,
                         ::testing::Values(Parameters{false, v1::ComputeSpec::F32},
                                           Parameters{true, v1::ComputeSpec::BF16}),
                         NameOfJob);
INSTANTIATE_TEST_SUITE_P(ExhaustiveJobs, DeviceTrainingTest,
                         ::testing::Values(Parameters{true, v1::ComputeSpec::F32},
                                           Parameters{false, v1::ComputeSpec::BF16}),
                         NameOfJob);

// A pipeline on a mesh, and ZeRO's stage.
struct DeviceMesh {
  v1::ParallelismSpec::PipelineSchedule schedule;
  uint32_t stages, tensor, data, zero;
};

class DeviceMeshTest : public DeviceJob {
 protected:
  // Ranks that differ along these alone have the same weights.
  static constexpr Axes kOthers = (kPartAxes | kExpertAxes).Others();

  // Puts the first data rank's shares together.
  TrainedValues Joined(const std::vector<Trained>& trained) const {
    const std::vector<TensorSpec>& whole = job_->model->description().tensors;
    TrainedValues joined;
    for (const TensorSpec& tensor : whole) joined.values[tensor.name].resize(tensor.elements());
    for (int rank = 0; rank < static_cast<int>(trained.size()); ++rank) {
      if (MeshOf(spec_).Position(rank, kOthers) != 0) continue;
      const std::vector<TensorSpec> local = TensorsOf(rank);
      for (size_t t = 0; t < whole.size(); ++t) {
        if (local[t].elements() == 0) continue;
        const std::vector<float>& share = trained[rank].weights[t];
        std::vector<float>& to = joined.values[whole[t].name];
        ForEachGlobal(local[t], 0, share.size(),
                      [&](uint64_t first, uint64_t global, uint64_t count) {
                        std::copy_n(share.begin() + first, count, to.begin() + global);
                      });
      }
    }
    return joined;
  }

  v1::JobSpec Job(TensorShape shape, uint64_t steps) {
    v1::JobSpec spec = ByAllReduce(TensorJob(shape, folder_));
    // The devices' optimizer; a small epsilon makes steps of what is rounding error alone.
    spec.mutable_optimizer()->set_name("adamw");
    spec.mutable_optimizer()->set_epsilon(0.1f);
    spec.mutable_update()->set_deterministic(false);
    spec.mutable_update()->set_first_bucket_bytes(64);
    spec.mutable_update()->set_bucket_bytes(500);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    spec.mutable_model()->mutable_transformer()->set_heads(4);
    spec.set_batch_size(4);
    spec.set_micro_batches(2);
    spec.mutable_stop()->set_steps(steps);
    return spec;
  }

  // Trains on tensor and data ranks in the stages of ZeRO.
  void ExpectStages(TensorShape shape, const std::vector<uint32_t>& stages) {
    const v1::JobSpec spec = Job(shape, /*steps=*/4);
    const TrainedValues expected = TrainLocally(spec);
    for (const uint32_t stage : stages) {
      SCOPED_TRACE(stage);
      const v1::JobSpec divided = OnMesh(spec, /*tensor=*/2, /*data=*/2, stage);
      ExpectResults(shape == TensorShape::kGpt2 ? divided : WithoutSequence(divided), expected);
    }
  }

  // Trains on the meshes.
  void ExpectMeshes(TensorShape shape, const std::vector<DeviceMesh>& meshes) {
    const v1::JobSpec spec = Job(shape, /*steps=*/4);
    const TrainedValues expected = TrainLocally(spec);
    for (const DeviceMesh& mesh : meshes) {
      SCOPED_TRACE(v1::ParallelismSpec::PipelineSchedule_Name(mesh.schedule));
      ExpectResults(
          InPipeline(OnMesh(spec, mesh.tensor, mesh.data, mesh.zero), mesh.stages, mesh.schedule),
          expected);
    }
  }

  void ExpectResults(const v1::JobSpec& spec, const TrainedValues& expected) {
    Prepare(spec);
    const std::vector<Trained> trained = TrainReplicas(/*poisoned=*/false);
    // Replicas have the same bits.
    for (size_t rank = 0; rank < trained.size(); ++rank) {
      const int first = MeshOf(spec_).Move(static_cast<int>(rank), kOthers, 0);
      EXPECT_EQ(trained[rank].weights, trained[first].weights);
    }
    ExpectClose(Joined(trained), expected, 1e-5);
    ExpectPredictedBytes(trained);
  }

  // Expects the bytes along each axis that plans say.
  void ExpectPredictedBytes(const std::vector<Trained>& trained) {
    const auto predicted = PredictAllReduceTraffic(*job_->schema, spec_, AllReduceWay::kDevices);
    ASSERT_EQ(predicted.status(), absl::OkStatus());
    const uint64_t steps = spec_.stop().steps();
    for (size_t slot = 0; slot < trained.size(); ++slot) {
      SCOPED_TRACE(slot);
      const StrategyCounters& counters = trained[slot].counters;
      const uint64_t tensor = predicted->tensor[slot].sent;
      const uint64_t stages = predicted->pipeline[slot].sent;
      // Bytes between expert ranks depend on what routers choose.
      if (SizeAlong(kExpertAxes, spec_) == 1) {
        EXPECT_EQ(counters.tensor_bytes_sent, steps * tensor);
      }
      EXPECT_EQ(counters.stage_bytes_sent, steps * stages);
      EXPECT_EQ(counters.stage_bytes_received, steps * predicted->pipeline[slot].received);
      EXPECT_EQ(counters.bytes_sent, steps * (predicted->workers[slot].sent - tensor - stages));
    }
  }
};

TEST_F(DeviceMeshTest, RanksTrainAsOneProcessInEveryStage) {
  ExpectStages(TensorShape::kGpt2, {0, 3});
  ExpectStages(TensorShape::kLlama, {1, 2});
}

TEST_F(DeviceMeshTest, RanksTrainAsOneProcessInEveryStageExhaustive) {
  ExpectStages(TensorShape::kGpt2, {1, 2});
  ExpectStages(TensorShape::kLlama, {0, 3});
}

constexpr DeviceMesh kTwoStages = {v1::ParallelismSpec::ONE_F_ONE_B, 2, 1, 1, 0};
constexpr DeviceMesh kGpipe = {v1::ParallelismSpec::GPIPE, 2, 2, 2, 0};
constexpr DeviceMesh kZeroBubble = {v1::ParallelismSpec::ZERO_BUBBLE, 3, 1, 2, 1};
constexpr DeviceMesh kSlicedGradients = {v1::ParallelismSpec::ONE_F_ONE_B, 2, 2, 2, 2};
constexpr DeviceMesh kInterleaved = {v1::ParallelismSpec::INTERLEAVED, 2, 1, 2, 1};

TEST_F(DeviceMeshTest, StagesTrainAsOneProcessOnEveryMesh) {
  ExpectMeshes(TensorShape::kGpt2, {kTwoStages, kSlicedGradients, kInterleaved});
  ExpectMeshes(TensorShape::kLlama, {kGpipe, kZeroBubble});
}

// And in the same bits whatever is made again.
TEST_F(DeviceMeshTest, ExpertRanksTrainAsOneProcess) {
  v1::JobSpec spec = Job(TensorShape::kExperts, /*steps=*/3);
  spec.mutable_model()->mutable_transformer()->mutable_moe()->set_experts(8);
  const TrainedValues expected = TrainLocally(spec);
  v1::JobSpec divided = OnMesh(spec, /*tensor=*/1, /*data=*/2);
  divided.mutable_parallelism()->set_expert(2);
  ExpectResults(divided, expected);
  const std::vector<Trained> once = TrainReplicas(/*poisoned=*/false);
  for (const auto recompute : {v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
    divided.mutable_compute()->set_recompute(recompute);
    Prepare(divided);
    EXPECT_EQ(TrainReplicas(/*poisoned=*/false)[1].weights, once[1].weights) << recompute;
  }
}

// Others step the parameters there, biases among them.
TEST_F(DeviceMeshTest, CopiedExpertsTrainAsOneProcess) {
  v1::JobSpec spec = Job(TensorShape::kExperts, /*steps=*/3);
  spec.set_workers(1);
  Prepare(spec);
  ExpectClose(Joined({TrainCopies(/*poisoned=*/false)}), TrainLocally(spec), 1e-5);
}

TEST_F(DeviceMeshTest, ExpertRanksTrainAsOneProcessInEveryStage) {
  v1::JobSpec spec = Job(TensorShape::kExperts, /*steps=*/3);
  spec.mutable_model()->mutable_transformer()->mutable_moe()->set_experts(8);
  spec.set_batch_size(8);
  const TrainedValues expected = TrainLocally(spec);
  for (const uint32_t stage : {1, 3}) {
    v1::JobSpec divided = OnMesh(spec, /*tensor=*/1, /*data=*/4, stage);
    divided.mutable_parallelism()->set_expert(2);
    ExpectResults(divided, expected);
  }
}

TEST_F(DeviceMeshTest, StagesTrainAsOneProcessOnEveryMeshExhaustive) {
  ExpectMeshes(TensorShape::kGpt2, {kGpipe, kZeroBubble});
  ExpectMeshes(TensorShape::kLlama, {kTwoStages, kSlicedGradients, kInterleaved});
}

TEST_F(DeviceMeshTest, ContextRanksTrainAsOneProcessAndSendWhatIsPredicted) {
  const v1::JobSpec spec = Job(TensorShape::kLlama, /*steps=*/4);
  ExpectResults(InContext(OnMesh(spec, /*tensor=*/1, /*data=*/2, /*stage=*/1), /*context=*/2,
                          v1::ParallelismSpec::RING),
                TrainLocally(spec));
}

TEST_F(DeviceMeshTest, FiftyStepsEndWhereOneProcessDoes) {
  v1::JobSpec spec = Job(TensorShape::kLlama, /*steps=*/50);
  spec.set_batch_size(2);
  ExpectResults(OnMesh(spec, /*tensor=*/2, /*data=*/1), TrainLocally(spec));
}

}  // namespace
}  // namespace muster
