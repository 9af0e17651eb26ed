#include "worker/device/device_transformer.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/compute/activation_layout.h"
#include "common/kernels/device/device_activation.h"
#include "common/kernels/device/device_arrays.h"
#include "common/kernels/device/device_attention.h"
#include "common/kernels/device/device_cross_entropy.h"
#include "common/kernels/device/device_embedding.h"
#include "common/kernels/device/device_rotary.h"
#include "common/plan/device_memory_layout.h"

namespace muster {
namespace {

// Rows of cuBLASLt's saved inputs of GELU must be so many elements, or a multiple.
constexpr int64_t kGeluColumns = 8;

// The names that key dropout are those of the CPU's layers.
constexpr char kEmbeddingDropout[] = "embedding";
std::string Probabilities(int64_t layer) { return absl::StrCat("block", layer, ".probabilities"); }
std::string AttentionBranch(int64_t layer) { return absl::StrCat("block", layer, ".attention"); }
std::string FeedForwardBranch(int64_t layer) {
  return absl::StrCat("block", layer, ".feed_forward");
}

AttentionShape AttentionOf(const TransformerShape& shape, const TokenRows& rows) {
  AttentionShape attention;
  attention.B = rows.sequences;
  attention.T = rows.length;
  attention.H = shape.heads;
  attention.KV = shape.kv_heads;
  attention.D = shape.head_dim();
  return attention;
}

RotaryShape RotaryOf(const TransformerShape& shape, const TokenRows& rows) {
  RotaryShape rotary;
  rotary.rows = rows.count();
  rotary.context = rows.length;
  rotary.heads = shape.heads + shape.kv_heads;
  rotary.head_dim = shape.head_dim();
  rotary.stride = shape.qkv_width();
  return rotary;
}

void* At(void* array, DType type, int64_t element) {
  return static_cast<std::byte*>(array) + element * SizeOf(type);
}

}  // namespace

DeviceTransformer::DeviceTransformer(const TransformerShape& shape,
                                     const DeviceParameters& parameters,
                                     const DeviceComputeOptions& options,
                                     const DeviceMemoryPlan& plan, uint64_t seed,
                                     DeviceMatmul& matmul)
    : shape_(shape),
      parameters_(parameters),
      options_(options),
      state_(plan.state),
      batch_(plan.batch),
      rotary_(plan.rotary),
      arrays_(plan.arrays),
      scratch_(plan.scratch),
      seed_(seed),
      matmul_(matmul) {}

DeviceTransformer::Linear DeviceTransformer::Qkv(int64_t layer) const {
  return {parameters_.tensors().blocks[layer].qkv, shape_.width, shape_.qkv_width()};
}
DeviceTransformer::Linear DeviceTransformer::Proj(int64_t layer) const {
  return {parameters_.tensors().blocks[layer].proj, shape_.width, shape_.width};
}
DeviceTransformer::Linear DeviceTransformer::Up(int64_t layer) const {
  return {parameters_.tensors().blocks[layer].up, shape_.width, shape_.up_width()};
}
DeviceTransformer::Linear DeviceTransformer::Down(int64_t layer) const {
  return {parameters_.tensors().blocks[layer].down, shape_.feed_forward, shape_.width};
}

const void* DeviceTransformer::MatrixOf(int tensor) const {
  const int64_t offset = static_cast<int64_t>(parameters_.offset(tensor));
  if (options_.type == DType::kF32) return state_.weights + offset;
  return At(state_.rounded, options_.type, offset);
}
const void* DeviceTransformer::BiasOf(int tensor) const {
  return tensor == kNoTensor ? nullptr : MatrixOf(tensor);
}
const float* DeviceTransformer::VectorOf(int tensor) const {
  return tensor == kNoTensor ? nullptr : state_.weights + parameters_.offset(tensor);
}
float* DeviceTransformer::GradientOf(int tensor) const {
  return tensor == kNoTensor ? nullptr : state_.gradients + parameters_.offset(tensor);
}

bool DeviceTransformer::FusesGelu() const {
  return options_.fuse_gelu && gelu_can_be_fused_ && options_.type != DType::kF32 &&
         shape_.activation == TransformerShape::Activation::kGelu &&
         shape_.feed_forward % kGeluColumns == 0;
}

DeviceDropout DeviceTransformer::DropoutOf(const std::string& name, float probability,
                                           Pass pass) const {
  if (probability == 0 || pass == Pass::kEvaluation) return {};
  return DropoutOnDevice(DropoutMask(seed_, name, /*clock=*/0, probability), batch_.clock);
}

DeviceDropout DeviceTransformer::DropoutOf(const std::string& name, Pass pass) const {
  return DropoutOf(name, shape_.dropout, pass);
}

NormShape DeviceTransformer::NormOf(int64_t rows) const {
  return {.kind = shape_.norm == TransformerShape::Norm::kRmsNorm ? NormKind::kRmsNorm
                                                                  : NormKind::kLayerNorm,
          .rows = rows,
          .width = shape_.width,
          .epsilon = shape_.norm_epsilon};
}

void DeviceTransformer::Norm(DeviceStream& stream, const TokenRows& rows,
                             const LayerTensors& tensors, const float* in, const void* branch,
                             const DeviceDropout& dropout, const NormActivations& kept,
                             void* out) const {
  DeviceNormInputs inputs;
  inputs.x = in;
  inputs.branch = branch;
  if (branch != nullptr) inputs.dropout = dropout;
  inputs.rows_per_example = rows.length;
  inputs.gain = VectorOf(tensors.weight);
  inputs.bias = VectorOf(tensors.bias);
  DeviceNormOutputs outputs;
  outputs.sum = branch == nullptr ? nullptr : kept.sum;
  outputs.out = out;
  outputs.mean = kept.mean;
  outputs.rstd = kept.rstd;
  DeviceNorm(stream, NormOf(rows.count()), options_.type, inputs, outputs);
}

bool DeviceTransformer::StreamIsBranch() const {
  return options_.type == DType::kF32 && shape_.dropout == 0;
}

const void* DeviceTransformer::BranchGradient() const {
  return StreamIsBranch() ? arrays_.stream_gradient : arrays_.scratch.branch;
}

// From arrays_.scratch.branch, the gradient of the norm's output.
void DeviceTransformer::NormBackward(DeviceStream& stream, const TokenRows& rows,
                                     const LayerTensors& tensors, const DeviceDropout& dropout,
                                     const NormActivations& kept, Upstream upstream) const {
  DeviceNormBackwardInputs inputs;
  inputs.sum = kept.sum;
  inputs.gain = VectorOf(tensors.weight);
  inputs.mean = kept.mean;
  inputs.rstd = kept.rstd;
  inputs.dout = arrays_.scratch.branch;
  inputs.dsum = upstream == Upstream::kStream ? arrays_.stream_gradient : nullptr;
  inputs.dropout = dropout;
  inputs.rows_per_example = rows.length;
  DeviceNormGradients gradients;
  gradients.dx = arrays_.stream_gradient;
  gradients.dbranch = StreamIsBranch() ? nullptr : arrays_.scratch.branch;
  gradients.gain = GradientOf(tensors.weight);
  gradients.bias = GradientOf(tensors.bias);
  DeviceNormBackward(stream, NormOf(rows.count()), options_.type, inputs, gradients, scratch_.norm);
}

absl::Status DeviceTransformer::LinearForward(DeviceStream& stream, const Linear& linear,
                                              int64_t rows, const void* x, void* y) {
  const void* bias = BiasOf(linear.tensors.bias);
  return matmul_.Run(stream,
                     {.in = options_.type,
                      .out = options_.type,
                      .transpose_b = Transpose::kYes,
                      .m = rows,
                      .n = linear.out,
                      .k = linear.in,
                      .epilogue = bias == nullptr ? MatmulEpilogue::kNone : MatmulEpilogue::kBias,
                      .has_bias = bias != nullptr},
                     {.a = x, .b = MatrixOf(linear.tensors.weight), .c = y, .bias = bias});
}

absl::Status DeviceTransformer::WeightGradient(DeviceStream& stream, const Linear& linear,
                                               int64_t rows, const void* dy, const void* x) {
  if (linear.tensors.bias != kNoTensor) {
    DeviceAddRowSums(stream, options_.type, rows, linear.out, linear.out, dy,
                     GradientOf(linear.tensors.bias), scratch_.row_sums);
  }
  return matmul_.Run(stream,
                     {.in = options_.type,
                      .out = DType::kF32,
                      .transpose_a = Transpose::kYes,
                      .m = linear.out,
                      .n = linear.in,
                      .k = rows,
                      .accumulation = Accumulation::kAdd},
                     {.a = dy, .b = x, .c = GradientOf(linear.tensors.weight)});
}

absl::Status DeviceTransformer::LinearBackward(DeviceStream& stream, const Linear& linear,
                                               int64_t rows, const void* dy, const void* x,
                                               void* dx) {
  MUSTER_RETURN_IF_ERROR(WeightGradient(stream, linear, rows, dy, x));
  return matmul_.Run(
      stream,
      {.in = options_.type, .out = options_.type, .m = rows, .n = linear.in, .k = linear.out},
      {.a = dy, .b = MatrixOf(linear.tensors.weight), .c = dx});
}

TokenEmbeddingShape DeviceTransformer::EmbeddingOf(const TokenRows& rows) const {
  TokenEmbeddingShape embedding;
  embedding.rows = rows.count();
  embedding.context = rows.length;
  embedding.width = shape_.width;
  embedding.vocabulary = shape_.vocabulary_rows();
  return embedding;
}

void DeviceTransformer::Embed(DeviceStream& stream, const TokenRows& rows, Pass pass) const {
  const TransformerTensors& tensors = parameters_.tensors();
  float* out = arrays_.blocks[0].norm1.sum;
  DeviceTokenEmbedding(stream, EmbeddingOf(rows), DType::kF32, batch_.tokens,
                       VectorOf(tensors.embedding), VectorOf(tensors.positions), out);
  const DeviceDropout dropout = DropoutOf(kEmbeddingDropout, pass);
  if (dropout.clock == nullptr) return;
  DeviceDropoutForward(stream, DType::kF32, dropout, rows.sequences, rows.length * shape_.width,
                       out, out);
}

void DeviceTransformer::EmbedBackward(DeviceStream& stream, const TokenRows& rows) const {
  const TransformerTensors& tensors = parameters_.tensors();
  float* gradient = arrays_.stream_gradient;
  const DeviceDropout dropout = DropoutOf(kEmbeddingDropout, Pass::kTraining);
  if (dropout.clock != nullptr) {
    DeviceDropoutForward(stream, DType::kF32, dropout, rows.sequences, rows.length * shape_.width,
                         gradient, gradient);
  }
  DeviceTokenEmbeddingBackward(stream, EmbeddingOf(rows), batch_.token_order, gradient,
                               GradientOf(tensors.embedding), GradientOf(tensors.positions));
}

absl::Status DeviceTransformer::ComputeQkv(DeviceStream& stream, const TokenRows& rows,
                                           int64_t layer) {
  const BlockActivations& block = arrays_.blocks[layer];
  MUSTER_RETURN_IF_ERROR(
      LinearForward(stream, Qkv(layer), rows.count(), block.norm1_out, block.qkv));
  if (rotary_ != nullptr) {
    DeviceRotary(stream, RotaryOf(shape_, rows), options_.type, rotary_, block.qkv);
  }
  return absl::OkStatus();
}

void DeviceTransformer::Attend(DeviceStream& stream, const TokenRows& rows, int64_t layer,
                               Pass pass) {
  const BlockActivations& block = arrays_.blocks[layer];
  DeviceAttention(stream, AttentionOf(shape_, rows), options_.type, block.qkv, block.attention,
                  block.logsumexp, DropoutOf(Probabilities(layer), shape_.attention_dropout, pass));
}

// What comes before the activation function, and that.
absl::Status DeviceTransformer::ComputeUp(DeviceStream& stream, const TokenRows& rows,
                                          int64_t layer) {
  const BlockActivations& block = arrays_.blocks[layer];
  const Linear up = Up(layer);
  if (FusesGelu()) {
    const void* bias = BiasOf(up.tensors.bias);
    const absl::Status status = matmul_.Run(stream,
                                            {.in = options_.type,
                                             .out = options_.type,
                                             .transpose_b = Transpose::kYes,
                                             .m = rows.count(),
                                             .n = up.out,
                                             .k = up.in,
                                             .epilogue = MatmulEpilogue::kGelu,
                                             .has_bias = bias != nullptr},
                                            {.a = block.norm2_out,
                                             .b = MatrixOf(up.tensors.weight),
                                             .c = block.activated,
                                             .bias = bias,
                                             .aux = block.up});
    if (!absl::IsUnimplemented(status)) return status;
    gelu_can_be_fused_ = false;
  }
  MUSTER_RETURN_IF_ERROR(LinearForward(stream, up, rows.count(), block.norm2_out, block.up));
  Activate(stream, rows, layer);
  return absl::OkStatus();
}

void DeviceTransformer::Activate(DeviceStream& stream, const TokenRows& rows, int64_t layer) {
  const BlockActivations& block = arrays_.blocks[layer];
  if (shape_.activation == TransformerShape::Activation::kSwiGlu) {
    DeviceSwiGlu(stream, options_.type, rows.count(), shape_.feed_forward, block.up,
                 block.activated);
  } else {
    DeviceGelu(stream, options_.type, rows.count() * shape_.feed_forward, block.up,
               block.activated);
  }
}

absl::Status DeviceTransformer::ForwardBlock(DeviceStream& stream, const TokenRows& rows,
                                             int64_t layer, Pass pass) {
  const BlockTensors& tensors = parameters_.tensors().blocks[layer];
  const BlockActivations& block = arrays_.blocks[layer];
  const int64_t N = rows.count();
  if (layer == 0) {
    Norm(stream, rows, tensors.norm1, block.norm1.sum, nullptr, {}, block.norm1, block.norm1_out);
  } else {
    Norm(stream, rows, tensors.norm1, arrays_.blocks[layer - 1].norm2.sum, arrays_.scratch.branch,
         DropoutOf(FeedForwardBranch(layer - 1), pass), block.norm1, block.norm1_out);
  }
  MUSTER_RETURN_IF_ERROR(ComputeQkv(stream, rows, layer));
  Attend(stream, rows, layer, pass);
  MUSTER_RETURN_IF_ERROR(
      LinearForward(stream, Proj(layer), N, block.attention, arrays_.scratch.branch));
  Norm(stream, rows, tensors.norm2, block.norm1.sum, arrays_.scratch.branch,
       DropoutOf(AttentionBranch(layer), pass), block.norm2, block.norm2_out);
  MUSTER_RETURN_IF_ERROR(ComputeUp(stream, rows, layer));
  return LinearForward(stream, Down(layer), N, block.activated, arrays_.scratch.branch);
}

absl::Status DeviceTransformer::ForwardHead(DeviceStream& stream, const TokenRows& rows,
                                            Pass pass) {
  const TransformerTensors& tensors = parameters_.tensors();
  const bool training = pass == Pass::kTraining;
  Norm(stream, rows, tensors.norm, arrays_.blocks.back().norm2.sum, arrays_.scratch.branch,
       DropoutOf(FeedForwardBranch(shape_.layers - 1), pass), arrays_.head.norm,
       arrays_.head.norm_out);
  const int64_t C = shape_.width;
  const int64_t V = shape_.vocabulary_rows();
  const int64_t R = arrays_.head.logit_rows;
  const DType type = options_.type;
  const int64_t stride = static_cast<int64_t>(kOnDevice.LogitsStride(V));
  // A row of the gradient begins where its logits do.
  const int64_t gradient_stride =
      stride * static_cast<int64_t>(SizeOf(options_.logits) / SizeOf(type));
  for (int64_t first = 0; first < rows.count(); first += R) {
    const int64_t count = std::min(R, rows.count() - first);
    const void* in = At(arrays_.head.norm_out, type, first * C);
    MUSTER_RETURN_IF_ERROR(
        matmul_.Run(stream,
                    {.in = type,
                     .out = options_.logits,
                     .transpose_b = Transpose::kYes,
                     .m = count,
                     .n = V,
                     .k = C,
                     .c_stride = stride},
                    {.a = in, .b = MatrixOf(tensors.head), .c = arrays_.head.logits}));
    DeviceCrossEntropyArrays loss;
    loss.logits_type = options_.logits;
    loss.logits = arrays_.head.logits;
    loss.labels = batch_.labels + first;
    loss.gradient_type = type;
    loss.gradient = training ? arrays_.head.logits : nullptr;
    loss.gradient_scale = state_.loss_scale;
    loss.losses = scratch_.losses;
    loss.correct = scratch_.correct;
    loss.sums = training ? state_.sums : state_.evaluation_sums;
    DeviceCrossEntropy(stream,
                       {.rows = count,
                        .vocabulary = V,
                        .tokens = shape_.vocabulary,
                        .logits_stride = stride,
                        .gradient_stride = gradient_stride},
                       loss);
    if (!training) continue;
    MUSTER_RETURN_IF_ERROR(
        matmul_.Run(stream,
                    {.in = type,
                     .out = DType::kF32,
                     .transpose_a = Transpose::kYes,
                     .m = V,
                     .n = C,
                     .k = count,
                     .a_stride = gradient_stride,
                     .accumulation = Accumulation::kAdd},
                    {.a = arrays_.head.logits, .b = in, .c = GradientOf(tensors.head)}));
    MUSTER_RETURN_IF_ERROR(matmul_.Run(
        stream, {.in = type, .out = type, .m = count, .n = C, .k = V, .a_stride = gradient_stride},
        {.a = arrays_.head.logits,
         .b = MatrixOf(tensors.head),
         .c = At(arrays_.scratch.branch, type, first * C)}));
  }
  return absl::OkStatus();
}

absl::Status DeviceTransformer::Forward(DeviceStream& stream, const TokenRows& rows, Pass pass) {
  Embed(stream, rows, pass);
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    MUSTER_RETURN_IF_ERROR(ForwardBlock(stream, rows, layer, pass));
  }
  return ForwardHead(stream, rows, pass);
}

// Makes what recomputation left out again, to the same bits (with a fused GELU: nearly).
absl::Status DeviceTransformer::Again(DeviceStream& stream, const TokenRows& rows, int64_t layer) {
  if (options_.recompute == Recompute::kNone) return absl::OkStatus();
  const bool full = options_.recompute == Recompute::kFull;
  const BlockTensors& tensors = parameters_.tensors().blocks[layer];
  const BlockActivations& block = arrays_.blocks[layer];
  Norm(stream, rows, tensors.norm1, block.norm1.sum, nullptr, {}, block.norm1, block.norm1_out);
  if (full) MUSTER_RETURN_IF_ERROR(ComputeQkv(stream, rows, layer));
  Attend(stream, rows, layer, Pass::kTraining);
  if (full) {
    // Not arrays_.scratch.branch, which holds a gradient by now.
    MUSTER_RETURN_IF_ERROR(
        LinearForward(stream, Proj(layer), rows.count(), block.attention, arrays_.scratch.inner));
    Norm(stream, rows, tensors.norm2, block.norm1.sum, arrays_.scratch.inner,
         DropoutOf(AttentionBranch(layer), Pass::kTraining), block.norm2, block.norm2_out);
    return ComputeUp(stream, rows, layer);
  }
  Norm(stream, rows, tensors.norm2, block.norm2.sum, nullptr, {}, block.norm2, block.norm2_out);
  Activate(stream, rows, layer);
  return absl::OkStatus();
}

// From the gradient of what comes after the activation function, in arrays_.scratch.inner, or with
// a fused GELU from the branch's: that of what comes before it.
absl::StatusOr<const void*> DeviceTransformer::ActivationGradient(DeviceStream& stream,
                                                                  const TokenRows& rows,
                                                                  int64_t layer) {
  const BlockActivations& block = arrays_.blocks[layer];
  const int64_t N = rows.count();
  const int64_t F = shape_.feed_forward;
  MatmulProblem problem = {
      .in = options_.type, .out = options_.type, .m = N, .n = F, .k = shape_.width};
  MatmulOperands operands = {
      .a = BranchGradient(), .b = MatrixOf(Down(layer).tensors.weight), .c = arrays_.scratch.inner};
  if (FusesGelu()) {
    problem.epilogue = MatmulEpilogue::kGeluGradient;
    operands.aux = block.up;
    const absl::Status status = matmul_.Run(stream, problem, operands);
    if (status.ok()) return arrays_.scratch.inner;
    if (!absl::IsUnimplemented(status)) return status;
    gelu_can_be_fused_ = false;
    problem.epilogue = MatmulEpilogue::kNone;
    operands.aux = nullptr;
  }
  MUSTER_RETURN_IF_ERROR(matmul_.Run(stream, problem, operands));
  if (shape_.activation == TransformerShape::Activation::kSwiGlu) {
    DeviceSwiGluBackward(stream, options_.type, N, F, block.up, arrays_.scratch.inner,
                         arrays_.scratch.wide);
    return arrays_.scratch.wide;
  }
  DeviceGeluBackward(stream, options_.type, N * F, block.up, arrays_.scratch.inner,
                     arrays_.scratch.inner);
  return arrays_.scratch.inner;
}

absl::Status DeviceTransformer::BackwardFeedForward(DeviceStream& stream, const TokenRows& rows,
                                                    int64_t layer) {
  const BlockActivations& block = arrays_.blocks[layer];
  const int64_t N = rows.count();
  MUSTER_RETURN_IF_ERROR(WeightGradient(stream, Down(layer), N, BranchGradient(), block.activated));
  MUSTER_ASSIGN_OR_RETURN(const void* gradient, ActivationGradient(stream, rows, layer));
  return LinearBackward(stream, Up(layer), N, gradient, block.norm2_out, arrays_.scratch.branch);
}

absl::Status DeviceTransformer::BackwardAttention(DeviceStream& stream, const TokenRows& rows,
                                                  int64_t layer) {
  const BlockActivations& block = arrays_.blocks[layer];
  const int64_t N = rows.count();
  MUSTER_RETURN_IF_ERROR(LinearBackward(stream, Proj(layer), N, BranchGradient(), block.attention,
                                        arrays_.scratch.inner));
  DeviceAttentionBackward(
      stream, AttentionOf(shape_, rows), options_.type, block.qkv, block.attention, block.logsumexp,
      arrays_.scratch.inner, arrays_.scratch.wide, scratch_.attention,
      DropoutOf(Probabilities(layer), shape_.attention_dropout, Pass::kTraining));
  if (rotary_ != nullptr) {
    DeviceRotaryBackward(stream, RotaryOf(shape_, rows), options_.type, rotary_,
                         arrays_.scratch.wide);
  }
  return LinearBackward(stream, Qkv(layer), N, arrays_.scratch.wide, block.norm1_out,
                        arrays_.scratch.branch);
}

absl::Status DeviceTransformer::BackwardBlock(DeviceStream& stream, const TokenRows& rows,
                                              int64_t layer) {
  const BlockTensors& tensors = parameters_.tensors().blocks[layer];
  const BlockActivations& block = arrays_.blocks[layer];
  MUSTER_RETURN_IF_ERROR(Again(stream, rows, layer));
  MUSTER_RETURN_IF_ERROR(BackwardFeedForward(stream, rows, layer));
  NormBackward(stream, rows, tensors.norm2, DropoutOf(AttentionBranch(layer), Pass::kTraining),
               block.norm2, Upstream::kStream);
  MUSTER_RETURN_IF_ERROR(BackwardAttention(stream, rows, layer));
  NormBackward(
      stream, rows, tensors.norm1,
      layer == 0 ? DeviceDropout() : DropoutOf(FeedForwardBranch(layer - 1), Pass::kTraining),
      block.norm1, Upstream::kStream);
  return absl::OkStatus();
}

absl::Status DeviceTransformer::Backward(DeviceStream& stream, const TokenRows& rows, int unit) {
  if (unit == 0) {
    EmbedBackward(stream, rows);
    return absl::OkStatus();
  }
  if (unit <= shape_.layers) return BackwardBlock(stream, rows, unit - 1);
  NormBackward(stream, rows, parameters_.tensors().norm,
               DropoutOf(FeedForwardBranch(shape_.layers - 1), Pass::kTraining), arrays_.head.norm,
               Upstream::kNone);
  return absl::OkStatus();
}

}  // namespace muster
