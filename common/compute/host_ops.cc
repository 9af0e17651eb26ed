#include "common/compute/host_ops.h"

#include <cstring>
#include <type_traits>

#include "absl/types/optional.h"
#include "common/compute/with_type.h"
#include "common/kernels/gemm/gemm.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/kernels/transformer/activation.h"
#include "common/kernels/transformer/convert.h"
#include "common/kernels/transformer/cross_entropy_rows.h"

namespace muster {
namespace {

template <typename T>
const T* In(const void* array) {
  return static_cast<const T*>(array);
}
template <typename T>
T* Out(void* array) {
  return static_cast<T*>(array);
}

// Returns nullopt where nothing is dropped.
absl::optional<DropoutMask> MaskOf(const OpDropout& dropout) {
  if (dropout.clock == nullptr) return absl::nullopt;
  DropoutMask mask(/*seed=*/0, /*name=*/"", dropout.clock->clock, /*probability=*/0);
  mask.key = dropout.key;
  mask.threshold = dropout.threshold;
  mask.scale = dropout.scale;
  return mask;
}

uint64_t FirstExample(const OpDropout& dropout) {
  return dropout.clock == nullptr ? 0 : dropout.clock->first_example;
}

DropoutShape ShapeOf(const OpDropout& dropout, int64_t elements, int64_t size) {
  return {.elements = elements,
          .size = size,
          .first_example = FirstExample(dropout),
          .first_element = dropout.first_element,
          .share = dropout.share};
}

// Returns the shape of a norm's branch.
DropoutShape BranchShape(const NormShape& shape, const OpDropout& dropout,
                         int64_t rows_per_example) {
  return ShapeOf(dropout, shape.rows * shape.width, rows_per_example * shape.width);
}

AttentionDropout ProbabilitiesDropout(const OpDropout& dropout,
                                      const absl::optional<DropoutMask>& mask) {
  return {.mask = mask.has_value() ? &*mask : nullptr,
          .first_example = FirstExample(dropout),
          .first_head = dropout.first_head,
          .heads = dropout.heads};
}

LogitsShape LogitsOf(const CrossEntropyShape& shape) {
  return {.rows = shape.rows,
          .vocabulary = shape.tokens,
          .columns = shape.vocabulary,
          .terms = shape.terms};
}

float ScaleOf(const CrossEntropyArrays& arrays) {
  return arrays.gradient_scale != nullptr ? *arrays.gradient_scale : 1;
}

// The elements of T from one row of the logits' gradient to the next.
template <typename T>
int64_t GradientStride(const CrossEntropyShape& shape) {
  return shape.logits_stride * static_cast<int64_t>(sizeof(float) / sizeof(T));
}

// `sums` may be null.
void AddSums(const HeadSums& added, HeadSums* sums) {
  if (sums == nullptr) return;
  sums->loss += added.loss;
  sums->tokens += added.tokens;
  sums->correct += added.correct;
}

}  // namespace

void HostOps::Zero(int64_t n, float* x) { SetToZero(n, x); }

void HostOps::Convert(int64_t n, DType from, const void* x, DType to, void* y) {
  if (from == to) {
    std::memcpy(y, x, n * SizeOf(to));
    return;
  }
  WithType(from == DType::kF32 ? to : from, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, float>) {
      if (from == DType::kF32) {
        muster::Convert(n, In<float>(x), Out<T>(y));
      } else {
        muster::Convert(n, In<T>(x), Out<float>(y));
      }
    }
  });
}

void HostOps::ConvertRows(const StridedRows& rows, DType from, const void* x, DType to, void* y) {
  if (from == to) {
    const auto size = static_cast<int64_t>(SizeOf(to));
    muster::CopyRows(rows.rows, rows.columns * size, x, rows.from_stride * size, y,
                     rows.to_stride * size);
    return;
  }
  WithType(from == DType::kF32 ? to : from, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, float>) {
      if (from == DType::kF32) {
        muster::ConvertRows(rows.rows, rows.columns, In<float>(x), rows.from_stride, Out<T>(y),
                            rows.to_stride);
      } else {
        muster::ConvertRows(rows.rows, rows.columns, In<T>(x), rows.from_stride, Out<float>(y),
                            rows.to_stride);
      }
    }
  });
}

void HostOps::Add(int64_t n, const float* x, float* y) { muster::Add(n, x, y); }

