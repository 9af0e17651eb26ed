// A short training run that learns: text of a small made-up language, byte by byte. On an emulated
// device a smaller model and fewer steps.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/philox.h"
#include "gtest/gtest.h"
#include "worker/device/device_trainer_for_testing.h"

namespace muster {
namespace {

constexpr uint64_t kSeed = 3;

// Verses of words from a short list, each of which mostly has the same successor: 26 letters, space
// and line ends as numbers below 32.
std::vector<int32_t> Verses(int64_t characters) {
  const char* const words[] = {"the", "king", "shall", "come", "to",    "his",
                               "own", "and",  "speak", "no",   "more",  "of",
                               "it",  "when", "night", "is",   "about", "us"};
  const int64_t count = sizeof(words) / sizeof(words[0]);
  const Philox random(kSeed, "test", "verses");
  std::vector<int32_t> text;
  int64_t word = 0;
  for (uint64_t n = 0; static_cast<int64_t>(text.size()) < characters; ++n) {
    for (const char* c = words[word]; *c != '\0'; ++c) text.push_back(*c - 'a' + 2);
    text.push_back(n % 6 == 5 ? 1 : 0);
    word = random.Below(10, n) < 8 ? (word + 1) % count
                                   : static_cast<int64_t>(random.Below(count, n, 1));
  }
  return text;
}

Batch BatchAt(const std::vector<int32_t>& text, int64_t sequences, int64_t length, uint64_t step) {
  const Philox random(kSeed, "test", "places");
  Batch batch;
  batch.Clear();
  batch.examples = sequences;
  for (int64_t s = 0; s < sequences; ++s) {
    const uint64_t begin = random.Below(text.size() - length - 1, s, step);
    for (int64_t t = 0; t < length; ++t) {
      batch.tokens.push_back(text[begin + t]);
      batch.labels.push_back(text[begin + t + 1]);
    }
  }
  return batch;
}

struct LearnsCase {
  std::string name;
  DType type = DType::kBf16;
  bool llama = false;
};

class DeviceLearnsTest : public ::testing::TestWithParam<LearnsCase> {};

TEST_P(DeviceLearnsTest, TheLossFallsFarBelowThatOfLetterCounts) {
  const auto device = OpenDevice(0);
  if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status().message();
  ASSERT_TRUE(device.ok()) << device.status();
  const bool emulated = device->name == "emulated";
  DeviceTrainerOptions options;
  TransformerShape& shape = options.shape;
  shape.layers = emulated ? 1 : 4;
  shape.width = emulated ? 32 : 256;
  shape.heads = shape.kv_heads = emulated ? 2 : 4;
  shape.feed_forward = 4 * shape.width;
  shape.vocabulary = 32;
  shape.context = emulated ? 16 : 128;
  if (GetParam().llama) {
    shape.norm = TransformerShape::Norm::kRmsNorm;
    shape.positions = TransformerShape::Positions::kRotary;
    shape.activation = TransformerShape::Activation::kSwiGlu;
    shape.tied_head = shape.biases = false;
    shape.kv_heads /= 2;
  }
  options.compute.type = GetParam().type;
  options.compute.sequences = emulated ? 4 : 16;
  options.compute.length = shape.context;
  options.compute.workspace_bytes = size_t{8} << 20;
  options.clip.max_norm = 1;
  const int steps = emulated ? 60 : 400;
  const float rate = emulated ? 1e-2f : 1e-3f;
  const auto trainer = DeviceTrainer::Create(options, nullptr);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE((*trainer)->WriteInitialValues(kSeed).ok());
  ASSERT_TRUE((*trainer)->WarmUp().ok());
  const std::vector<int32_t> text = Verses(20000);
  double first = 0, mean = 0;
  int skipped = 0;
  for (int step = 0; step < steps; ++step) {
    ASSERT_TRUE((*trainer)->BeginStep(step).ok());
    ASSERT_TRUE(
        (*trainer)
            ->AddMicroBatch(BatchAt(text, options.compute.sequences, options.compute.length, step),
                            0, SeriesPosition::kLast)
            .ok());
    const auto result = (*trainer)->EndStep(rate);
    ASSERT_TRUE(result.ok()) << result.status();
    const double loss = result->loss_sum / static_cast<double>(result->tokens);
    if (step == 0) first = loss;
    if (result->skipped) {
      ++skipped;
      (*trainer)->set_loss_scale((*trainer)->loss_scale() / 2);
    }
    mean = step == 0 ? loss : 0.9 * mean + 0.1 * loss;
  }
  // A guess costs ln 32 = 3.5 nats a letter, counts of letters 2.8; words known by heart 0.4.
  EXPECT_NEAR(first, std::log(32), 0.2);
  EXPECT_LE(mean, emulated ? 2.5 : 0.8);
  EXPECT_LE(skipped, steps / 10);
  RecordProperty("loss", std::to_string(mean));
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceLearnsTest,
                         ::testing::Values(LearnsCase{"Gpt2Bf16", DType::kBf16, false},
                                           LearnsCase{"LlamaF16", DType::kF16, true},
                                           LearnsCase{"LlamaF32", DType::kF32, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster
