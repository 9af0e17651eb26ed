// What the plan says of a device's memory is what the engine takes of it, as a task sets it up, for
// jobs of every kind.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/device/device.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/local_tensors.h"
#include "common/partition/tensor_spec.h"
#include "common/plan/device/device_shard_plan.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/ranks/rank_size.h"
#include "common/plan/size/data_size.h"
#include "common/plan/size/model_size.h"
#include "common/step/stage_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "tests/harness/jobs.h"
#include "worker/data/dataset.h"
#include "worker/device/memory/await_device.h"
#include "worker/device/memory/device_memory_plan.h"
#include "worker/models/create_model.h"
#include "worker/runtime/device/device_job.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

v1::JobSpec Job(const std::string& transformer, const std::string& more) {
  return ParseJobOrDie(absl::StrCat("model { transformer { ", transformer,
                                    " } } data { sequences { path: 't' } } "
                                    "optimizer { name: 'adamw' learning_rate: 0.1 } ",
                                    more));
}

DatasetInfo DataOf(const v1::JobSpec& spec) {
  DatasetInfo data;
  data.examples = 100;
  data.context = spec.model().transformer().context();
  data.vocabulary = data.classes = 256;
  data.labels_per_example = data.context;
  return data;
}

ModelSize SizeOf(const v1::JobSpec& spec) { return SizeOfModel(spec, SizeOfData(spec.data())); }

// Returns the tensors of the first tensor rank of a stage, which has the most.
std::vector<TensorSpec> TensorsOf(const v1::JobSpec& spec, int stage) {
  const auto model = CreateModel(spec.model(), spec.compute(), DataOf(spec), MeshOf(spec)).value();
  const ModelDivision division = PlannedDivision(spec, SizeOf(spec)).value();
  return LocalTensors(model->description().tensors, division,
                      division.mesh.Move(0, Axis::kPipeline, stage))
      .value();
}

absl::StatusOr<DeviceOptions> OptionsOf(const v1::JobSpec& spec, int stage = 0) {
  const DatasetInfo data = DataOf(spec);
  if (!TrainsByAllReduce(spec)) return DeviceOptionsFor(spec, data, /*device=*/0);
  v1::TablesSchema schema = PlannedSchema(spec, SizeOf(spec));
  auto options = ResidentDeviceOptionsFor(spec, data, schema, /*device=*/0);
  if (options.ok()) {
    TakeStage(StageOfJob(spec, schema, options->shape.units(), stage), options->compute);
  }
  return options;
}

void ExpectTheEnginesMemory(const v1::JobSpec& spec, int stage, const MemoryPlan& plan) {
  SCOPED_TRACE(stage);
  std::map<std::string, uint64_t> parts;
  for (const MemoryPart& part : plan.device) parts[part.name] = part.bytes;
  auto options = OptionsOf(spec, stage);
  ASSERT_TRUE(options.ok()) << options.status();
  const std::vector<TensorSpec> tensors = TensorsOf(spec, stage);
  if (ZeroStage(spec) > 0) {
    // This is what the strategy does.
    options->compute.shard =
        PlanDeviceShard(spec, SizeAlong(kShardAxes, spec), tensors, options->compute.type).value();
  }
  const DeviceMemoryBytes taken = PlanDeviceMemory(DeviceExtentsOf(
      options->shape, DeviceParameters::Create(options->shape, tensors).value(), options->compute));
  const auto either = [&parts](const char* whole, const char* divided) {
    return parts[whole] + parts[divided];
  };
  EXPECT_EQ(either("parameters", "slice of parameters"), taken.weights);
  EXPECT_EQ(either("gathered parameters", "gathered parameters of units in flight"),
            taken.gathered_weights);
  EXPECT_EQ(parts["16-bit weights"], taken.rounded_weights);
  EXPECT_EQ(either("gradients", "gradients of units in flight"), taken.gradients);
  EXPECT_EQ(parts["slice of sums of gradients"], taken.gradient_sums);
  EXPECT_EQ(either("optimizer state", "slice of optimizer state"), taken.optimizer_state);
  EXPECT_EQ(parts["activations"], taken.activations);
  EXPECT_EQ(parts["logits"], taken.logits);
  EXPECT_EQ(parts["kernels' scratch"], taken.scratch);
  EXPECT_EQ(parts["messages with other stages"], taken.messages);
  EXPECT_EQ(plan.device_bytes() - parts["CUDA's own"] - parts["NCCL's own"], taken.total);
}

