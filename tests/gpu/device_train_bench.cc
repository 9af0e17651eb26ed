// Tokens per second of training on one GPU, and the share of its matrix peak.
//
//   device_train_bench [--model=gpt2|llama1.5b|tiny|all] [--steps=N] [--type=bf16|f16|f32] [--json]
//
// Random tokens, a step's work as the issue's figures mean it: all micro-batches, the sum of
// gradients, clipping, AdamW. The first steps are warm-up and are not counted. Without a GPU it
// says so and measures nothing.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/device/device.h"
#include "google/protobuf/text_format.h"
#include "proto/schema.pb.h"
#include "worker/device/memory/device_memory_plan.h"
#include "worker/runtime/device/device_job.h"
#include "worker/runtime/device/device_rank_for_testing.h"

namespace muster {
namespace {

// Dense bf16 FLOP/s of an H100 or H200.
constexpr double kPeak = 989e12;
constexpr int kWarmUpSteps = 2;

struct Training {
  std::string name;
  // Fields of the transformer; the vocabulary is the data's.
  std::string model;
  int64_t vocabulary = 0;
  // Of a micro-batch, and micro-batches of a step.
  int64_t sequences = 0;
  int64_t length = 0;
  int micro_batches = 1;
};

// GPT-2's smallest, 524,288 tokens a step; the vocabulary padded as everybody pads it.
Training Gpt2() {
  return {.name = "gpt2_124m",
          .model = "layers: 12 width: 768 heads: 12",
          .vocabulary = 50304,
          .sequences = 64,
          .length = 1024,
          .micro_batches = 8};
}

// 1.5 B parameters in Llama's manner: grouped queries, SwiGLU, a large vocabulary.
Training Llama() {
  return {.name = "llama_1.5b",
          .model =
              "layers: 28 width: 1536 heads: 12 kv_heads: 2 feed_forward: 8960 norm: RMS_NORM "
              "positions: ROTARY activation: SWIGLU no_biases: true",
          .vocabulary = 151936,
          .sequences = 16,
          .length = 1024,
          .micro_batches = 32};
}

// Runs anywhere, and says nothing about speed.
Training Tiny() {
  return {.name = "tiny",
          .model = "layers: 1 width: 32 heads: 2 feed_forward: 64",
          .vocabulary = 64,
          .sequences = 2,
          .length = 16,
          .micro_batches = 2};
}

struct Arguments {
  std::string model = "all";
  std::string type = "bf16";
  int steps = 10;
  bool json = false;
};

struct Measured {
  int64_t parameters = 0;
  size_t memory_bytes = 0;
  double tokens_per_second = 0;
  double mfu = 0;
  double last_loss = 0;
};

Batch RandomBatch(const Training& training, uint64_t number) {
  const Philox random(1, "test", "tokens");
  Batch batch;
  batch.Clear();
  batch.examples = training.sequences;
  for (int64_t i = 0; i < training.sequences * training.length; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random.Below(training.vocabulary, i, number)));
    batch.labels.push_back(static_cast<int32_t>(random.Below(training.vocabulary, i, number + 1)));
  }
  return batch;
}

absl::StatusOr<v1::JobSpec> JobOf(const Training& training, const Arguments& arguments) {
  v1::JobSpec spec;
  if (!google::protobuf::TextFormat::ParseFromString(
          absl::StrCat("model { transformer { context: ", training.length, " ", training.model,
                       " } } compute { device: CUDA type: ", absl::AsciiStrToUpper(arguments.type),
                       " } batch_size: ", training.sequences * training.micro_batches,
                       " micro_batches: ", training.micro_batches,
                       R"pb(
                         update { dense: ALL_REDUCE sparse: ALL_REDUCE }
                         optimizer { name: "adamw" learning_rate: 1e-4 weight_decay: 0.1 }
                         clipping { by_global_norm: 1 }
                         workers: 1
                         seed: 1
                       )pb"),
          &spec)) {
    return absl::InternalError(absl::StrCat(training.name, " is not a job"));
  }
  return spec;
}

// The shape of the job, and the bytes that it has on the device.
absl::Status Describe(const v1::JobSpec& spec, const Training& training, TransformerShape& shape,
                      Measured& measured) {
  v1::TablesSchema schema;
  *schema.mutable_optimizer() = spec.optimizer();
  MUSTER_ASSIGN_OR_RETURN(
      const DeviceOptions options,
      ResidentDeviceOptionsFor(spec, SequencesFor(spec, training.vocabulary), schema,
                               /*device=*/0));
  MUSTER_ASSIGN_OR_RETURN(const DeviceParameters parameters,
                          DeviceParameters::Create(options.shape));
  shape = options.shape;
  measured.memory_bytes =
      PlanDeviceMemory(DeviceExtentsOf(options.shape, parameters, options.compute)).total;
  return absl::OkStatus();
}