void HostOps::Scale(int64_t n, float factor, float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void HostOps::Embed(const TokenEmbeddingShape& shape, const EmbeddingTokens& tokens,
                    const float* table, const float* positions, float* out) {
  TokenEmbedding(shape, tokens.tokens, table, positions, out);
}

void HostOps::EmbedBackward(const TokenEmbeddingShape& shape, const EmbeddingTokens& tokens,
                            const float* dout, const EmbeddingGradients& gradients) {
  TokenEmbeddingBackward(shape, tokens.tokens, dout, gradients.table, gradients.positions);
}

void HostOps::Dropout(const OpDropout& dropout, int64_t elements, int64_t size, float* x) {
  muster::Dropout(*MaskOf(dropout), ShapeOf(dropout, elements, size), x, x);
}

void HostOps::Norm(const NormShape& shape, DType type, const OpNormInputs& in,
                   const OpNormOutputs& out) {
  const absl::optional<DropoutMask> mask = MaskOf(in.dropout);
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    NormInputs<T> inputs;
    inputs.x = in.x;
    inputs.branch = In<T>(in.branch);
    if (in.branch != nullptr && mask.has_value()) inputs.mask = &*mask;
    inputs.dropout = BranchShape(shape, in.dropout, in.rows_per_example);
    inputs.gain = in.gain;
    inputs.bias = in.bias;
    muster::Norm<T>(shape, inputs,
                    {.sum = out.sum, .out = Out<T>(out.out), .mean = out.mean, .rstd = out.rstd});
  });
}

void HostOps::NormBackward(const NormShape& shape, DType type, const OpNormBackwardInputs& in,
                           const OpNormGradients& gradients) {
  const absl::optional<DropoutMask> mask = MaskOf(in.dropout);
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    NormBackwardInputs<T> inputs;
    inputs.sum = in.sum;
    inputs.gain = in.gain;
    inputs.mean = in.mean;
    inputs.rstd = in.rstd;
    inputs.dout = In<T>(in.dout);
    inputs.dsum = in.dsum;
    if (mask.has_value()) inputs.mask = &*mask;
    inputs.dropout = BranchShape(shape, in.dropout, in.rows_per_example);
    muster::NormBackward<T>(shape, inputs,
                            {.dx = gradients.dx,
                             .dbranch = Out<T>(gradients.dbranch),
                             .gain = gradients.gain,
                             .bias = gradients.bias});
  });
}

void HostOps::HeadNorm(const HeadNormShape& shape, DType type, const HeadNormArrays& arrays) {
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    muster::HeadNorm<T>(shape, arrays.gain, Out<T>(arrays.x), Out<T>(arrays.kept));
  });
}

void HostOps::HeadNormBackward(const HeadNormShape& shape, DType type,
                               const HeadNormGradientArrays& arrays) {
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    muster::HeadNormBackward<T>(shape, In<T>(arrays.kept), arrays.gain, Out<T>(arrays.dx),
                                arrays.gain_gradient);
  });
}

void HostOps::LinearForward(const Linear& linear, const LinearForwardArrays& arrays) {
  const GemmOptions options = {.transpose_b = Transpose::kYes,
                               .c_stride = linear.out_stride,
                               .bias = In<float>(arrays.bias)};
  WithType(linear.type, [&](auto zero) {
    using T = decltype(zero);
    if (arrays.result == LinearForwardArrays::Result::kF32) {
      Gemm(linear.rows, linear.out, linear.in, In<T>(arrays.x), In<T>(arrays.weight),
           Out<float>(arrays.y), options);
    } else {
      Gemm(linear.rows, linear.out, linear.in, In<T>(arrays.x), In<T>(arrays.weight),
           Out<T>(arrays.y), options);
    }
  });
}

void HostOps::LinearBackwardInput(const Linear& linear, const void* dy, const void* weight,
                                  void* dx) {
  WithType(linear.type, [&](auto zero) {
    using T = decltype(zero);
    Gemm(linear.rows, linear.in, linear.out, In<T>(dy), In<T>(weight), Out<T>(dx),
         {.a_stride = linear.out_stride});
  });
}

void HostOps::LinearBackwardWeights(const Linear& linear, const LinearGradientArrays& arrays) {
  const bool write_bias = arrays.bias != nullptr && arrays.accumulation == Accumulation::kWrite;
  if (write_bias) SetToZero(linear.out, arrays.bias);
  WithType(linear.type, [&](auto zero) {
    using T = decltype(zero);
    // The product itself writes: 0 + (-0) is not -0.
    if (arrays.weight != nullptr) {
      Gemm(linear.out, linear.in, linear.rows, In<T>(arrays.dy), In<T>(arrays.x), arrays.weight,
           {.transpose_a = Transpose::kYes,
            .a_stride = linear.out_stride,
            .accumulation = arrays.accumulation});
    }
    if (arrays.bias == nullptr) return;
    const int64_t stride = linear.out_stride != 0 ? linear.out_stride : linear.out;
    AddRowSums(linear.rows, linear.out, stride, In<T>(arrays.dy), arrays.bias);
  });
}

void HostOps::LinearGelu(const Linear& linear, const LinearGeluArrays& arrays) {
  LinearForward(linear,
                {.x = arrays.x, .weight = arrays.weight, .bias = arrays.bias, .y = arrays.before});
  Gelu(linear.type, linear.rows * linear.out, arrays.before, arrays.after);
}

void HostOps::LinearGeluBackwardInput(const Linear& linear,
                                      const LinearGeluGradientArrays& arrays) {
  LinearBackwardInput(linear, arrays.dy, arrays.weight, arrays.dbefore);
  WithType(linear.type, [&](auto zero) {
    using T = decltype(zero);
    GeluBackward(linear.rows * linear.in, In<T>(arrays.before), In<T>(arrays.dbefore),
                 Out<T>(arrays.dbefore));
  });
}

