#ifndef MUSTER_WORKER_NN_TRANSFORMER_ADAPTERS_BLOCK_ADAPTERS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ADAPTERS_BLOCK_ADAPTERS_H_

#include <cstdint>
#include <vector>

#include "worker/nn/transformer/adapters/low_rank_adapter.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// A block's products that may have adapters. That of queries, keys and values has up to three, and
// the first one of feed-forward two where it is gated, each of its own columns.
enum class AdaptedLayer { kQkv, kProj, kUp, kDown };

// The adapters of one block, by layer (LowRankAdapter). Holds shapes only. Thread-safe.
class BlockAdapters {
 public:
  // The shape is the rank's own.
  BlockAdapters(const TransformerShape& shape, int64_t layer);

  bool Has(AdaptedLayer layer) const { return !Of(layer).empty(); }

  // One call of the block works with these. Gradients are null in forward.
  struct Arrays {
    const BlockWeights& weights;
    const AdapterScratch& scratch;
    const BlockGradients* gradients = nullptr;
  };

  // LowRankAdapter's, of all adapters of the layer. x are all rows of its input, and y, dy, dx all
  // rows of arrays of its product.
  void AddForward(const ComputeContext& context, AdaptedLayer layer, const Arrays& arrays,
                  const void* x, void* y) const;
  void BackwardWeights(const ComputeContext& context, AdaptedLayer layer, const Arrays& arrays,
                       const void* x, const void* dy) const;
  void AddInputGradient(const ComputeContext& context, AdaptedLayer layer, const Arrays& arrays,
                        const void* dy, void* dx, const void* before = nullptr) const;

 private:
  struct Adapter {
    AdapterTarget target;
    LowRankAdapter adapter;
  };

  const std::vector<Adapter>& Of(AdaptedLayer layer) const {
    return layers_[static_cast<int>(layer)];
  }
  void Add(const TransformerShape& shape, int64_t block, AdaptedLayer layer, AdapterTarget target,
           const LowRankAdapter::Place& place);

  // Const after construction.
  std::vector<Adapter> layers_[4];
};

// One layer's adapters in one call; none: the layer has none.
struct LayerAdapters {
  const BlockAdapters* adapters = nullptr;
  AdaptedLayer layer = AdaptedLayer::kQkv;
  const BlockAdapters::Arrays* arrays = nullptr;

  bool exist() const { return adapters != nullptr && adapters->Has(layer); }
  void AddForward(const ComputeContext& context, const void* x, void* y) const {
    if (exist()) adapters->AddForward(context, layer, *arrays, x, y);
  }
  void BackwardWeights(const ComputeContext& context, const void* x, const void* dy) const {
    if (exist()) adapters->BackwardWeights(context, layer, *arrays, x, dy);
  }
  void AddInputGradient(const ComputeContext& context, const void* dy, void* dx,
                        const void* before = nullptr) const {
    if (exist()) adapters->AddInputGradient(context, layer, *arrays, dy, dx, before);
  }
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ADAPTERS_BLOCK_ADAPTERS_H_
