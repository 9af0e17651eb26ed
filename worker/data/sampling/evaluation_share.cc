#include "worker/data/sampling/evaluation_share.h"

namespace muster {
namespace {

// Returns a * b / c rounded down, where a * b may need more than 64 bits.
int64_t MultiplyDivide(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<__int128>(a) * b / c);
}

}  // namespace

EvaluationShare::EvaluationShare(const Split& split, const EvaluationShareOptions& options)
    : split_(split),
      evaluated_(options.max_examples > 0 && options.max_examples < split.held_out
                     ? options.max_examples
                     : split.held_out),
      begin_(MultiplyDivide(evaluated_, options.data_rank, options.data_ranks)),
      end_(MultiplyDivide(evaluated_, options.data_rank + 1, options.data_ranks)) {}

void EvaluationShare::Examples(int64_t first, int64_t count, std::vector<int64_t>& examples) const {
  examples.clear();
  examples.reserve(count);
  for (int64_t i = begin_ + first; i < begin_ + first + count; ++i) {
    examples.push_back(split_.training + MultiplyDivide(i, split_.held_out, evaluated_));
  }
}

}  // namespace muster
