#include "common/kernels/device/device_cross_entropy.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/kernels/device/device_test_lib.h"

namespace muster {
namespace {

struct Reference {
  std::vector<float> losses, gradient;
  std::vector<int32_t> correct;
  DeviceHeadSums sums;
};

// By the definition, in f64.
Reference ReferenceOf(const DeviceCrossEntropyShape& shape, int64_t tokens, int64_t stride,
                      const std::vector<float>& logits, const std::vector<int32_t>& labels,
                      float scale) {
  Reference r;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float* const x = logits.data() + row * stride;
    const int32_t label = labels[row];
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    int64_t first = 0;
    for (int64_t c = 0; c < tokens; ++c) {
      if (x[c] > largest) largest = x[c], first = c;
    }
    for (int64_t c = 0; c < tokens; ++c) sum += std::exp(x[c] - largest);
    for (int64_t c = 0; c < shape.vocabulary; ++c) {
      double g = 0;
      if (label >= 0 && c < tokens) g = std::exp(x[c] - largest) / sum - (c == label ? 1 : 0);
      r.gradient.push_back(static_cast<float>(g * scale));
    }
    const double loss = label >= 0 ? std::log(sum) - (x[label] - largest) : 0;
    r.losses.push_back(static_cast<float>(loss));
    r.correct.push_back(label < 0 ? -1 : first == label ? 1 : 0);
    if (label < 0) continue;
    r.sums.loss += loss;
    r.sums.tokens += 1;
    r.sums.correct += first == label ? 1 : 0;
  }
  return r;
}

class DeviceCrossEntropyTest : public DeviceKernelTest {
 protected:
  enum class Where { kOverLogits, kApart };
  struct Size {
    int64_t rows, vocabulary, tokens;
    // Of logits, in elements.
    int64_t stride = vocabulary;
  };
  void Check(const Size& size, DType logits_type, Where where);
};

void DeviceCrossEntropyTest::Check(const Size& size, DType logits_type, Where where) {
  const auto [rows, vocabulary, tokens, stride] = size;
  SCOPED_TRACE(testing::Message() << rows << " x " << vocabulary << " of " << tokens << " every "
                                  << stride << ", logits " << Name(logits_type));
  const DeviceCrossEntropyShape shape = {
      .rows = rows,
      .vocabulary = vocabulary,
      .tokens = tokens,
      .logits_stride = stride,
      .gradient_stride = where == Where::kOverLogits
                             ? stride * static_cast<int64_t>(SizeOf(logits_type) / SizeOf(type()))
                             : vocabulary};
  std::vector<float> logits = RandomNumbers(logits_type, rows * stride, 1, -8, 8);
  // Padding must not count, whatever it holds.
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = tokens; c < stride; ++c) logits[r * stride + c] = 100;
  }
  std::vector<int32_t> labels(rows);
  for (int64_t r = 0; r < rows; ++r) labels[r] = static_cast<int32_t>(r * 37 % tokens);
  if (rows > 2) labels[2] = -1;
  if (rows > 3) labels[3] = static_cast<int32_t>(tokens - 1), logits[3 * stride + tokens - 1] = 9;
  if (rows > 4 && tokens > 5) {
    // Two are as large: the first counts.
    labels[4] = 5;
    logits[4 * stride + 5] = logits[4 * stride + 2] = 10;
  }
  const float scale = 4;
  const Reference wanted = ReferenceOf(shape, tokens, stride, logits, labels, scale);

  void* const device_logits = Put(logits_type, logits);
  void* const gradient =
      where == Where::kOverLogits ? device_logits : Room(type(), rows * vocabulary);
  float* const losses = Floats(rows);
  auto* const correct = Room<int32_t>(rows * sizeof(int32_t));
  auto* const sums = Copied(std::vector<DeviceHeadSums>{{10, 20, 30}});
  DeviceCrossEntropy(stream(), shape,
                     {.logits_type = logits_type,
                      .logits = device_logits,
                      .labels = Copied(labels),
                      .gradient_type = type(),
                      .gradient = gradient,
                      .gradient_scale = Copied(std::vector<float>{scale}),
                      .losses = losses,
                      .correct = correct,
                      .sums = sums});
  ExpectClose(Read(losses, rows), wanted.losses, 2e-6, 2e-6, "losses");
  EXPECT_EQ(Read(correct, rows), wanted.correct);
  const DeviceHeadSums got = Read(sums, 1)[0];
  EXPECT_NEAR(got.loss, 10 + wanted.sums.loss, 1e-5 * static_cast<double>(rows));
  EXPECT_EQ(got.tokens, 20 + wanted.sums.tokens);
  EXPECT_EQ(got.correct, 30 + wanted.sums.correct);

  const int64_t elements = (rows - 1) * shape.gradient_stride + vocabulary;
  const std::vector<float> all = Get(type(), gradient, elements);
  std::vector<float> rows_of;
  for (int64_t r = 0; r < rows; ++r) {
    const auto begin = all.begin() + r * shape.gradient_stride;
    rows_of.insert(rows_of.end(), begin, begin + vocabulary);
  }
  // Small numbers of f16 have fewer digits.
  const double absolute = type() == DType::kF16 ? 1e-7 : 1e-9;
  ExpectClose(rows_of, wanted.gradient, absolute + 1e-6, RoundingOf(type()) + 4e-6, "gradient");
}

TEST_P(DeviceCrossEntropyTest, MatchesTheDefinition) {
  for (const Size& size : {Size{1, 1, 1},
                           {5, 7, 7},
                           {6, 256, 256},
                           {5, 264, 257},
                           {7, 5003, 5003},
                           {7, 5003, 5003, 5056},
                           {5, 9000, 8970}}) {
    Check(size, DType::kF32, Where::kOverLogits);
    Check(size, type(), Where::kOverLogits);
    Check(size, DType::kF32, Where::kApart);
    if (HasFatalFailure()) return;
  }
}

TEST_P(DeviceCrossEntropyTest, LossAlone) {
  const std::vector<float> logits = {0, 0, 0, 0};
  float* const losses = Floats(1);
  auto* const correct = Room<int32_t>(sizeof(int32_t));
  DeviceCrossEntropy(stream(), {.rows = 1, .vocabulary = 4},
                     {.logits_type = type(),
                      .logits = Put(type(), logits),
                      .labels = Copied(std::vector<int32_t>{0}),
                      .losses = losses,
                      .correct = correct});
  EXPECT_NEAR(Read(losses, 1)[0], std::log(4.0), 1e-6);
  EXPECT_EQ(Read(correct, 1)[0], 1);
}

TEST_P(DeviceCrossEntropyTest, LogitsOfMinusInfinityHaveNoProbability) {
  // Threads that see nothing else, and some that do.
  std::vector<float> logits(1000, -std::numeric_limits<float>::infinity());
  logits[403] = logits[405] = logits[999] = 2;
  float* const losses = Floats(1);
  auto* const correct = Room<int32_t>(sizeof(int32_t));
  DeviceCrossEntropy(stream(), {.rows = 1, .vocabulary = 1000},
                     {.logits_type = type(),
                      .logits = Put(type(), logits),
                      .labels = Copied(std::vector<int32_t>{403}),
                      .losses = losses,
                      .correct = correct});
  EXPECT_NEAR(Read(losses, 1)[0], std::log(3.0), 1e-6);
  EXPECT_EQ(Read(correct, 1)[0], 1);
}

TEST_P(DeviceCrossEntropyTest, ANanMakesTheLossOneAndIsNeverRight) {
  for (const int at : {0, 1, 700}) {
    std::vector<float> logits = RandomNumbers(type(), 1000, 1);
    logits[at] = NAN;
    float* const losses = Floats(1);
    auto* const correct = Room<int32_t>(sizeof(int32_t));
    DeviceCrossEntropy(stream(), {.rows = 1, .vocabulary = 1000},
                       {.logits_type = type(),
                        .logits = Put(type(), logits),
                        .labels = Copied(std::vector<int32_t>{1}),
                        .losses = losses,
                        .correct = correct});
    EXPECT_TRUE(std::isnan(Read(losses, 1)[0])) << at;
    EXPECT_EQ(Read(correct, 1)[0], 0) << at;
  }
}

MUSTER_FOR_STORAGE_TYPES(DeviceCrossEntropyTest);

}  // namespace
}  // namespace muster