absl::StatusOr<Measured> Measure(const Training& training, const Arguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const v1::JobSpec spec, JobOf(training, arguments));
  TransformerShape shape;
  Measured measured;
  MUSTER_RETURN_IF_ERROR(Describe(spec, training, shape, measured));
  MUSTER_ASSIGN_OR_RETURN(const auto rank, DeviceRank::Create(spec, training.vocabulary));
  // A few batches in turn.
  std::vector<PlacedBatch> step(training.micro_batches);
  for (int m = 0; m < training.micro_batches; ++m) {
    step[m].batch = RandomBatch(training, 2 * (m % 4));
    step[m].first_example = m * training.sequences;
  }

  std::vector<double> seconds;
  for (int i = 0; i < kWarmUpSteps + arguments.steps; ++i) {
    const absl::Time begun = absl::Now();
    MUSTER_ASSIGN_OR_RETURN(const DeviceRank::StepResult result, rank->Train(step));
    measured.last_loss = result.sums.loss_sum / static_cast<double>(result.sums.loss_weight);
    if (i >= kWarmUpSteps) seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begun));
  }
  std::sort(seconds.begin(), seconds.end());
  const double tokens =
      static_cast<double>(training.sequences * training.length * training.micro_batches);
  for (const TensorSpec& tensor : rank->tensors()) {
    if (tensor.tied_to.empty()) measured.parameters += tensor.elements();
  }
  measured.tokens_per_second = tokens / seconds[seconds.size() / 2];
  const double flops_per_token =
      6.0 * static_cast<double>(measured.parameters) +
      6.0 * static_cast<double>(shape.layers * shape.width * training.length);
  measured.mfu = flops_per_token * measured.tokens_per_second / kPeak;
  return measured;
}

void Print(const Training& training, const Arguments& arguments, const Measured& measured,
           const std::string& device) {
  if (arguments.json) {
    std::printf(
        "{\"benchmark\": \"device_train\", \"model\": \"%s\", \"device\": \"%s\", \"type\": "
        "\"%s\", \"parameters\": %lld, \"tokens_per_step\": %lld, \"context\": %lld, "
        "\"tokens_per_second\": %.1f, \"mfu\": %.4f, \"device_bytes\": %zu, \"loss\": %.4f}\n",
        training.name.c_str(), device.c_str(), arguments.type.c_str(),
        static_cast<long long>(measured.parameters),
        static_cast<long long>(training.sequences * training.length * training.micro_batches),
        static_cast<long long>(training.length), measured.tokens_per_second, measured.mfu,
        measured.memory_bytes, measured.last_loss);
    return;
  }
  std::printf("%s on %s, %s: %.0f tokens/s, %.1f %% of 989 TFLOP/s, %.1f GiB, loss %.3f\n",
              training.name.c_str(), device.c_str(), arguments.type.c_str(),
              measured.tokens_per_second, 100 * measured.mfu,
              static_cast<double>(measured.memory_bytes) / (1 << 30), measured.last_loss);
}

absl::StatusOr<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (word == "--json") {
      arguments.json = true;
    } else if (absl::ConsumePrefix(&word, "--model=")) {
      arguments.model = std::string(word);
    } else if (absl::ConsumePrefix(&word, "--steps=")) {
      if (!absl::SimpleAtoi(word, &arguments.steps) || arguments.steps < 1) {
        return absl::InvalidArgumentError("--steps takes a number from 1");
      }
    } else if (absl::ConsumePrefix(&word, "--type=")) {
      if (word != "bf16" && word != "f16" && word != "f32") {
        return absl::InvalidArgumentError("--type takes bf16, f16 or f32");
      }
      arguments.type = std::string(word);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown argument ", argv[i],
                       "; there are --model=gpt2|llama1.5b|tiny|all, --steps=N, "
                       "--type=bf16|f16|f32 and --json"));
    }
  }
  return arguments;
}

absl::Status Main(int argc, char** argv) {
  MUSTER_ASSIGN_OR_RETURN(const Arguments arguments, Parse(argc, argv));
  std::vector<Training> chosen;
  if (arguments.model == "gpt2" || arguments.model == "all") chosen.push_back(Gpt2());
  if (arguments.model == "llama1.5b" || arguments.model == "all") chosen.push_back(Llama());
  if (arguments.model == "tiny") chosen.push_back(Tiny());
  if (chosen.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model=", arguments.model, ": there are gpt2, llama1.5b, tiny and all"));
  }
  const auto device = OpenDevice(0);
  if (!device.ok()) {
    const std::string reason = std::string(device.status().message());
    if (arguments.json) {
      std::printf("{\"benchmark\": \"device_train\", \"skipped\": \"%s\"}\n", reason.c_str());
    } else {
      std::printf("skipped, %s\n", reason.c_str());
    }
    return absl::OkStatus();
  }
  for (const Training& training : chosen) {
    MUSTER_ASSIGN_OR_RETURN(const Measured measured, Measure(training, arguments));
    Print(training, arguments, measured, device->name);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  const absl::Status status = muster::Main(argc, argv);
  if (!status.ok()) std::cerr << "device_train_bench: " << status.message() << std::endl;
  return status.ok() ? 0 : 1;
}
