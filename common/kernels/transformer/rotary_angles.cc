#include "common/kernels/transformer/rotary_angles.h"

#include <algorithm>
#include <cmath>

namespace muster {
namespace {

constexpr double kTurn = 6.283185307179586;

// Returns how much of a frequency is to be divided, from 0 to 1: kLlama3's, by its turns over the
// original context.
double Llama3Share(const RotaryAngles& angles, double frequency) {
  const double turns = angles.original_context * frequency / kTurn;
  return std::clamp((angles.high_factor - turns) / (angles.high_factor - angles.low_factor), 0.0,
                    1.0);
}

// Returns the index of the pair that turns so often over the original context.
double PairOfTurns(const RotaryAngles& angles, double head_dim, double turns) {
  return head_dim * std::log(angles.original_context / (turns * kTurn)) /
         (2 * std::log(angles.base));
}

// Returns the same share of kYarn, for pair i.
double YarnShare(const RotaryAngles& angles, double head_dim, double i) {
  const double first = std::max(std::floor(PairOfTurns(angles, head_dim, angles.beta_fast)), 0.0);
  const double last =
      std::min(std::ceil(PairOfTurns(angles, head_dim, angles.beta_slow)), head_dim - 1);
  // Published programs part equal limits so.
  const double width = first == last ? 0.001 : last - first;
  return std::clamp((i - first) / width, 0.0, 1.0);
}

}  // namespace

std::vector<double> RotaryFrequencies(const RotaryAngles& angles, int64_t head_dim) {
  const auto D = static_cast<double>(head_dim);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double frequency = std::pow(angles.base, -2.0 * static_cast<double>(i) / D);
    double divided = 0;
    switch (angles.scaling) {
      case RotaryAngles::Scaling::kNone:
        break;
      case RotaryAngles::Scaling::kLinear:
        divided = 1;
        break;
      case RotaryAngles::Scaling::kLlama3:
        divided = Llama3Share(angles, frequency);
        break;
      case RotaryAngles::Scaling::kYarn:
        divided = YarnShare(angles, D, static_cast<double>(i));
        break;
    }
    frequencies.push_back(divided * frequency / angles.factor + (1 - divided) * frequency);
  }
  return frequencies;
}

}  // namespace muster