// Expects it of every stage of a pipeline, or of the whole model.
void ExpectTheEnginesMemory(const std::string& transformer, const std::string& more) {
  SCOPED_TRACE(absl::StrCat(transformer, " ", more));
  const v1::JobSpec spec = Job(transformer, more);
  const std::vector<MemoryPlan> stages = PlanMemoryOfStages(spec, SizeOfData(spec.data()));
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    ExpectTheEnginesMemory(spec, static_cast<int>(stage), stages[stage]);
  }
}

TEST(DeviceMemoryTest, ThePlanIsWhatTheEngineTakes) {
  // GPT-2's kind, Llama's kind, and odd ones between.
  const std::vector<std::string> transformers = {
      "layers: 2 width: 48 heads: 3 context: 20",
      "layers: 3 width: 64 heads: 4 kv_heads: 2 context: 16 norm: RMS_NORM positions: ROTARY "
      "activation: SWIGLU no_biases: true separate_head: true",
      "layers: 1 width: 40 heads: 5 context: 8 no_biases: true feed_forward: 23 vocabulary: 257",
      "layers: 2 width: 64 heads: 2 context: 32 norm: RMS_NORM vocabulary: 300 "
      "pad_vocabulary_to: 128",
      "layers: 1 width: 32 heads: 2 context: 64 activation: SWIGLU feed_forward: 72 dropout: 0.1",
      "layers: 2 width: 48 heads: 4 kv_heads: 2 head_width: 20 context: 16 norm: RMS_NORM "
      "positions: "
      "ROTARY no_biases: true attention_biases: true query_key_norm: PER_HEAD sliding_window: 5",
      "layers: 1 width: 16 heads: 4 head_width: 20 context: 16 query_key_norm: WHOLE_WIDTH",
  };
  for (const std::string& transformer : transformers) {
    for (const std::string type : {"F32", "BF16", "F16"}) {
      for (const std::string recompute : {"NONE", "SELECTIVE", "FULL"}) {
        const std::string compute =
            absl::StrCat("compute { device: CUDA type: ", type, " recompute: ", recompute, " } ");
        ExpectTheEnginesMemory(transformer,
                               absl::StrCat(compute, "update { dense: ALL_REDUCE } batch_size: 3"));
        // Shares of 7 in micro-batches of 3, 2 and 2.
        ExpectTheEnginesMemory(transformer,
                               absl::StrCat(compute, "workers: 2 batch_size: 13 micro_batches: 3"));
        for (const uint32_t stage : {1, 2, 3}) {
          ExpectTheEnginesMemory(
              transformer,
              absl::StrCat(compute, "update { dense: ALL_REDUCE } workers: 3 batch_size: 13 ",
                           "parallelism { zero { stage: ", stage, " } }"));
        }
      }
    }
  }
}

TEST(DeviceMemoryTest, ThePlanOfATensorRankIsWhatTheEngineTakes) {
  const std::vector<std::string> transformers = {
      "layers: 2 width: 48 heads: 4 context: 20 vocabulary: 256 pad_vocabulary_to: 12",
      "layers: 2 width: 48 heads: 4 kv_heads: 2 head_width: 20 context: 16 vocabulary: 256 "
      "norm: RMS_NORM positions: ROTARY no_biases: true attention_biases: true query_key_norm: "
      "PER_HEAD feed_forward: 72",
      "layers: 3 width: 64 heads: 4 kv_heads: 2 context: 16 norm: RMS_NORM positions: ROTARY "
      "activation: SWIGLU no_biases: true separate_head: true feed_forward: 72",
  };
  for (const std::string& transformer : transformers) {
    for (const std::string compute :
         {"compute { device: CUDA type: F32 } ",
          "compute { device: CUDA type: BF16 recompute: SELECTIVE } "}) {
      for (const uint32_t stage : {0, 1, 2, 3}) {
        for (const std::string tensor : {"tensor: 2", "tensor: 4", "tensor: 2 sequence: false"}) {
          ExpectTheEnginesMemory(
              transformer,
              absl::StrCat(compute, "update { dense: ALL_REDUCE } workers: 8 batch_size: 13 ",
                           "parallelism { ", tensor, " zero { stage: ", stage, " } }"));
        }
      }
    }
  }
}

TEST(DeviceMemoryTest, ThePlanOfAContextRankIsWhatTheEngineTakes) {
  const std::vector<std::string> transformers = {
      "layers: 2 width: 48 heads: 4 context: 24 vocabulary: 256 pad_vocabulary_to: 12",
      "layers: 2 width: 48 heads: 4 kv_heads: 2 head_width: 20 context: 16 vocabulary: 256 "
      "norm: RMS_NORM positions: ROTARY no_biases: true attention_biases: true query_key_norm: "
      "PER_HEAD feed_forward: 72",
      "layers: 3 width: 64 heads: 4 kv_heads: 2 context: 16 norm: RMS_NORM positions: ROTARY "
      "activation: SWIGLU no_biases: true separate_head: true feed_forward: 72",
  };
  for (const std::string& transformer : transformers) {
    for (const std::string compute :
         {"compute { device: CUDA type: F32 } ",
          "compute { device: CUDA type: BF16 recompute: SELECTIVE } "}) {
      for (const std::string mesh :
           {"context: 2", "context: 4 context_exchange: GATHER zero { stage: 3 }",
            "context: 2 tensor: 2 context_exchange: HEADS zero { stage: 1 }",
            "context: 2 pipeline: 2"}) {
        ExpectTheEnginesMemory(
            transformer,
            absl::StrCat(compute, "update { dense: ALL_REDUCE } workers: 8 batch_size: 13 ",
                         "micro_batches: 2 parallelism { ", mesh, " }"));
      }
    }
  }
}

TEST(DeviceMemoryTest, ThePlanOfAnExpertRankIsWhatTheEngineTakes) {
  const std::string transformer =
      "layers: 4 width: 48 heads: 4 context: 20 no_biases: true activation: SWIGLU moe { experts: "
      "8 "
      "top_k: 2 expert_width: 40 shared_width: 24 shared_gate: true auxiliary_loss: 0.1 "
      "dense_layers: 1 }";
  for (const std::string compute : {"compute { device: CUDA type: F32 } ",
                                    "compute { device: CUDA type: BF16 recompute: FULL } "}) {
    for (const std::string mesh :
         {"expert: 2", "expert: 8 zero { stage: 1 }", "expert: 2 zero { stage: 2 shard: 4 }",
          "expert: 4 tensor: 2 zero { stage: 3 }", "expert: 4 context: 2",
          "expert: 2 pipeline: 2 pipeline_schedule: ZERO_BUBBLE"}) {
      ExpectTheEnginesMemory(
          transformer, absl::StrCat(compute, "update { dense: ALL_REDUCE } workers: 8 batch_size: ",
                                    "29 micro_batches: 3 parallelism { ", mesh, " }"));
    }
  }
}

TEST(DeviceMemoryTest, ThePlanOfAStageIsWhatTheEngineTakes) {
  const std::vector<std::string> transformers = {
      "layers: 4 width: 48 heads: 4 context: 20 vocabulary: 256 pad_vocabulary_to: 12",
      "layers: 5 width: 64 heads: 4 kv_heads: 2 context: 16 norm: RMS_NORM positions: ROTARY "
      "activation: SWIGLU no_biases: true separate_head: true feed_forward: 72",
  };
  for (const std::string& transformer : transformers) {
    for (const std::string compute :
         {"compute { device: CUDA type: F32 } ",
          "compute { device: CUDA type: BF16 recompute: SELECTIVE } "}) {
      for (const std::string schedule : {"GPIPE", "ONE_F_ONE_B", "INTERLEAVED", "ZERO_BUBBLE"}) {
        for (const std::string rest : {"", "tensor: 2", "zero { stage: 1 }"}) {
          ExpectTheEnginesMemory(
              transformer,
              absl::StrCat(compute, "update { dense: ALL_REDUCE } workers: 8 batch_size: 13 ",
                           "micro_batches: 4 parallelism { pipeline: 2 pipeline_schedule: ",
                           schedule, " ", rest, " }"));
        }
      }
    }
  }
}

// The sum has what is left for graphs and libraries; the context is what the device has less.
TEST(DeviceMemoryTest, TheEngineRefusesByTheSameSum) {
  const v1::JobSpec spec =
      Job("layers: 48 width: 6144 heads: 48 context: 1024",
          "compute { device: CUDA } update { dense: ALL_REDUCE } batch_size: 1");
  const uint64_t planned =
      PlanMemory(spec, SizeOfData(spec.data())).device_bytes() - kCudaContextBytes;
  const auto device = OpenDevice(0);
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_GT(planned, device->memory_bytes);
  const auto options = OptionsOf(spec);
  ASSERT_TRUE(options.ok()) << options.status();
  const absl::Status refused = AwaitDevice(*options);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("needs ", planned >> 20, " MiB of device memory")));
}

}  // namespace
}  // namespace muster
