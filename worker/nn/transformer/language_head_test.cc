// The head by logits of 1 row, of 7 and of all against its definition in f64, in every type; and
// against itself, to the bit, where the products are such that no order of summing matters.

#include "worker/nn/transformer/language_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/compute/host_ops.h"
#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/transformer/residual_norm.h"

namespace muster {
namespace {

// What the parameters' gradients hold before: little, so that it hides nothing that is added.
constexpr float kBefore = 1.0f / 1024;

struct Case {
  int64_t sequences, length, width, vocabulary, padded_vocabulary;
  TransformerShape::Norm norm;
};
const Case kCases[] = {{1, 1, 3, 2, 0, TransformerShape::Norm::kLayerNorm},
                       {1, 5, 4, 7, 8, TransformerShape::Norm::kRmsNorm},
                       {3, 11, 20, 257, 272, TransformerShape::Norm::kLayerNorm},
                       {2, 20, 8, 5000, 5120, TransformerShape::Norm::kRmsNorm}};

template <typename T>
struct Inputs {
  TransformerShape shape;
  TokenRows rows;
  std::vector<float> stream;  // [N, C]
  std::vector<T> branch;      // [N, C]
  std::vector<float> gain;    // [C]
  std::vector<float> bias;    // [C]; empty: none
  std::vector<T> head;        // [V, C], rows of padding included
  std::vector<int32_t> labels;
};

// The same in f64, for the definition.
struct Exact {
  std::vector<double> x;  // [N, C]: the stream and the branch
  std::vector<double> gain, bias, head;
};

template <typename T>
Exact ExactOf(const Inputs<T>& in) {
  Exact exact = {.x = Doubles(in.stream),
                 .gain = Doubles(in.gain),
                 .bias = Doubles(in.bias),
                 .head = Doubles(in.head)};
  for (size_t i = 0; i < exact.x.size(); ++i) exact.x[i] += ToFloat(in.branch[i]);
  return exact;
}

// The norm of one token, [C] each: n = (x - mean) · rstd and out = n · gain + bias.
struct NormRow {
  std::vector<double> n, out;
  double mean = 0, rstd = 0;
};

NormRow NormOf(const TransformerShape& shape, const Exact& exact, int64_t r) {
  const int64_t C = shape.width;
  const double* x = exact.x.data() + r * C;
  NormRow row;
  if (shape.norm == TransformerShape::Norm::kLayerNorm) {
    for (int64_t c = 0; c < C; ++c) row.mean += x[c] / C;
  }
  double variance = 0;
  for (int64_t c = 0; c < C; ++c) variance += (x[c] - row.mean) * (x[c] - row.mean) / C;
  row.rstd = 1 / std::sqrt(variance + shape.norm_epsilon);
  for (int64_t c = 0; c < C; ++c) {
    row.n.push_back((x[c] - row.mean) * row.rstd);
    row.out.push_back(row.n[c] * exact.gain[c] + (exact.bias.empty() ? 0 : exact.bias[c]));
  }
  return row;
}

// [vocabulary] of one token, from norm_out's row h [C].
std::vector<double> LogitsOf(const TransformerShape& shape, const Exact& exact, const double* h) {
  const int64_t C = shape.width;
  std::vector<double> logits(shape.vocabulary);
  for (int64_t v = 0; v < shape.vocabulary; ++v) {
    for (int64_t c = 0; c < C; ++c) logits[v] += h[c] * exact.head[v * C + c];
  }
  return logits;
}

int32_t FirstLargest(const std::vector<double>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double SumOfExp(const std::vector<double>& logits) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  return sum;
}

double LossOf(const TransformerShape& shape, const std::vector<int32_t>& labels,
              const Exact& exact) {
  double loss = 0;
  for (size_t r = 0; r < labels.size(); ++r) {
    if (labels[r] < 0) continue;
    const std::vector<double> logits = LogitsOf(shape, exact, NormOf(shape, exact, r).out.data());
    loss += std::log(SumOfExp(logits)) - logits[labels[r]];
  }
  return loss;
}

// Every fourth token has no label, and every fourth that which the model finds likeliest.
template <typename T>
Inputs<T> InputsOf(const Case& c) {
  Inputs<T> in;
  in.shape.layers = 1;
  in.shape.width = c.width;
  in.shape.vocabulary = c.vocabulary;
  in.shape.padded_vocabulary = c.padded_vocabulary;
  in.shape.norm = c.norm;
  in.rows = {.sequences = c.sequences, .length = c.length};
  const int64_t N = in.rows.count();
  in.stream = RandomArray(N * c.width, 1);
  in.branch = RandomArray<T>(N * c.width, 2);
  in.gain = RandomArray(c.width, 3, 0.5f, 1.5f);
  if (c.norm == TransformerShape::Norm::kLayerNorm) in.bias = RandomArray(c.width, 4);
  in.head = RandomArray<T>(in.shape.vocabulary_rows() * c.width, 5);
  const Exact exact = ExactOf(in);
  for (int64_t r = 0; r < N; ++r) {
    int32_t label = static_cast<int32_t>(r * 31 % c.vocabulary);
    if (r % 4 == 1) {
      label = FirstLargest(LogitsOf(in.shape, exact, NormOf(in.shape, exact, r).out.data()));
    }
    if (r % 4 == 3) label = -1;
    in.labels.push_back(label);
  }
  return in;
}

template <typename T>
struct Results {
  HeadSums sums;
  std::vector<T> norm_out;    // [N, C]
  std::vector<float> logits;  // [R, V]
  // With regard to the stream and the branch that come in, [N, C] each, and to the parameters.
  std::vector<float> stream;
  std::vector<T> branch;
  std::vector<float> gain, bias, head;
};

template <typename T>
constexpr DType kDType = std::is_same_v<T, BFloat16>  ? DType::kBf16
                         : std::is_same_v<T, Float16> ? DType::kF16
                                                      : DType::kF32;

// Of an evaluation or of training.
template <typename T>
Results<T> ResultsOf(const Inputs<T>& in, int64_t logit_rows, const LayerContext& layer_context) {
  constexpr float kGuard = 12345;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  HostOps ops;
  const ComputeContext context = {.ops = ops,
                                  .type = kDType<T>,
                                  .rows = in.rows,
                                  .pass = layer_context.pass,
                                  .loss_scale = &layer_context.loss_scale,
                                  .gradients = layer_context.gradients};
  const LanguageHead layer(in.shape, in.shape.vocabulary);
  const int64_t N = in.rows.count(), C = in.shape.width, V = in.shape.vocabulary_rows();
  Results<T> results;
  results.norm_out.resize(N * C);
  // No more than R rows of logits may be written.
  results.logits.assign(std::min(logit_rows, N) * V + 1, kGuard);
  results.stream.assign(N * C, nan);
  const float before = context.gradients == Accumulation::kAdd ? kBefore : nan;
  results.gain.assign(C, before);
  results.bias.assign(in.bias.size(), before);
  results.head.assign(V * C, before);
  std::vector<T> branch_gradient(N * C, Rounded<T>(nan));
  std::vector<float> sum(N * C), mean(N), rstd(N);
  const LanguageHeadWeights weights = {
      .norm = {in.gain.data(), in.bias.empty() ? nullptr : in.bias.data()}, .head = in.head.data()};
  const LanguageHeadActivations activations = {.norm = {sum.data(), mean.data(), rstd.data()},
                                               .norm_out = results.norm_out.data(),
                                               .logits = results.logits.data(),
                                               .logit_rows = logit_rows};
  const ResidualStream stream = {in.stream.data(), in.branch.data()};
  const LanguageHeadLoss loss = {in.labels.data(), &results.sums};
  if (context.pass == Pass::kEvaluation) {
    layer.Forward(context, weights, stream, loss, activations, /*block=*/nullptr);
  } else {
    const LayerGradients norm = {results.gain.data(),
                                 in.bias.empty() ? nullptr : results.bias.data()};
    layer.ForwardBackward(context, weights, stream, loss, activations, /*block=*/nullptr,
                          {.stream = results.stream.data(),
                           .branch = branch_gradient.data(),
                           .norm = norm,
                           .head = results.head.data()});
    const auto* branch = static_cast<const T*>(ResidualNorm::BranchGradient(
        context, in.shape, results.stream.data(), branch_gradient.data()));
    results.branch.assign(branch, branch + N * C);
  }
  EXPECT_EQ(results.logits.back(), kGuard);
  return results;
}

// Sums in f64. `size` sums the terms' magnitudes: what the error of a sum of rounded terms, in
// whatever order, is in proportion to.
struct Sums {
  explicit Sums(int64_t n, double before = 0) : value(n, before), size(n, before) {}

  void Add(int64_t i, double term, double magnitude) {
    value[i] += term;
    size[i] += magnitude;
  }

  std::vector<double> value, size;
};

struct Definition {
  double loss = 0;
  int64_t tokens = 0, correct = 0;
  Sums stream, gain, bias, head;
};

// `norm_out` is the head's own, so that its rounding to T is no error of what follows. Gradients of
// parameters begin at `before`.
template <typename T>
Definition DefinitionOf(const Inputs<T>& in, const std::vector<T>& norm_out, double loss_scale,
                        double before = kBefore) {
  // Smaller numbers have the rounding errors of this one in f16.
  constexpr double kSmallestNormal = 1.0 / (1 << 14);
  const int64_t N = in.rows.count(), C = in.shape.width, V = in.shape.vocabulary;
  const std::vector<double> h = Doubles(norm_out);
  const Exact exact = ExactOf(in);
  Definition d = {.stream = Sums(N * C),
                  .gain = Sums(C, before),
                  .bias = Sums(in.bias.empty() ? 0 : C, before),
                  .head = Sums(in.shape.vocabulary_rows() * C, before)};
  for (int64_t r = 0; r < N; ++r) {
    const int32_t label = in.labels[r];
    if (label < 0) continue;
    const double* hr = h.data() + r * C;
    const std::vector<double> logits = LogitsOf(in.shape, exact, hr);
    const double sum = SumOfExp(logits);
    d.loss += std::log(sum) - logits[label];
    ++d.tokens;
    if (FirstLargest(logits) == label) ++d.correct;
    // With regard to norm_out.
    Sums dy(C);
    for (int64_t v = 0; v < V; ++v) {
      const double p = std::exp(logits[v]) / sum;
      const double one = v == label ? 1 : 0;
      const double term = loss_scale * (p - one);
      const double size = loss_scale * (p + one) + kSmallestNormal;
      for (int64_t c = 0; c < C; ++c) {
        const double w = exact.head[v * C + c];
        d.head.Add(v * C + c, term * hr[c], size * std::abs(hr[c]));
        dy.Add(c, term * w, size * std::abs(w));
      }
    }
    const NormRow norm = NormOf(in.shape, exact, r);
    // Of n, whose terms are x and the mean.
    std::vector<double> n_size(C);
    double g_mean = 0, g_size = 0, gn_mean = 0, gn_size = 0;
    for (int64_t c = 0; c < C; ++c) {
      n_size[c] = (std::abs(exact.x[r * C + c]) + std::abs(norm.mean)) * norm.rstd;
      d.gain.Add(c, dy.value[c] * norm.n[c], dy.size[c] * n_size[c]);
      if (!in.bias.empty()) d.bias.Add(c, dy.value[c], dy.size[c]);
      g_mean += exact.gain[c] * dy.value[c] / C;
      g_size += exact.gain[c] * dy.size[c] / C;
      gn_mean += exact.gain[c] * dy.value[c] * norm.n[c] / C;
      gn_size += exact.gain[c] * dy.size[c] * n_size[c] / C;
    }
    if (in.shape.norm == TransformerShape::Norm::kRmsNorm) g_mean = g_size = 0;
    for (int64_t c = 0; c < C; ++c) {
      d.stream.Add(r * C + c,
                   norm.rstd * (exact.gain[c] * dy.value[c] - g_mean - norm.n[c] * gn_mean),
                   norm.rstd * (exact.gain[c] * dy.size[c] + g_size + n_size[c] * gn_size));
    }
  }
  return d;
}

template <typename E>
void ExpectSums(const std::vector<E>& got, const Sums& wanted, double relative,
                const std::string& what) {
  ASSERT_EQ(got.size(), wanted.value.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(ToFloat(got[i]) - wanted.value[i]), relative * wanted.size[i])
        << what << "[" << i << "]: " << ToFloat(got[i]) << " for " << wanted.value[i];
  }
}

template <typename T>
void ExpectSameBits(const Results<T>& got, const Results<T>& wanted) {
  EXPECT_EQ(Doubles(got.norm_out), Doubles(wanted.norm_out));
  EXPECT_EQ(got.stream, wanted.stream);
  EXPECT_EQ(Doubles(got.branch), Doubles(wanted.branch));
  EXPECT_EQ(got.gain, wanted.gain);
  EXPECT_EQ(got.bias, wanted.bias);
}

template <typename T>
class LanguageHeadTest : public testing::Test {
 protected:
  void TearDown() override { SetComputeThreads(1); }
};
TYPED_TEST_SUITE(LanguageHeadTest, KernelTypes);

TYPED_TEST(LanguageHeadTest, IsItsDefinitionWithAnyLogitRows) {
  using T = TypeParam;
  // Two roundings to T lie between the logits and a gradient: of their gradient and of norm_out's.
  // 1e-5 is for sums in f32, of up to 5,000 terms.
  const double relative = 2 * kRounding<T> + 1e-5;
  for (const Case& c : kCases) {
    const Inputs<T> in = InputsOf<T>(c);
    const int64_t N = in.rows.count();
    for (const float loss_scale : {1.0f, 256.0f}) {
      for (const auto& [threads, accumulation] :
           {std::pair(1, Accumulation::kAdd), std::pair(2, Accumulation::kAdd),
            std::pair(1, Accumulation::kWrite)}) {
        SCOPED_TRACE(testing::Message()
                     << "vocabulary " << c.vocabulary << ", loss scale " << loss_scale
                     << ", threads " << threads
                     << (accumulation == Accumulation::kWrite ? ", written" : ""));
        SetComputeThreads(threads);
        const LayerContext context = {.loss_scale = loss_scale, .gradients = accumulation};
        const Results<T> whole = ResultsOf(in, N, context);
        const Definition wanted = DefinitionOf(in, whole.norm_out, loss_scale,
                                               accumulation == Accumulation::kAdd ? kBefore : 0);
        for (const int64_t logit_rows : {int64_t{1}, int64_t{7}, N, N + 100}) {
          SCOPED_TRACE(testing::Message() << logit_rows << " rows");
          const Results<T> got = ResultsOf(in, logit_rows, context);
          EXPECT_NEAR(got.sums.loss, wanted.loss, 2e-6 * (1 + wanted.loss));
          EXPECT_EQ(got.sums.tokens, wanted.tokens);
          EXPECT_EQ(got.sums.correct, wanted.correct);
          ExpectSums(got.head, wanted.head, relative, "head");
          ExpectSums(got.gain, wanted.gain, relative, "gain");
          ExpectSums(got.bias, wanted.bias, relative, "bias");
          ExpectSums(got.stream, wanted.stream, relative, "stream");
          ExpectSums(got.branch, wanted.stream, relative + kRounding<T>, "branch");
          if (logit_rows < N) continue;
          ExpectSameBits(got, whole);
          EXPECT_EQ(got.head, whole.head);
          EXPECT_EQ(got.sums.loss, whole.sums.loss);
        }
      }
    }
  }
}

// With one weight of the head in each of its rows and at most one in each of its columns, every
// logit and every element of norm_out's gradient is a single product, however many rows are
// multiplied at a time. So all bits must be those of all rows at once, but for two sums over rows:
// the loss, and the head's gradient in f32.
TYPED_TEST(LanguageHeadTest, SingleProductsHaveTheSameBitsWithAnyLogitRows) {
  using T = TypeParam;
  Inputs<T> in = InputsOf<T>({3, 11, 20, 13, 16, TransformerShape::Norm::kLayerNorm});
  const int64_t N = in.rows.count(), C = in.shape.width, V = in.shape.vocabulary_rows();
  const std::vector<T> weights = RandomArray<T>(V, 6, 0.5f, 2);
  std::fill(in.head.begin(), in.head.end(), T{});
  for (int64_t v = 0; v < V; ++v) in.head[v * C + 7 * v % C] = weights[v];
  for (const float loss_scale : {1.0f, 256.0f}) {
    const LayerContext context = {.loss_scale = loss_scale};
    const Results<T> whole = ResultsOf(in, N, context);
    const Definition definition = DefinitionOf(in, whole.norm_out, loss_scale);
    for (const int64_t logit_rows : {1, 7}) {
      SCOPED_TRACE(testing::Message() << "loss scale " << loss_scale << ", " << logit_rows);
      const Results<T> got = ResultsOf(in, logit_rows, context);
      ExpectSameBits(got, whole);
      EXPECT_EQ(got.sums.tokens, whole.sums.tokens);
      EXPECT_EQ(got.sums.correct, whole.sums.correct);
      EXPECT_NEAR(got.sums.loss, whole.sums.loss, 1e-13 * whole.sums.loss);
      // N additions, each rounded, in either of two orders.
      const double relative = 2 * (N + 1) * kRounding<float>;
      for (int64_t i = 0; i < V * C; ++i) {
        ASSERT_NEAR(got.head[i], whole.head[i], relative * definition.head.size[i]) << i;
      }
    }
  }
}

// Makes the head's gradients by single operations: the last rows of logits first, which write the
// gradient of the head's matrix where the others add to it. `norm_out` is the head's own.
template <typename T>
Results<T> ByOperations(const Inputs<T>& in, int64_t R, const LayerContext& layer_context,
                        std::vector<T> norm_out) {
  HostOps ops;
  const DType type = kDType<T>;
  const int64_t N = in.rows.count(), C = in.shape.width, V = in.shape.vocabulary_rows();
  Results<T> results;
  results.head.resize(V * C);
  std::vector<T> dout(N * C);
  std::vector<float> logits(R * V);
  Accumulation accumulation = Accumulation::kWrite;
  for (int64_t first = (N - 1) / R * R; first >= 0; first -= R) {
    const Linear to_f32 = {
        .type = type, .rows = std::min(R, N - first), .in = C, .out = V, .out_stride = V};
    Linear linear = to_f32;
    linear.out_stride = V * static_cast<int64_t>(sizeof(float) / sizeof(T));
    ops.LinearForward(to_f32, {.x = norm_out.data() + first * C,
                               .weight = in.head.data(),
                               .result = LinearForwardArrays::Result::kF32,
                               .y = logits.data()});
    ops.CrossEntropy(
        {.rows = linear.rows, .vocabulary = V, .tokens = in.shape.vocabulary, .logits_stride = V},
        type,
        {.logits = logits.data(),
         .labels = in.labels.data() + first,
         .gradient = logits.data(),
         .gradient_scale = &layer_context.loss_scale,
         .sums = &results.sums});
    ops.LinearBackwardWeights(linear, {.dy = logits.data(),
                                       .x = norm_out.data() + first * C,
                                       .accumulation = accumulation,
                                       .weight = results.head.data()});
    accumulation = Accumulation::kAdd;
    ops.LinearBackwardInput(linear, logits.data(), in.head.data(), dout.data() + first * C);
  }
  // The norm again, for its statistics.
  const ResidualNorm norm(in.shape, "branch");
  const ComputeContext context = {
      .ops = ops, .type = type, .rows = in.rows, .gradients = Accumulation::kWrite};
  const float* const bias = in.bias.empty() ? nullptr : in.bias.data();
  std::vector<float> sum(N * C), mean(N), rstd(N);
  const NormActivations kept = {sum.data(), mean.data(), rstd.data()};
  norm.Forward(context, {in.gain.data(), bias}, {in.stream.data(), in.branch.data()}, kept,
               norm_out.data());
  results.stream.resize(N * C);
  results.gain.resize(C);
  results.bias.resize(in.bias.size());
  norm.Backward(context, {in.gain.data(), bias}, kept, ResidualNorm::Upstream::kNone,
                results.stream.data(), dout.data(),
                {results.gain.data(), in.bias.empty() ? nullptr : results.bias.data()});
  results.norm_out = std::move(norm_out);
  const auto* branch = static_cast<const T*>(
      ResidualNorm::BranchGradient(context, in.shape, results.stream.data(), dout.data()));
  results.branch.assign(branch, branch + N * C);
  return results;
}

// The last part's loss and gradients come first and the others' are added, in this order: golden
// bits depend on it.
TYPED_TEST(LanguageHeadTest, ThreeParts) {
  using T = TypeParam;
  for (const float loss_scale : {1.0f, 256.0f}) {
    const Inputs<T> in = InputsOf<T>(kCases[2]);
    const LayerContext context = {.loss_scale = loss_scale, .gradients = Accumulation::kWrite};
    const int64_t R = 14;  // of 33: 14, 14 and 5
    const Results<T> got = ResultsOf(in, R, context);
    const Results<T> wanted = ByOperations(in, R, context, got.norm_out);
    ExpectSameBits(got, wanted);
    EXPECT_EQ(got.head, wanted.head);
    EXPECT_EQ(got.sums.tokens, wanted.sums.tokens);
    EXPECT_EQ(got.sums.correct, wanted.sums.correct);
    EXPECT_EQ(got.sums.loss, wanted.sums.loss);
  }
}

TYPED_TEST(LanguageHeadTest, AnEvaluationCountsTheSameAndKeepsTheLastLogits) {
  using T = TypeParam;
  const Inputs<T> in = InputsOf<T>(kCases[2]);
  const int64_t N = in.rows.count(), C = in.shape.width, V = in.shape.vocabulary_rows();
  for (const int64_t logit_rows : {int64_t{1}, int64_t{7}, N}) {
    const Results<T> training = ResultsOf(in, logit_rows, {});
    const Results<T> evaluation = ResultsOf(in, logit_rows, {.pass = Pass::kEvaluation});
    // Of several parts, training adds the last one first.
    const double slack = logit_rows < N ? 1e-13 * training.sums.loss : 0;
    EXPECT_NEAR(evaluation.sums.loss, training.sums.loss, slack);
    EXPECT_EQ(evaluation.sums.tokens, training.sums.tokens);
    EXPECT_EQ(evaluation.sums.correct, training.sums.correct);
    const int64_t first = (N - 1) / logit_rows * logit_rows;
    for (int64_t r = first; r < N; ++r) {
      for (int64_t v = 0; v < V; ++v) {
        double wanted = 0;
        for (int64_t c = 0; c < C; ++c) {
          wanted += double{ToFloat(evaluation.norm_out[r * C + c])} * ToFloat(in.head[v * C + c]);
        }
        ASSERT_NEAR(evaluation.logits[(r - first) * V + v], wanted, 1e-5) << r << ", " << v;
      }
    }
  }
}

// Expects `got` and `definition`, which began at `before`, to be the differences of the loss in f64
// along `part`; at some of its elements.
void ExpectSlopes(const Inputs<float>& in, float loss_scale, std::vector<double> Exact::*part,
                  const std::vector<float>& got, const Sums& definition, double before,
                  const std::string& what) {
  const Exact exact = ExactOf(in);
  const auto loss = [&](const std::vector<double>& values) {
    Exact changed = exact;
    changed.*part = values;
    return LossOf(in.shape, in.labels, changed);
  };
  ASSERT_EQ(got.size(), (exact.*part).size()) << what;
  for (size_t i = 0; i < got.size(); i += got.size() / 10 + 1) {
    const double slope = loss_scale * Difference(loss, exact.*part, i);
    // What differences of a loss of some hundreds are off by; and sums in f32, from which the
    // definition has norm_out.
    const double limit = 5e-8 * loss_scale + 1e-5 * definition.size[i];
    ASSERT_NEAR(got[i] - before, slope, limit) << what << "[" << i << "]";
    ASSERT_NEAR(definition.value[i] - before, slope, limit) << what << "[" << i << "]";
  }
}

TEST(LanguageHeadSlopesTest, GradientsAreTheSlopesOfTheLoss) {
  for (const Case& c : kCases) {
    const Inputs<float> in = InputsOf<float>(c);
    for (const float loss_scale : {1.0f, 256.0f}) {
      SCOPED_TRACE(testing::Message() << c.vocabulary << ", loss scale " << loss_scale);
      const Results<float> got = ResultsOf(in, 7, {.loss_scale = loss_scale});
      const Definition definition = DefinitionOf(in, got.norm_out, loss_scale);
      ExpectSlopes(in, loss_scale, &Exact::x, got.stream, definition.stream, 0, "stream");
      ExpectSlopes(in, loss_scale, &Exact::gain, got.gain, definition.gain, kBefore, "gain");
      ExpectSlopes(in, loss_scale, &Exact::bias, got.bias, definition.bias, kBefore, "bias");
      ExpectSlopes(in, loss_scale, &Exact::head, got.head, definition.head, kBefore, "head");
    }
  }
}

}  // namespace
}  // namespace muster