void HostOps::Gelu(DType type, int64_t n, const void* x, void* y) {
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    muster::Gelu(n, In<T>(x), Out<T>(y));
  });
}

void HostOps::SwiGlu(DType type, int64_t rows, int64_t F, const void* gate_up, void* y) {
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    muster::SwiGlu(rows, F, In<T>(gate_up), Out<T>(y));
  });
}

void HostOps::SwiGluBackward(DType type, int64_t rows, int64_t F, const void* gate_up,
                             const void* dy, void* d_gate_up) {
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    muster::SwiGluBackward(rows, F, In<T>(gate_up), In<T>(dy), Out<T>(d_gate_up));
  });
}

void HostOps::Rotary(const RotaryShape& shape, DType type, const float* table, void* x) {
  WithType(type, [&](auto zero) { muster::Rotary(shape, table, Out<decltype(zero)>(x)); });
}

void HostOps::RotaryBackward(const RotaryShape& shape, DType type, const float* table, void* dx) {
  WithType(type, [&](auto zero) { muster::RotaryBackward(shape, table, Out<decltype(zero)>(dx)); });
}

void HostOps::Attention(const AttentionShape& shape, DType type, const AttentionArrays& arrays) {
  const absl::optional<DropoutMask> mask = MaskOf(arrays.dropout);
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    muster::Attention(shape, In<T>(arrays.qkv), Out<T>(arrays.out), arrays.logsumexp,
                      ProbabilitiesDropout(arrays.dropout, mask));
  });
}

void HostOps::AttentionBackward(const AttentionShape& shape, DType type,
                                const AttentionGradientArrays& arrays) {
  const absl::optional<DropoutMask> mask = MaskOf(arrays.dropout);
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    muster::AttentionBackward(shape, In<T>(arrays.qkv), In<T>(arrays.out), arrays.logsumexp,
                              In<T>(arrays.dout), Out<T>(arrays.dqkv),
                              ProbabilitiesDropout(arrays.dropout, mask));
  });
}

void HostOps::AttentionOfPart(const AttentionShape& shape, const AttentionPart& part, DType type,
                              const AttentionPartArrays& arrays) {
  const absl::optional<DropoutMask> mask = MaskOf(arrays.dropout);
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    muster::AttentionOfPart(shape, part, In<T>(arrays.queries), In<T>(arrays.keys_values),
                            arrays.accumulation, arrays.out, arrays.logsumexp,
                            ProbabilitiesDropout(arrays.dropout, mask));
  });
}

void HostOps::AttentionDelta(const AttentionShape& shape, int64_t rows, DType type, const void* out,
                             const void* dout, float* delta) {
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    muster::AttentionDelta(shape, rows, In<T>(out), In<T>(dout), delta);
  });
}

void HostOps::AttentionPartBackward(const AttentionShape& shape, const AttentionPart& part,
                                    DType type, const AttentionPartGradientArrays& arrays) {
  const absl::optional<DropoutMask> mask = MaskOf(arrays.dropout);
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    muster::AttentionPartBackward<T>(shape, part,
                                     {.queries = In<T>(arrays.queries),
                                      .keys_values = In<T>(arrays.keys_values),
                                      .logsumexp = arrays.logsumexp,
                                      .delta = arrays.delta,
                                      .dout = In<T>(arrays.dout),
                                      .dqueries = arrays.dqueries,
                                      .dkeys_values = arrays.dkeys_values},
                                     ProbabilitiesDropout(arrays.dropout, mask));
  });
}

void HostOps::CrossEntropy(const CrossEntropyShape& shape, DType type,
                           const CrossEntropyArrays& arrays) {
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    AddSums(SoftmaxCrossEntropyRows(LogitsOf(shape), arrays.logits, arrays.labels, ScaleOf(arrays),
                                    Out<T>(arrays.gradient), GradientStride<T>(shape)),
            arrays.sums);
  });
}

void HostOps::SoftmaxParts(const VocabularyShareShape& shape, const float* logits,
                           const int32_t* labels, SoftmaxPart* parts) {
  muster::SoftmaxParts({LogitsOf(shape.columns), shape.first_token}, logits, labels, parts);
}

void HostOps::CrossEntropyOfParts(const VocabularyShareShape& shape, DType type,
                                  const VocabularyShareArrays& arrays) {
  const CrossEntropyArrays& columns = arrays.columns;
  WithType(type, [&](auto zero) {
    using T = decltype(zero);
    AddSums(
        muster::CrossEntropyOfParts({LogitsOf(shape.columns), shape.first_token}, arrays.ranks,
                                    arrays.parts, columns.logits, columns.labels, ScaleOf(columns),
                                    Out<T>(columns.gradient), GradientStride<T>(shape.columns)),
        columns.sums);
  });
}

}  // namespace muster
