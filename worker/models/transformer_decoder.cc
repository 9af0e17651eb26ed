#include "worker/models/transformer_decoder.h"

#include <algorithm>
#include <cstdlib>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/transformer/attention.h"
#include "common/kernels/transformer/rotary.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/attention/attention_step.h"

namespace muster {
namespace {

// Bounds the memory of a long prompt.
constexpr int64_t kRowsAtOnce = 256;

// Adds the keys and values of one sequence's tokens to the cache and attends to all of the cache.
// In f32.
class CachedAttentionStep final : public AttentionStep {
 public:
  explicit CachedAttentionStep(const KeyValueCache& cache) : cache_(cache) {}

  void Forward(const ComputeContext& context, const AttentionShape& shape,
               const AttentionArrays& arrays) const override {
    const int64_t first = context.rows.first_position;
    const auto* qkv = static_cast<const float*>(arrays.qkv);
    AppendKeyValues(shape, first, qkv, cache_);
    CachedAttention(shape, first, qkv, cache_, static_cast<float*>(arrays.out));
  }

 private:
  const KeyValueCache cache_;
};

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
      embedding_(shape),
      // Needs no name for its branch: nothing is dropped in an evaluation.
      norm_(shape, ""),
      memory_(shape, DType::kF32, Recompute::kNone),
      parameters_(parameters.begin(), parameters.end()),
      capacity_(std::min(shape.context, kMostTokens)),
      // Zero pages, of which only those are taken that tokens come to.
      cache_(static_cast<float*>(std::calloc(
          shape.layers * 2 * shape.kv_heads * capacity_ * shape.head_dim(), sizeof(float)))) {
  if (shape.tied_head) parameters_[tensors_.head] = parameters_[tensors_.embedding];
  if (shape.positions == TransformerShape::Positions::kRotary) {
    rotary_table_.resize(capacity_ * shape.head_dim());
    FillRotaryTable(capacity_, shape.head_dim(), shape.rotary, rotary_table_.data());
  }
  const float* table = rotary_table_.empty() ? nullptr : rotary_table_.data();
  for (int64_t l = 0; l < shape.layers; ++l) blocks_.emplace_back(shape, l, table);
}

const float* TransformerDecoder::Get(int tensor) const {
  return tensor == kNoTensor ? nullptr : parameters_[tensor].data();
}

BlockWeights TransformerDecoder::WeightsOf(const BlockTensors& block) const {
  std::array<AdapterWeights, kAdapterTargets> adapters;
  for (int target = 0; target < kAdapterTargets; ++target) {
    adapters[target] = {Get(block.adapters[target].down), Get(block.adapters[target].up)};
  }
  return {.norm1 = {Get(block.norm1.weight), Get(block.norm1.bias)},
          .qkv = {Get(block.qkv.weight), Get(block.qkv.bias)},
          .query_key = {Get(block.query_norm), Get(block.key_norm)},
          .proj = {Get(block.proj.weight), Get(block.proj.bias)},
          .norm2 = {Get(block.norm2.weight), Get(block.norm2.bias)},
          .up = {Get(block.up.weight), Get(block.up.bias)},
          .down = {Get(block.down.weight), Get(block.down.bias)},
          .experts = {.router = Get(block.router),
                      .router_bias = Get(block.router_bias),
                      .up = Get(block.expert_up),
                      .down = Get(block.expert_down),
                      .shared_gate = Get(block.shared_gate)},
          .adapters = adapters};
}

const float* TransformerDecoder::TakeIn(absl::Span<const int32_t> tokens) {
  const int64_t count = tokens.size();
  const ComputeContext context = {
      .ops = ops_,
      .rows = {.sequences = 1, .length = count, .first_position = position_},
      .pass = Pass::kEvaluation};
  memory_.Prepare(context);
  float* embedded = memory_.arrays().blocks[0].norm1.sum;
  embedding_.Forward(context, {.tokens = tokens.data()},
                     {.table = Get(tensors_.embedding), .positions = Get(tensors_.positions)},
                     embedded, /*block=*/nullptr);
  ResidualStream stream = {.sum = embedded};
  const int64_t layer_size = shape_.kv_heads * capacity_ * shape_.head_dim();
  float* keys = cache_.get();
  for (int64_t l = 0; l < shape_.layers; ++l) {
    const CachedAttentionStep attention(
        {.keys = keys, .values = keys + layer_size, .capacity = capacity_});
    stream = blocks_[l].Forward(context, attention, WeightsOf(tensors_.blocks[l]), stream,
                                memory_.arrays().blocks[l], memory_.arrays().scratch);
    keys += 2 * layer_size;
  }
  norm_.Forward(context, {Get(tensors_.norm.weight), Get(tensors_.norm.bias)}, stream,
                memory_.arrays().head.norm, memory_.arrays().head.norm_out);
  position_ += count;
  return static_cast<const float*>(memory_.arrays().head.norm_out) + (count - 1) * shape_.width;
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
  const float* last = nullptr;
  for (size_t first = 0; first < tokens.size(); first += kRowsAtOnce) {
    last = TakeIn(tokens.subspan(first, kRowsAtOnce));
  }
  // Only one row of the memory for logits is touched, and so becomes resident.
  float* logits = memory_.arrays().head.logits;
  ops_.LinearForward({.rows = 1, .in = shape_.width, .out = shape_.vocabulary},
                     {.x = last, .weight = Get(tensors_.head), .y = logits});
  return absl::MakeConstSpan(logits, shape_.vocabulary);
}

}  // namespace muster
