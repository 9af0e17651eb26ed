#include "worker/models/transformer_decoder.h"

#include <algorithm>
#include <cstdlib>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/transformer/activation.h"
#include "common/kernels/transformer/attention.h"
#include "common/kernels/transformer/rotary.h"
#include "common/kernels/transformer/token_embedding.h"
#include "worker/nn/transformer/compute_context.h"

namespace muster {
namespace {

// Bounds the memory of a long prompt.
constexpr int64_t kRowsAtOnce = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<TransformerDecoder>> TransformerDecoder::Create(
    const TransformerShape& shape, ParameterSpans parameters) {
  const TransformerTensors tensors = MakeTransformerTensors(shape);
  if (parameters.size() != tensors.specs.size()) {
    return absl::InvalidArgumentError(absl::StrCat(parameters.size(), " tensors are given, the ",
                                                   "transformer has ", tensors.specs.size()));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const TensorSpec& spec = tensors.specs[i];
    if (!spec.tied_to.empty() || static_cast<int64_t>(parameters[i].size()) == spec.elements()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("tensor ", spec.name, " has ",
                                                   parameters[i].size(), " elements, but takes ",
                                                   spec.elements()));
  }
  auto decoder = absl::WrapUnique(new TransformerDecoder(shape, parameters));
  if (decoder->cache_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there is no memory for the keys and values of ", decoder->context(),
                     " tokens in ", shape.layers, " layers"));
  }
  return decoder;
}

TransformerDecoder::TransformerDecoder(const TransformerShape& shape, ParameterSpans parameters)
    : shape_(shape),
      tensors_(MakeTransformerTensors(shape)),
      // In an evaluation, names of branches are of no matter: nothing is dropped.
      norm_(shape, ""),
      parameters_(parameters.begin(), parameters.end()),
      capacity_(std::min(shape.context, kMostTokens)),
      // Zero pages, of which only those are taken that tokens come to.
      cache_(static_cast<float*>(std::calloc(
          shape.layers * 2 * shape.kv_heads * capacity_ * shape.head_dim(), sizeof(float)))),
      logits_(shape.vocabulary) {
  if (shape.tied_head) parameters_[tensors_.head] = parameters_[tensors_.embedding];
  if (shape.positions == TransformerShape::Positions::kRotary) {
    rotary_table_.resize(capacity_ * shape.head_dim());
    FillRotaryTable(capacity_, shape.head_dim(), shape.rotary_base, rotary_table_.data());
  }
  const int64_t N = std::min(kRowsAtOnce, capacity_);
  const int64_t C = shape.width;
  arena_.Begin();
  const size_t stream = arena_.Reserve<float>(N * C);
  const size_t normal = arena_.Reserve<float>(N * C);
  const size_t wide = arena_.Reserve<float>(N * std::max(shape.qkv_width(), shape.up_width()));
  const size_t inner = arena_.Reserve<float>(N * std::max(shape.feed_forward, C));
  const size_t branch = arena_.Reserve<float>(N * C);
  const size_t mean = arena_.Reserve<float>(N);
  const size_t rstd = arena_.Reserve<float>(N);
  arena_.Commit();
  rows_ = {.stream = arena_.At<float>(stream),
           .normal = arena_.At<float>(normal),
           .wide = arena_.At<float>(wide),
           .inner = arena_.At<float>(inner),
           .branch = arena_.At<float>(branch),
           .mean = arena_.At<float>(mean),
           .rstd = arena_.At<float>(rstd)};
}

const float* TransformerDecoder::Get(int tensor) const {
  return tensor == kNoTensor ? nullptr : parameters_[tensor].data();
}

void TransformerDecoder::Multiply(const LayerTensors& layer, int64_t rows, int64_t in, int64_t out,
                                  const float* x, float* y) {
  ops_.LinearForward({.rows = rows, .in = in, .out = out},
                     {.x = x, .weight = Get(layer.weight), .bias = Get(layer.bias), .y = y});
}

void TransformerDecoder::Normalise(const LayerTensors& norm, int64_t count, const float* branch) {
  const ComputeContext context = {
      .ops = ops_, .rows = {.sequences = 1, .length = count}, .pass = Pass::kEvaluation};
  norm_.Forward(context, {Get(norm.weight), Get(norm.bias)}, {rows_.stream, branch},
                {rows_.stream, rows_.mean, rows_.rstd}, rows_.normal);
}

void TransformerDecoder::Attend(int64_t layer, int64_t count) {
  const BlockTensors& block = tensors_.blocks[layer];
  const int64_t C = shape_.width;
  Multiply(block.qkv, count, C, shape_.qkv_width(), rows_.normal, rows_.wide);
  AttentionShape attention;
  attention.B = 1;
  attention.T = count;
  attention.H = shape_.heads;
  attention.KV = shape_.kv_heads;
  attention.D = shape_.head_dim();
  if (!rotary_table_.empty()) {
    RotaryShape rotary;
    rotary.rows = count;
    rotary.context = count;
    rotary.first_position = position_;
    rotary.heads = shape_.heads + shape_.kv_heads;
    rotary.head_dim = shape_.head_dim();
    rotary.stride = shape_.qkv_width();
    Rotary<float>(rotary, rotary_table_.data(), rows_.wide);
  }
  const int64_t layer_size = shape_.kv_heads * capacity_ * shape_.head_dim();
  KeyValueCache<float> cache;
  cache.keys = cache_.get() + 2 * layer * layer_size;
  cache.values = cache.keys + layer_size;
  cache.capacity = capacity_;
  AppendKeyValues<float>(attention, position_, rows_.wide, cache);
  CachedAttention<float>(attention, position_, rows_.wide, cache, rows_.inner);
  Multiply(block.proj, count, C, C, rows_.inner, rows_.branch);
}

void TransformerDecoder::FeedForward(int64_t layer, int64_t count) {
  const BlockTensors& block = tensors_.blocks[layer];
  const int64_t C = shape_.width;
  const int64_t F = shape_.feed_forward;
  Multiply(block.up, count, C, shape_.up_width(), rows_.normal, rows_.wide);
  if (shape_.activation == TransformerShape::Activation::kSwiGlu) {
    SwiGlu<float>(count, F, rows_.wide, rows_.inner);
  } else {
    Gelu<float>(count * F, rows_.wide, rows_.inner);
  }
  Multiply(block.down, count, F, C, rows_.inner, rows_.branch);
}

void TransformerDecoder::TakeIn(absl::Span<const int32_t> tokens) {
  const int64_t count = tokens.size();
  TokenEmbeddingShape embedding;
  embedding.rows = count;
  embedding.context = count;
  embedding.first_position = position_;
  embedding.width = shape_.width;
  embedding.vocabulary = shape_.vocabulary;
  TokenEmbedding<float>(embedding, tokens.data(), Get(tensors_.embedding), Get(tensors_.positions),
                        rows_.stream);
  const float* branch = nullptr;
  for (int64_t l = 0; l < shape_.layers; ++l) {
    Normalise(tensors_.blocks[l].norm1, count, branch);
    Attend(l, count);
    branch = rows_.branch;
    Normalise(tensors_.blocks[l].norm2, count, branch);
    FeedForward(l, count);
  }
  Normalise(tensors_.norm, count, branch);
  position_ += count;
}

absl::Status TransformerDecoder::Check(absl::Span<const int32_t> tokens) const {
  if (tokens.empty()) return absl::InvalidArgumentError("no token is given");
  for (int32_t token : tokens) {
    if (token >= 0 && token < shape_.vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("token ", token, " is outside the vocabulary of ", shape_.vocabulary));
  }
  if (position_ + static_cast<int64_t>(tokens.size()) > capacity_) {
    return absl::OutOfRangeError(
        absl::StrCat(tokens.size(), " tokens after ", position_, " are more than the context of ",
                     capacity_, " holds; reset and begin again with the last of them"));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const float>> TransformerDecoder::Prefill(
    absl::Span<const int32_t> tokens) {
  MUSTER_RETURN_IF_ERROR(Check(tokens));
  int64_t last = 0;
  for (size_t first = 0; first < tokens.size(); first += kRowsAtOnce) {
    const absl::Span<const int32_t> part = tokens.subspan(first, kRowsAtOnce);
    TakeIn(part);
    last = static_cast<int64_t>(part.size()) - 1;
  }
  Multiply({.weight = tensors_.head}, 1, shape_.width, shape_.vocabulary,
           rows_.normal + last * shape_.width, logits_.data());
  return absl::MakeConstSpan(logits_);
}

absl::StatusOr<absl::Span<const float>> TransformerDecoder::Next(int32_t token) {
  return Prefill(absl::MakeConstSpan(&token, 1));
}

}  // namespace muster
