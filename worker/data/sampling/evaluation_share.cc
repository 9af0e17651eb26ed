#include "worker/data/sampling/evaluation_share.h"

namespace muster {

EvaluationShare::EvaluationShare(const Split& split, const EvaluationShareOptions& options)
    : split_(split),
      data_rank_(options.data_rank),
      data_ranks_(options.data_ranks),
      evaluated_(options.max_examples > 0 && options.max_examples < split.held_out
                     ? options.max_examples
                     : split.held_out) {}

void EvaluationShare::BatchExamples(int64_t batch, int64_t most,
                                    std::vector<int64_t>& examples) const {
  const Share part = DivisionBy(most).Batch(data_rank_, batch);
  examples.clear();
  examples.reserve(part.size());
  for (int64_t i = part.begin; i < part.end; ++i) {
    examples.push_back(split_.training + ShareOf(split_.held_out, i, evaluated_).begin);
  }
}

}  // namespace muster
