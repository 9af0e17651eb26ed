// Tokens per second of training on one GPU, and the share of its matrix peak.
//
//   device_train_bench [--model=gpt2|llama1.5b|tiny|all] [--steps=N] [--type=bf16|f16|f32] [--json]
//
// Random tokens, a step's work as the figures mean it: all micro-batches, the sum of
// gradients, clipping, AdamW. The first steps are warm-up and are not counted. Without a GPU it
// says so and measures nothing.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "worker/device/device_trainer_for_testing.h"

namespace muster {
namespace {

// Dense bf16 FLOP/s of an H100 or H200.
constexpr double kPeak = 989e12;
constexpr int kWarmUpSteps = 2;

struct Training {
  std::string name;
  TransformerShape shape;
  // Of a micro-batch, and micro-batches of a step.
  int64_t sequences = 0;
  int64_t length = 0;
  int micro_batches = 1;
};

// GPT-2's smallest, 524,288 tokens a step; the vocabulary padded as everybody pads it.
Training Gpt2() {
  Training training;
  training.name = "gpt2_124m";
  TransformerShape& shape = training.shape;
  shape.layers = 12;
  shape.width = 768;
  shape.heads = shape.kv_heads = 12;
  shape.feed_forward = 3072;
  shape.vocabulary = 50304;
  shape.context = 1024;
  training.sequences = 64;
  training.length = 1024;
  training.micro_batches = 8;
  return training;
}

// 1.5 B parameters in Llama's manner: grouped queries, SwiGLU, a large vocabulary.
Training Llama() {
  Training training;
  training.name = "llama_1.5b";
  TransformerShape& shape = training.shape;
  shape.layers = 28;
  shape.width = 1536;
  shape.heads = 12;
  shape.kv_heads = 2;
  shape.feed_forward = 8960;
  shape.vocabulary = 151936;
  shape.context = 1024;
  shape.norm = TransformerShape::Norm::kRmsNorm;
  shape.positions = TransformerShape::Positions::kRotary;
  shape.activation = TransformerShape::Activation::kSwiGlu;
  shape.biases = false;
  training.sequences = 16;
  training.length = 1024;
  training.micro_batches = 32;
  return training;
}

// Runs anywhere, and says nothing about speed.
Training Tiny() {
  Training training;
  training.name = "tiny";
  TransformerShape& shape = training.shape;
  shape.layers = 1;
  shape.width = 32;
  shape.heads = shape.kv_heads = 2;
  shape.feed_forward = 64;
  shape.vocabulary = 64;
  shape.context = 16;
  training.sequences = 2;
  training.length = 16;
  training.micro_batches = 2;
  return training;
}

struct Arguments {
  std::string model = "all";
  DType type = DType::kBf16;
  int steps = 10;
  bool json = false;
};

struct Measured {
  int64_t parameters = 0;
  size_t memory_bytes = 0;
  double tokens_per_second = 0;
  double mfu = 0;
  double last_loss = 0;
  std::vector<MatmulChoice> products;
};

Batch RandomBatch(const Training& training, uint64_t number) {
  const Philox random(1, "test", "tokens");
  Batch batch;
  batch.Clear();
  batch.examples = training.sequences;
  for (int64_t i = 0; i < training.sequences * training.length; ++i) {
    batch.tokens.push_back(
        static_cast<int32_t>(random.Below(training.shape.vocabulary, i, number)));
    batch.labels.push_back(
        static_cast<int32_t>(random.Below(training.shape.vocabulary, i, number + 1)));
  }
  return batch;
}

absl::StatusOr<Measured> Measure(const Training& training, const Arguments& arguments) {
  DeviceTrainerOptions options;
  options.shape = training.shape;
  options.compute.type = arguments.type;
  options.compute.sequences = training.sequences;
  options.compute.length = training.length;
  options.clip.max_norm = 1;
  options.optimizer.weight_decay = 0.1f;
  MUSTER_ASSIGN_OR_RETURN(const auto trainer, DeviceTrainer::Create(options, nullptr));
  MUSTER_RETURN_IF_ERROR(trainer->WriteInitialValues(1));
  MUSTER_RETURN_IF_ERROR(trainer->WarmUp());
  // A few batches in turn: making them must not count.
  std::vector<Batch> batches;
  for (uint64_t i = 0; i < 4; ++i) batches.push_back(RandomBatch(training, 2 * i));

  Measured measured;
  std::vector<double> seconds;
  for (int step = 0; step < kWarmUpSteps + arguments.steps; ++step) {
    const absl::Time begun = absl::Now();
    MUSTER_RETURN_IF_ERROR(trainer->BeginStep(step));
    for (int m = 0; m < training.micro_batches; ++m) {
      MUSTER_RETURN_IF_ERROR(trainer->AddMicroBatch(
          batches[m % batches.size()], m * training.sequences,
          m + 1 < training.micro_batches ? SeriesPosition::kMoreFollow : SeriesPosition::kLast));
    }
    MUSTER_ASSIGN_OR_RETURN(const DeviceStepResult result, trainer->EndStep(1e-4f));
    measured.last_loss = result.loss_sum / static_cast<double>(result.tokens);
    if (step >= kWarmUpSteps) seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begun));
  }
  std::sort(seconds.begin(), seconds.end());
  const double tokens =
      static_cast<double>(training.sequences * training.length * training.micro_batches);
  measured.parameters = trainer->parameters().parameters();
  measured.memory_bytes = trainer->memory().total;
  measured.tokens_per_second = tokens / seconds[seconds.size() / 2];
  const double flops_per_token =
      6.0 * static_cast<double>(measured.parameters) +
      6.0 * static_cast<double>(training.shape.layers * training.shape.width * training.length);
  measured.mfu = flops_per_token * measured.tokens_per_second / kPeak;
  measured.products = trainer->products();
  return measured;
}

void Print(const Training& training, const Arguments& arguments, const Measured& measured,
           const std::string& device) {
  if (arguments.json) {
    std::printf(
        "{\"benchmark\": \"device_train\", \"model\": \"%s\", \"device\": \"%s\", \"type\": "
        "\"%s\", \"parameters\": %lld, \"tokens_per_step\": %lld, \"context\": %lld, "
        "\"tokens_per_second\": %.1f, \"mfu\": %.4f, \"device_bytes\": %zu, \"loss\": %.4f}\n",
        training.name.c_str(), device.c_str(), Name(arguments.type),
        static_cast<long long>(measured.parameters),
        static_cast<long long>(training.sequences * training.length * training.micro_batches),
        static_cast<long long>(training.length), measured.tokens_per_second, measured.mfu,
        measured.memory_bytes, measured.last_loss);
    return;
  }
  std::printf("%s on %s, %s: %.0f tokens/s, %.1f %% of 989 TFLOP/s, %.1f GiB, loss %.3f\n",
              training.name.c_str(), device.c_str(), Name(arguments.type),
              measured.tokens_per_second, 100 * measured.mfu,
              static_cast<double>(measured.memory_bytes) / (1 << 30), measured.last_loss);
  for (const MatmulChoice& choice : measured.products) {
    std::printf("  %9.1f us  proposal %d of %d  %s\n", choice.microseconds, choice.chosen + 1,
                choice.proposals, choice.product.c_str());
  }
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
      if (word == "bf16") {
        arguments.type = DType::kBf16;
      } else if (word == "f16") {
        arguments.type = DType::kF16;
      } else if (word == "f32") {
        arguments.type = DType::kF32;
      } else {
        return absl::InvalidArgumentError("--type takes bf16, f16 or f32");
      }
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
