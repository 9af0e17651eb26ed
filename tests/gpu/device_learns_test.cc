// A short training run that learns: text of a small made-up language, byte by byte. On an emulated
// device a smaller model and fewer steps.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/device/device.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/runtime/device/device_rank_for_testing.h"

namespace muster {
namespace {

constexpr uint64_t kSeed = 3;
constexpr int64_t kLetters = 32;

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
  std::string type;
  // Fields of the transformer.
  std::string model;
};

const char kLlama[] =
    "kv_heads: 1 norm: RMS_NORM positions: ROTARY activation: SWIGLU separate_head: true "
    "no_biases: true";

class DeviceLearnsTest : public ::testing::TestWithParam<LearnsCase> {};

TEST_P(DeviceLearnsTest, TheLossFallsFarBelowThatOfLetterCounts) {
  const auto device = OpenDevice(0);
  if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status().message();
  ASSERT_TRUE(device.ok()) << device.status();
  const bool emulated = device->name == "emulated";
  const int64_t sequences = emulated ? 4 : 16;
  const int64_t length = emulated ? 16 : 128;
  v1::JobSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("model { transformer { context: ", length, " ",
                   emulated ? "layers: 1 width: 32 heads: 2 feed_forward: 128 "
                            : "layers: 4 width: 256 heads: 4 feed_forward: 1024 ",
                   GetParam().model, " } } compute { device: CUDA type: ", GetParam().type,
                   " } batch_size: ", sequences, " seed: ", kSeed,
                   " optimizer { name: 'adamw' weight_decay: 0 learning_rate: ",
                   emulated ? 1e-2 : 1e-3, " } ",
                   R"pb(
                     update { dense: ALL_REDUCE sparse: ALL_REDUCE }
                     clipping { by_global_norm: 1 }
                     workers: 1
                   )pb"),
      &spec));
  const int steps = emulated ? 60 : 400;
  const auto rank = DeviceRank::Create(spec, kLetters);
  ASSERT_TRUE(rank.ok()) << rank.status();
  const std::vector<int32_t> text = Verses(20000);
  double first = 0, mean = 0;
  int skipped = 0;
  for (int step = 0; step < steps; ++step) {
    const auto result = (*rank)->Train({{BatchAt(text, sequences, length, step), 0}});
    ASSERT_TRUE(result.ok()) << result.status();
    const double loss = result->sums.loss_sum / static_cast<double>(result->sums.loss_weight);
    if (step == 0) first = loss;
    if (!result->gradient_norm.has_value()) ++skipped;
    mean = step == 0 ? loss : 0.9 * mean + 0.1 * loss;
  }
  // A guess costs ln 32 = 3.5 nats a letter, counts of letters 2.8; words known by heart 0.4.
  EXPECT_NEAR(first, std::log(kLetters), 0.2);
  EXPECT_LE(mean, emulated ? 2.5 : 0.8);
  EXPECT_LE(skipped, steps / 10);
  RecordProperty("loss", std::to_string(mean));
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceLearnsTest,
                         ::testing::Values(LearnsCase{"Gpt2Bf16", "BF16", ""},
                                           LearnsCase{"LlamaF16", "F16", kLlama},
                                           LearnsCase{"LlamaF32", "F32", kLlama}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster
