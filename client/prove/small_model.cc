#include "client/prove/small_model.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr uint32_t kHeadWidth = 16;
// Columns of a feed-forward layer for each tensor rank, and of an expert.
constexpr uint32_t kFeedForward = 64;
constexpr uint32_t kExpertWidth = 32;
// Tokens of each of a context rank's two chunks.
constexpr uint32_t kChunk = 16;

uint32_t AtLeastOne(uint32_t value) { return std::max(1u, value); }

// Leaves the layers of a list that a model of so many has.
void KeepLayers(uint32_t layers, google::protobuf::RepeatedField<uint32_t>& list) {
  std::vector<uint32_t> kept(list.begin(), list.end());
  kept.erase(std::remove_if(kept.begin(), kept.end(), [=](uint32_t l) { return l >= layers; }),
             kept.end());
  list.Assign(kept.begin(), kept.end());
}

void MakeHeadsFew(uint32_t ranks, v1::TransformerSpec& model) {
  const uint32_t kv_heads = model.kv_heads() == 0 ? model.heads() : model.kv_heads();
  // Otherwise ranks share heads in a way that fewer heads would not have.
  if (kv_heads % ranks == 0) {
    const bool grouped = kv_heads < model.heads();
    model.set_heads(std::min(model.heads(), 2 * ranks));
    model.set_kv_heads(grouped ? ranks : model.heads());
  }
  if (model.head_width() > 0) model.set_head_width(kHeadWidth);
  model.set_width(model.heads() * kHeadWidth);
}

void MakeExpertsFew(const v1::ParallelismSpec& mesh, v1::TransformerSpec& model) {
  v1::MoeSpec& moe = *model.mutable_moe();
  moe.set_expert_width(kExpertWidth);
  if (moe.shared_width() > 0) moe.set_shared_width(kExpertWidth * AtLeastOne(mesh.tensor()));
  // Groups are kinds of routers, too.
  if (moe.groups() <= 1) {
    const uint32_t ranks = AtLeastOne(mesh.expert());
    const uint32_t each = std::max(2u, (2 * moe.top_k() + ranks - 1) / ranks);
    moe.set_experts(std::min(moe.experts(), ranks * each));
  }
  KeepLayers(model.layers(), *moe.mutable_dense_layers());
  if (moe.dense_layers_size() == static_cast<int>(model.layers())) moe.clear_dense_layers();
}

}  // namespace

absl::StatusOr<std::string> MakeSmall(v1::JobSpec& spec) {
  if (!spec.model().has_transformer()) {
    return absl::InvalidArgumentError(
        "only a transformer can be made small; make the model small with --set");
  }
  v1::TransformerSpec& model = *spec.mutable_model()->mutable_transformer();
  v1::ParallelismSpec& mesh = *spec.mutable_parallelism();
  const uint32_t tensor = AtLeastOne(mesh.tensor()), context = AtLeastOne(mesh.context());
  const uint32_t stages = AtLeastOne(mesh.pipeline()) * AtLeastOne(mesh.pipeline_chunks());
  mesh.clear_pipeline_layers();
  model.set_layers(std::min(model.layers(), std::max(2u, stages)));
  const bool by_heads = mesh.context_exchange() == v1::ParallelismSpec::HEADS;
  MakeHeadsFew(tensor * (by_heads ? context : 1), model);
  model.set_feed_forward(kFeedForward * tensor);
  model.set_context(std::min(model.context(), 2 * context * kChunk * tensor));
  if (model.sliding_window() > 0) {
    model.set_sliding_window(std::min(model.sliding_window(), model.context() / 2));
  }
  KeepLayers(model.layers(), *model.mutable_whole_layers());
  if (model.has_moe()) MakeExpertsFew(mesh, model);
  const uint32_t micro_batches = std::min(AtLeastOne(spec.micro_batches()), std::max(2u, stages));
  spec.set_micro_batches(micro_batches);
  spec.set_batch_size(std::min(spec.batch_size(), AtLeastOne(mesh.data()) * micro_batches));
  return absl::StrCat("the model is small: ", model.layers(), " layers of width ", model.width(),
                      ", ", model.heads(), " heads, sequences of ", model.context(),
                      " tokens, a batch of ", spec.batch_size());
}

}  // namespace muster
