#include "common/compute/device_ops.h"

#include "common/compute/device_ops_scratch.h"
#include "common/kernels/device/attention/device_attention.h"
#include "common/kernels/device/device_activation.h"
#include "common/kernels/device/device_arrays.h"
#include "common/kernels/device/device_cross_entropy.h"
#include "common/kernels/device/device_dropout.h"
#include "common/kernels/device/device_embedding.h"
#include "common/kernels/device/device_head_norm.h"
#include "common/kernels/device/device_norm.h"
#include "common/kernels/device/device_rotary.h"

namespace muster {
namespace {

// Rows of cuBLASLt's saved inputs of GELU must be so many elements, or a multiple.
constexpr int64_t kGeluColumns = 8;

MatmulProblem ForwardOf(const Linear& linear, DType out, bool has_bias) {
  return {.in = linear.type,
          .out = out,
          .transpose_b = Transpose::kYes,
          .m = linear.rows,
          .n = linear.out,
          .k = linear.in,
          .c_stride = linear.out_stride,
          .epilogue = has_bias ? MatmulEpilogue::kBias : MatmulEpilogue::kNone,
          .has_bias = has_bias};
}

MatmulProblem BackwardInputOf(const Linear& linear) {
  return {.in = linear.type,
          .out = linear.type,
          .m = linear.rows,
          .n = linear.in,
          .k = linear.out,
          .a_stride = linear.out_stride};
}

}  // namespace

DeviceOps::DeviceOps(const DeviceOpsOptions& options, DeviceStream& stream, DeviceMatmul& matmul)
    : scratch_(options.scratch, options.scratch_bytes, stream),
      stream_(stream),
      compute_stream_(stream),
      matmul_(matmul),
      experts_(stream, scratch_),
      fuses_gelu_(options.gelu == DeviceOpsOptions::Gelu::kFused) {}

void DeviceOps::Run(const MatmulProblem& problem, const MatmulOperands& operands) {
  stream_.Fail(matmul_.Run(stream_, problem, operands));
}

bool DeviceOps::RunFused(const MatmulProblem& problem, const MatmulOperands& operands,
                         int64_t columns) {
  if (!fuses_gelu_ || problem.in == DType::kF32 || columns % kGeluColumns != 0) return false;
  const absl::Status status = matmul_.Run(stream_, problem, operands);
  fuses_gelu_ = !absl::IsUnimplemented(status);
  if (fuses_gelu_) stream_.Fail(status);
  return fuses_gelu_;
}

void DeviceOps::Zero(int64_t n, float* x) { stream_.Fill(x, 0, n * sizeof(float)); }

void DeviceOps::Convert(int64_t n, DType from, const void* x, DType to, void* y) {
  if (from == to) {
    stream_.CopyOnDevice(y, x, n * SizeOf(to));
  } else {
    DeviceConvert(stream_, n, from, x, to, y);
  }
}

void DeviceOps::ConvertRows(const StridedRows& rows, DType from, const void* x, DType to, void* y) {
  DeviceConvertRows(stream_, rows, from, x, to, y);
}

void DeviceOps::Add(int64_t n, const float* x, float* y) { DeviceAdd(stream_, n, x, y); }

void DeviceOps::Scale(int64_t n, float factor, float* x) { DeviceScale(stream_, n, factor, x); }

void DeviceOps::Embed(const TokenEmbeddingShape& shape, const EmbeddingTokens& tokens,
                      const float* table, const float* positions, float* out) {
  DeviceTokenEmbedding(stream_, shape, tokens.tokens, table, positions, out);
}

void DeviceOps::EmbedBackward(const TokenEmbeddingShape& shape, const EmbeddingTokens& tokens,
                              const float* dout, const EmbeddingGradients& gradients) {
  DeviceTokenEmbeddingBackward(stream_, shape, tokens, dout, gradients);
}

void DeviceOps::Dropout(const OpDropout& dropout, int64_t elements, int64_t size, float* x) {
  DeviceDropoutForward(stream_, dropout, elements, size, x, x);
}

void DeviceOps::Norm(const NormShape& shape, DType type, const OpNormInputs& in,
                     const OpNormOutputs& out) {
  DeviceNorm(stream_, shape, type, in, out);
}

void DeviceOps::NormBackward(const NormShape& shape, DType type, const OpNormBackwardInputs& in,
                             const OpNormGradients& gradients) {
  DeviceNormBackward(stream_, shape, type, in, gradients,
                     scratch_.Floats(DeviceNormBackwardScratch(shape.rows, shape.width)));
}

void DeviceOps::HeadNorm(const HeadNormShape& shape, DType type, const HeadNormArrays& arrays) {
  DeviceHeadNorm(stream_, shape, type, arrays);
}

void DeviceOps::HeadNormBackward(const HeadNormShape& shape, DType type,
                                 const HeadNormGradientArrays& arrays) {
  DeviceHeadNormBackward(stream_, shape, type, arrays,
                         scratch_.Floats(DeviceHeadNormBackwardScratch(shape.rows, shape.width)));
}

void DeviceOps::LinearForward(const Linear& linear, const LinearForwardArrays& arrays) {
  const bool rounded = arrays.result == LinearForwardArrays::Result::kRounded;
  Run(ForwardOf(linear, rounded ? linear.type : DType::kF32, arrays.bias != nullptr),
      {.a = arrays.x, .b = arrays.weight, .c = arrays.y, .bias = arrays.bias});
}

void DeviceOps::LinearBackwardInput(const Linear& linear, const void* dy, const void* weight,
                                    void* dx) {
  Run(BackwardInputOf(linear), {.a = dy, .b = weight, .c = dx});
}

void DeviceOps::LinearBackwardWeights(const Linear& linear, const LinearGradientArrays& arrays) {
  if (arrays.bias != nullptr) {
    if (arrays.accumulation == Accumulation::kWrite) Zero(linear.out, arrays.bias);
    const int64_t stride = linear.out_stride != 0 ? linear.out_stride : linear.out;
    DeviceAddRowSums(stream_, linear.type, linear.rows, linear.out, stride, arrays.dy, arrays.bias,
                     scratch_.Floats(DeviceRowSumsScratch(linear.rows, linear.out)));
  }
  Run({.in = linear.type,
       .out = DType::kF32,
       .transpose_a = Transpose::kYes,
       .m = linear.out,
       .n = linear.in,
       .k = linear.rows,
       .a_stride = linear.out_stride,
       .accumulation = arrays.accumulation},
      {.a = arrays.dy, .b = arrays.x, .c = arrays.weight});
}

void DeviceOps::LinearGelu(const Linear& linear, const LinearGeluArrays& arrays) {
  MatmulProblem problem = ForwardOf(linear, linear.type, arrays.bias != nullptr);
  problem.epilogue = MatmulEpilogue::kGelu;
  if (RunFused(problem,
               {.a = arrays.x,
                .b = arrays.weight,
                .c = arrays.after,
                .bias = arrays.bias,
                .aux = arrays.before},
               linear.out)) {
    return;
  }
  LinearForward(linear,
                {.x = arrays.x, .weight = arrays.weight, .bias = arrays.bias, .y = arrays.before});
  Gelu(linear.type, linear.rows * linear.out, arrays.before, arrays.after);
}

void DeviceOps::LinearGeluBackwardInput(const Linear& linear,
                                        const LinearGeluGradientArrays& arrays) {
  MatmulProblem problem = BackwardInputOf(linear);
  problem.epilogue = MatmulEpilogue::kGeluGradient;
  if (RunFused(problem,
               {.a = arrays.dy,
                .b = arrays.weight,
                .c = arrays.dbefore,
                .aux = const_cast<void*>(arrays.before)},
               linear.in)) {
    return;
  }
  LinearBackwardInput(linear, arrays.dy, arrays.weight, arrays.dbefore);
  DeviceGeluBackward(stream_, linear.type, linear.rows * linear.in, arrays.before, arrays.dbefore,
                     arrays.dbefore);
}

void DeviceOps::Gelu(DType type, int64_t n, const void* x, void* y) {
  DeviceGelu(stream_, type, n, x, y);
}

void DeviceOps::SwiGlu(DType type, int64_t rows, int64_t F, const void* gate_up, void* y) {
  DeviceSwiGlu(stream_, type, rows, F, gate_up, y);
}

void DeviceOps::SwiGluBackward(DType type, int64_t rows, int64_t F, const void* gate_up,
                               const void* dy, void* d_gate_up) {
  DeviceSwiGluBackward(stream_, type, rows, F, gate_up, dy, d_gate_up);
}

void DeviceOps::Rotary(const RotaryShape& shape, DType type, const float* table, void* x) {
  DeviceRotary(stream_, shape, type, table, x);
}

void DeviceOps::RotaryBackward(const RotaryShape& shape, DType type, const float* table, void* dx) {
  DeviceRotaryBackward(stream_, shape, type, table, dx);
}

void DeviceOps::Attention(const AttentionShape& shape, DType type, const AttentionArrays& arrays) {
  DeviceAttention(stream_, shape, type, arrays.qkv, arrays.out, arrays.logsumexp, arrays.dropout);
}

void DeviceOps::AttentionBackward(const AttentionShape& shape, DType type,
                                  const AttentionGradientArrays& arrays) {
  DeviceAttentionBackward(
      stream_, shape, type, arrays.qkv, arrays.out, arrays.logsumexp, arrays.dout, arrays.dqkv,
      scratch_.Floats(DeviceAttentionBackwardScratch(shape.B * shape.T, shape.H)), arrays.dropout);
}

void DeviceOps::AttentionOfPart(const AttentionShape& shape, const AttentionPart& part, DType type,
                                const AttentionPartArrays& arrays) {
  DeviceAttentionOfPart(stream_, shape, part, type, arrays);
}

void DeviceOps::AttentionDelta(const AttentionShape& shape, int64_t rows, DType type,
                               const void* out, const void* dout, float* delta) {
  DeviceAttentionDelta(stream_, shape, rows, type, out, dout, delta);
}

void DeviceOps::AttentionPartBackward(const AttentionShape& shape, const AttentionPart& part,
                                      DType type, const AttentionPartGradientArrays& arrays) {
  DeviceAttentionPartBackward(stream_, shape, part, type, arrays);
}

void DeviceOps::CrossEntropy(const CrossEntropyShape& shape, DType type,
                             const CrossEntropyArrays& arrays) {
  DeviceCrossEntropy(stream_, shape, type, arrays, Losses(shape.rows));
}

void DeviceOps::SoftmaxParts(const VocabularyShareShape& shape, const float* logits,
                             const int32_t* labels, SoftmaxPart* parts) {
  DeviceSoftmaxParts(stream_, shape, logits, labels, parts);
}

void DeviceOps::CrossEntropyOfParts(const VocabularyShareShape& shape, DType type,
                                    const VocabularyShareArrays& arrays) {
  DeviceCrossEntropyOfParts(stream_, shape, type, arrays, Losses(shape.columns.rows));
}

RowLosses DeviceOps::Losses(int64_t rows) {
  static_assert(kDeviceLossScratch == 2 * sizeof(float));
  float* const losses = scratch_.Floats(2 * rows);
  return {losses, reinterpret_cast<int32_t*>(losses + rows)};
}

}  // namespace muster
