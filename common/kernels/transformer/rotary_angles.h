#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ROTARY_ANGLES_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ROTARY_ANGLES_H_

#include <cstdint>
#include <vector>

namespace muster {

// The angles by which rotary positions turn pairs of elements: position · frequency of the pair.
// Pair i of a head of D elements has the frequency base^(-2i / D), unless it is scaled for longer
// contexts than the one that a model was first trained on. All numbers are f64.
struct RotaryAngles {
  enum class Scaling {
    kNone,
    // Every frequency is divided by `factor` (Chen et al., "Extending Context Window of Large
    // Language Models via Positional Interpolation", 2023).
    kLinear,
    // Llama 3.1's. A pair turns original_context · frequency / 2π times over the original context:
    // frequencies of fewer than low_factor turns are divided by `factor`, those of more than
    // high_factor are kept, and those between are mixed in proportion to their turns.
    kLlama3,
    // Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023. Pairs
    // before the one that turns beta_fast times over the original context keep their frequency,
    // those behind the one that turns beta_slow times have it divided by `factor`, and those
    // between are mixed in proportion to their index. Both limits are whole pairs.
    kYarn,
  };

  double base = 10000;
  Scaling scaling = Scaling::kNone;
  double factor = 1;
  // kLlama3 and kYarn read this.
  double original_context = 0;
  // kLlama3 reads these: 0 < low_factor < high_factor.
  double low_factor = 1;
  double high_factor = 4;
  // kYarn reads these: beta_fast > beta_slow > 0.
  double beta_fast = 32;
  double beta_slow = 1;
  // Multiplies sines and cosines, and so queries and keys.
  double amplitude = 1;
};

// Returns the frequency of each pair, head_dim / 2 in number. REQUIRES: head_dim even.
std::vector<double> RotaryFrequencies(const RotaryAngles& angles, int64_t head_dim);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_ROTARY_ANGLES_H_
