#ifndef MUSTER_COMMON_PLAN_CALLS_LAYER_CALLS_H_
#define MUSTER_COMMON_PLAN_CALLS_LAYER_CALLS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/mesh/mesh.h"
#include "common/plan/calls/step_calls.h"
#include "common/plan/size/model_size.h"
#include "common/step/action.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"

namespace muster {

// A perceptron's layer that tensor ranks divide.
struct DividedLayer {
  bool by_inputs = false;
  uint64_t inputs = 0;
  uint64_t outputs = 0;
};

// The calls that a rank starts within layers, while a unit computes: those of its tensor group, of
// its context group, of ranks that share out experts, and of those that count choices together. The
// models say them a second time, between kernels (docs/architecture.md).
class LayerCalls {
 public:
  // `units` is the number of the stages' units, and `layers` are a perceptron's, by unit. Calls are
  // appended to `calls`. All arguments but `units` outlive this.
  LayerCalls(const v1::JobSpec& spec, const Mesh& mesh, int units,
             absl::Span<const std::vector<DividedLayer>> layers, std::vector<StepCall>& calls);

  // Adds an action's calls. `examples` has the examples of each micro-batch.
  void Add(const StepAction& action, absl::Span<const uint64_t> examples);

 private:
  void AddPerceptron(int unit, bool forward, bool backward);
  // Adds the calls of a context group's ranks while a block attends.
  void Exchange(bool backward);
  // Adds the exchange of attention's outputs, or that of queries, keys and values.
  void ExchangeHeads(absl::string_view name, bool outputs);
  void Pass(absl::string_view name, DType type, uint64_t count);
  void AddContextCall(absl::string_view name, Collective kind, DType type, uint64_t count);
  void AddHead(bool trains);
  // `experts`: the feed-forward layer is made of experts, and computed by each rank for tokens of
  // its own.
  void AddBlockForward(bool experts);
  void AddBlockBackward(bool experts, bool split);
  // Returns whether the first product of a block's feed-forward (0) or attention (1) has adapters,
  // whose gradients are made at once.
  bool HasAdapters(int half) const;
  void SumChoices();
  // Sums counts of choices over the ranks of a data rank, and some or none over data ranks.
  void AddChoiceCalls(uint64_t numbers, uint64_t of_data_ranks);
  // Rows of tokens between expert ranks, of whom each gets as many, and their weights: what routers
  // choose may differ.
  void SendRows(absl::string_view name, bool weights);
  void AddExpertCall(absl::string_view name, Collective kind, DType type, uint64_t count);
  uint64_t tokens() const;
  uint64_t RowsOfRank() const;
  void GatherTokens(absl::string_view what);
  void GatherTokens(absl::string_view what, DType type);
  void SumTokens(DType type);
  void AddSum(DType type, uint64_t count);
  void AddTensorCall(absl::string_view name, Collective kind, DType type, uint64_t count);
  int size(Axes axes) const { return mesh_.size(axes); }

  const v1::JobSpec& spec_;
  const Mesh& mesh_;
  const int units_;
  const absl::Span<const std::vector<DividedLayer>> layers_;
  const TransformerSize transformer_;
  const DType type_;
  const bool divides_tokens_;
  const bool calls_within_layers_;
  std::vector<StepCall>& calls_;
  // The micro-batch at hand has so many.
  uint64_t examples_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_CALLS_LAYER_CALLS_H_
